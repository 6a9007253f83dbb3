"""Refusals by webhooks and policies, and objects of the API server itself."""

from __future__ import annotations

import base64

import orjson

from kcm.actors.explanation.kinds import API_SERVICES, CERTIFICATE_SIGNING_REQUESTS
from kcm.actors.simulation.trials.certificates.keys import authority_files, reset
from kcm.protocols.objects import Object
from kcm.protocols.resources import (
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    VALIDATING_ADMISSION_POLICIES,
    Resource,
)
from kcm.runtime.apiserver.core.questions import Answer, Post, Question
from tests.actors.explanation.scenario import Scenario, Scene, pod_template

WEBHOOKS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingwebhookconfigurations",
    kind="ValidatingWebhookConfiguration",
    namespaced=False,
)
BINDINGS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicybindings",
    kind="ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
PODS_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
OWNERS = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet")


def _here(scene: Scene) -> Object:
    return {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}


def _webhook(scene: Scene) -> None:
    webhook = {
        "name": "pods.example.com",
        "rules": [PODS_RULE],
        "clientConfig": {"url": "https://hooks.example.com/pods"},
        "namespaceSelector": _here(scene),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }
    scene.create(WEBHOOKS, scene.namespace, {"webhooks": [webhook]})


def webhook_down(scene: Scene) -> tuple[str, str]:
    _webhook(scene)
    return scene.pod_owner("web", kind=scene.chance.choice(OWNERS))


def webhook_denies(scene: Scene) -> tuple[str, str]:
    def deny(question: Question) -> Answer:
        assert isinstance(question, Post)
        review = orjson.loads(question.body)
        response = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "no team label"}}
        return Answer(200, orjson.dumps({**review, "response": response}))

    scene.cluster.webhooks.otherwise = deny
    _webhook(scene)
    return scene.pod_owner("web", kind=scene.chance.choice(OWNERS))


def policy(scene: Scene) -> tuple[str, str]:
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [PODS_RULE], "namespaceSelector": _here(scene)},
        "validations": [{"expression": "has(object.metadata.labels.team)", "message": "a team is required"}],
    }
    scene.create(VALIDATING_ADMISSION_POLICIES, scene.namespace, {"spec": spec})
    binding = {"policyName": scene.namespace, "validationActions": ["Deny"]}
    scene.create(BINDINGS, scene.namespace, {"spec": binding})
    scene.run(2.0)
    return scene.pod_owner("web", kind=scene.chance.choice(OWNERS))


def long_name(scene: Scene) -> tuple[str, str]:
    """Create a StatefulSet whose name makes the label controller-revision-hash too long."""
    name = "a" * scene.chance.randint(55, 60)
    spec, metadata = pod_template("long")
    body = {
        "serviceName": "long",
        "selector": {"matchLabels": {"app": "long"}},
        "template": {"metadata": metadata, "spec": spec},
    }
    scene.apply({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": body})
    return "StatefulSet", name


# Certificates, APIs, owners.


def _request(scene: Scene, signer: str, *usages: str) -> str:
    name = f"{scene.namespace}-request"
    body = {
        "spec": {
            "request": _certificate_request(),
            "signerName": signer,
            "usages": ["digital signature", *(usages or ("client auth",))],
        }
    }
    scene.create(CERTIFICATE_SIGNING_REQUESTS, name, body)
    return name


def _certificate_request() -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def unapproved(scene: Scene) -> tuple[str, str]:
    signer = scene.chance.choice(("kubernetes.io/kube-apiserver-client", "example.com/signer"))
    return "CertificateSigningRequest", _request(scene, signer)


def _decide(scene: Scene, name: str, type: str) -> None:
    condition = {"type": type, "status": "True", "reason": "Operator", "message": "by hand"}
    scene.merge("csr", name, {"status": {"conditions": [condition]}}, subresource="approval")


def denied(scene: Scene) -> tuple[str, str]:
    name = _request(scene, "kubernetes.io/kube-apiserver-client")
    _decide(scene, name, "Denied")
    return "CertificateSigningRequest", name


def unsigned(scene: Scene) -> tuple[str, str]:
    name = _request(scene, "example.com/signer")
    _decide(scene, name, "Approved")
    return "CertificateSigningRequest", name


def signing_flags() -> tuple[str, ...]:
    reset()
    files = authority_files()
    return (f"--cluster-signing-cert-file={files.certificate}", f"--cluster-signing-key-file={files.key}")


def rejected(scene: Scene) -> tuple[str, str]:
    """Approve a request whose usages its signer does not permit."""
    name = _request(scene, "kubernetes.io/kube-apiserver-client", scene.chance.choice(("server auth", "code signing")))
    _decide(scene, name, "Approved")
    return "CertificateSigningRequest", name


def api_service(scene: Scene) -> tuple[str, str]:
    name = "v1.things.example.com"
    spec = {
        "group": "things.example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 10,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": scene.namespace, "name": "absent"},
    }
    scene.create(API_SERVICES, name, {"spec": spec})
    return "APIService", name


THINGS = Resource(group="example.com", version="v1", plural="things", kind="Thing")


def define_things(scene: Scene) -> None:
    """Serve a custom resource, which has no controller here: the scenario writes what its operator writes."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    scene.create(CUSTOM_RESOURCE_DEFINITIONS, "things.example.com", {"spec": spec})
    scene.run(5.0)
    scene.stage.kinds["Thing"] = THINGS


def failing_thing(scene: Scene) -> tuple[str, str]:
    """Report a failure, as an operator does that cannot reach something."""
    define_things(scene)
    type_, status = scene.chance.choice((("Ready", "False"), ("Available", "False"), ("Degraded", "True")))
    condition = {"type": type_, "status": status, "reason": "Unreachable", "message": "db.example.com: timed out"}
    scene.create(THINGS, "failing", {"spec": {}, "status": {"conditions": [condition]}})
    return "Thing", "failing"


def stopped_operator(scene: Scene) -> tuple[str, str]:
    """Change an object after its operator has been stopped."""
    define_things(scene)
    scene.create(THINGS, "waiting", {"spec": {"size": 1}, "status": {"observedGeneration": 1}})
    scene.run(5.0)
    scene.cluster.merge(THINGS, scene.key("waiting"), {"spec": {"size": scene.chance.randint(2, 9)}})
    return "Thing", "waiting"


def orphan(scene: Scene) -> tuple[str, str]:
    system = scene.stage.system
    assert system is not None
    system.disable("garbage-collector-controller")
    scene.run(5.0)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": "00000000-0000-0000-0000-000000000000"}
    scene.create(CONFIGMAPS, "child", {"data": {}}, ownerReferences=[owner])
    return "ConfigMap", "child"


SCENARIOS = (
    Scenario(name="webhook does not respond", code="webhook-unavailable", act=webhook_down),
    Scenario(name="webhook denies the pod", code="webhook-denied", act=webhook_denies, alone=True),
    Scenario(name="policy denies the pod", code="policy-denied", act=policy),
    Scenario(name="name makes a label too long", code="invalid-template", act=long_name),
    Scenario(name="certificate request is not approved", code="csr-unapproved", act=unapproved),
    Scenario(name="certificate request was denied", code="csr-denied", act=denied),
    Scenario(name="certificate request is not signed", code="csr-unsigned", act=unsigned),
    Scenario(
        name="signer rejects a certificate request",
        code="csr-failed",
        act=rejected,
        flags=signing_flags,
        alone=True,
    ),
    Scenario(name="custom resource reports a failure", code="condition-false", act=failing_thing, alone=True),
    Scenario(
        name="operator of a custom resource does not run",
        code="unexplained",
        act=stopped_operator,
        wait=100.0,
        alone=True,
    ),
    Scenario(name="service of an API does not exist", code="api-service-unavailable", act=api_service, alone=True),
    Scenario(name="owner does not exist", code="missing-owner", act=orphan, alone=True),
)
