"""Controllers that lack one right each, on the embedded server with RBAC and a service account per controller.

The check and the log of the controller name verb and resource, and the checks of all other controllers pass.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kcm.runtime.apiserver.process.launch import MANAGER, STORE, launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from kcm.runtime.simulation.keys import AuthorityFiles, authority_pair, request_der, request_pem
from tests.e2e.conftest import Site
from tests.e2e.kubectl import Api, Object
from tests.e2e.programs import ending, managing, run_kcm, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SPACE = "rights"
CORE, APPS, BATCH = (
    f"/api/v1/namespaces/{SPACE}",
    f"/apis/apps/v1/namespaces/{SPACE}",
    f"/apis/batch/v1/namespaces/{SPACE}",
)
SYSTEM = "/api/v1/namespaces/kube-system"
LABELS = {"app": "web"}
MERGE = "application/merge-patch+json"
DAY = 86400.0
PCR_STORAGE = "podcertificaterequests.certificates.k8s.io"
TEMPLATE: Object = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
WORKLOAD: Object = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": TEMPLATE}
NODE_GRACE = "--node-startup-grace-period=3s"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("rights")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (directory / "sa.key").write_bytes(pem)
    now = time.time()
    authority = AuthorityFiles("rights", authority_pair("ca", begin=now - DAY, end=now + 30 * DAY))
    flags = (
        f"--embedded-dir={directory / 'kcm'}",
        "--embedded-in-memory",
        "--hollow-nodes=0",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={directory / 'sa.key'}",
        "--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
        "--cloud-provider=fake",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.120.0.0/16",
        f"--cluster-signing-cert-file={authority.certificate}",
        f"--cluster-signing-key-file={authority.key}",
        "--terminated-pod-gc-threshold=1",
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=3s",
        NODE_GRACE,
        "--route-reconciliation-period=2s",
        "--horizontal-pod-autoscaler-sync-period=1s",
    )
    with managing(directory / "kcm.log", *flags) as manager:
        api = Api(directory / "kcm" / "kubeconfig")
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
        yield Site(directory / "kcm" / "kubeconfig", manager)


def post(api: Api, path: str, name: str, *, meta: Object | None = None, **fields: Any) -> Object:
    return api.request("POST", path, {"metadata": {"name": name, **(meta or {})}, **fields})


def workload(collection: str, *, spec: Object | None = None) -> Callable[[Api], Any]:
    def provoke(api: Api) -> None:
        post(api, collection, "web", spec=spec or WORKLOAD)

    return provoke


def add_service(api: Api, name: str, **spec: Any) -> None:
    post(api, f"{CORE}/services", name, spec={"ports": [{"port": 80}], **spec})


def mirrored(api: Api) -> None:
    add_service(api, "mirrored")
    subsets = [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]
    post(api, f"{CORE}/endpoints", "mirrored", subsets=subsets)


def ended_pods(api: Api) -> None:
    for number in range(6):
        post(api, f"{CORE}/pods", f"ended-{number}", spec=TEMPLATE["spec"])
        api.request("PATCH", f"{CORE}/pods/ended-{number}/status", {"status": {"phase": "Succeeded"}}, type=MERGE)


def new_namespace(name: str) -> Callable[[Api], Any]:
    return lambda api: post(api, "/api/v1/namespaces", name)


def deleted_namespace(api: Api) -> None:
    post(api, "/api/v1/namespaces", "doomed")
    time.sleep(1.0)  # its service account and certificates are created
    api.request("DELETE", "/api/v1/namespaces/doomed")


def dependents(api: Api) -> None:
    owner = post(api, f"{CORE}/configmaps", "owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    for number in range(4):
        post(api, f"{CORE}/configmaps", f"of-owner-{number}", meta={"ownerReferences": [reference]})
    api.request("DELETE", f"{CORE}/configmaps/owner")


def autoscaler(api: Api) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "missing"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3}
    post(api, f"/apis/autoscaling/v2/namespaces/{SPACE}/horizontalpodautoscalers", "web", spec=spec)


def budget(api: Api) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": LABELS}}
    post(api, f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets", "web", spec=spec)


def stateful_set(api: Api) -> None:
    post(api, f"{APPS}/statefulsets", "web", spec={**WORKLOAD, "serviceName": "web"})


def daemon_set(api: Api) -> None:
    post(api, f"{APPS}/daemonsets", "web", spec={"selector": {"matchLabels": LABELS}, "template": TEMPLATE})


def job_spec(**more: Any) -> Object:
    return {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}, **more}


def job(api: Api) -> None:
    post(api, f"{BATCH}/jobs", "web", spec=job_spec())


def cron_job(api: Api) -> None:
    post(api, f"{BATCH}/cronjobs", "web", spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job_spec()}})
    active = [{"apiVersion": "batch/v1", "kind": "Job", "name": "lost", "namespace": SPACE, "uid": "lost"}]
    api.request("PATCH", f"{BATCH}/cronjobs/web/status", {"status": {"active": active}}, type=MERGE)


def finished_job(api: Api) -> None:
    made = post(api, f"{BATCH}/jobs", "done", spec=job_spec(ttlSecondsAfterFinished=0, suspend=True))
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    types = ("SuccessCriteriaMet", "Complete")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in types]
    status = {"conditions": conditions, "startTime": now, "completionTime": now, "succeeded": 1}

    def is_done() -> bool:
        try:
            api.request("PUT", f"{BATCH}/jobs/done/status", {**api.get(f"{BATCH}/jobs/done"), "status": status})
        except HTTPError as err:
            with err:
                return False
        return True

    until(is_done, f"the Job {made['metadata']['name']} is complete")


def certificate_request(name: str) -> Callable[[Api], Any]:
    """Create a request that certificatesigningrequest-approving-controller approves."""
    spec: Object = {
        "request": base64.b64encode(request_pem("system:node:n", "system:nodes")).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["client auth", "digital signature"],
    }
    return lambda api: post(api, "/apis/certificates.k8s.io/v1/certificatesigningrequests", name, spec=spec)


def node(name: str, *, taints: list[Object] | None = None, **meta: Any) -> Callable[[Api], Any]:
    def provoke(api: Api) -> None:
        post(api, "/api/v1/nodes", name, meta=meta, spec={"taints": taints or []})

    return provoke


def tainted_pods(api: Api) -> None:
    node("tainted", taints=[{"key": "broken", "effect": "NoExecute"}])(api)
    post(api, f"{CORE}/pods", "bound", spec={**TEMPLATE["spec"], "nodeName": "tainted"})


def aggregated_role(api: Api) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    aggregation = {"clusterRoleSelectors": [{"matchLabels": LABELS}]}
    post(api, f"{RBAC}/clusterroles", "whole", aggregationRule=aggregation, rules=[])
    post(api, f"{RBAC}/clusterroles", "part", meta={"labels": LABELS}, rules=[rule])


def volume_spec(name: str) -> Object:
    capacity = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    return {**capacity, "hostPath": {"path": f"/{name}"}, "storageClassName": "manual"}


def claim(api: Api, name: str) -> None:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "resources": resources}
    post(api, f"{CORE}/persistentvolumeclaims", name, spec=spec)


def bound_claim(api: Api) -> None:
    post(api, "/api/v1/persistentvolumes", "bound", spec=volume_spec("bound"))
    claim(api, "bound")


def deleted_claim(api: Api) -> None:
    claim(api, "deleted")
    api.request("DELETE", f"{CORE}/persistentvolumeclaims/deleted")


def deleted_volume(api: Api) -> None:
    post(api, "/api/v1/persistentvolumes", "deleted", spec={**volume_spec("deleted"), "storageClassName": "other"})
    api.request("DELETE", "/api/v1/persistentvolumes/deleted")


def deleted_attributes_class(api: Api) -> None:
    classes = "/apis/storage.k8s.io/v1/volumeattributesclasses"
    post(api, classes, "gold", driverName="example.com", parameters={"tier": "gold"})
    until(lambda: "finalizers" in api.get(f"{classes}/gold")["metadata"], "it is protected")
    api.request("DELETE", f"{classes}/gold")


def token_secret(api: Api) -> None:
    post(api, f"{CORE}/serviceaccounts", "builder")
    about = {"annotations": {"kubernetes.io/service-account.name": "builder"}}
    post(api, f"{CORE}/secrets", "builder", meta=about, type="kubernetes.io/service-account-token")


def bootstrap_token(token_id: str, **data: str) -> Callable[[Api], Any]:
    def provoke(api: Api) -> None:
        token = {"token-id": token_id, "token-secret": "0123456789abcdef", **data}
        post(
            api,
            f"{SYSTEM}/secrets",
            f"bootstrap-token-{token_id}",
            type="bootstrap.kubernetes.io/token",
            stringData=token,
        )

    return provoke


def signed_cluster_info(api: Api) -> None:
    post(api, "/api/v1/namespaces/kube-public/configmaps", "cluster-info", data={"kubeconfig": "clusters: []"})
    bootstrap_token("abcdef", **{"usage-bootstrap-signing": "true"})(api)


def add_pod(api: Api, name: str, **spec: Any) -> Object:
    return post(api, f"{CORE}/pods", name, spec={**TEMPLATE["spec"], **spec})


def ephemeral_volume(api: Api) -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    add_pod(api, "scratch", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])


def csi_claim(api: Api, name: str) -> list[Object]:
    """Create a CSI volume and a claim that names it, and return the volumes of a pod that uses them."""
    volume = {**volume_spec(name), "csi": {"driver": "csi.example.com", "volumeHandle": name}}
    del volume["hostPath"]
    volume["claimRef"] = {"namespace": SPACE, "name": name}
    post(api, "/api/v1/persistentvolumes", name, spec=volume)
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "resources": resources, "volumeName": name}
    post(api, f"{CORE}/persistentvolumeclaims", name, spec=spec)
    return [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]


def bound_csi_claim(api: Api, name: str) -> list[Object]:
    """Do the same, and wait until the claim is bound."""
    volumes, path = csi_claim(api, name), f"{CORE}/persistentvolumeclaims/{name}"
    until(lambda: api.get(path).get("status", {}).get("phase") == "Bound", f"{name} is bound", within=60.0)
    return volumes


def attached_volume(api: Api) -> None:
    node("attaching", annotations={"volumes.kubernetes.io/controller-managed-attach-detach": "true"})(api)
    add_pod(api, "attaching", nodeName="attaching", volumes=bound_csi_claim(api, "attaching"))


def larger_claim(api: Api) -> None:
    post(
        api,
        "/apis/storage.k8s.io/v1/storageclasses",
        "manual",
        provisioner="csi.example.com",
        allowVolumeExpansion=True,
    )
    bound_csi_claim(api, "larger")
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    api.request("PATCH", f"{CORE}/persistentvolumeclaims/larger", larger, type=MERGE)


DEVICES = f"/apis/resource.k8s.io/v1/namespaces/{SPACE}"
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def claim_template(api: Api) -> None:
    post(api, f"{DEVICES}/resourceclaimtemplates", "gpu", spec={"spec": REQUESTS})
    add_pod(api, "generated", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])


def tainted_device(api: Api) -> None:
    node("devices")(api)
    device = {"driver": "gpu.example.com", "pool": "devices", "device": "gpu-0"}
    slice_spec = {
        "driver": device["driver"],
        "pool": {"name": device["pool"], "generation": 1, "resourceSliceCount": 1},
        "nodeName": "devices",
        "devices": [{"name": device["device"], "taints": [{"key": "broken", "effect": "NoExecute"}]}],
    }
    post(api, "/apis/resource.k8s.io/v1/resourceslices", "devices", spec=slice_spec)
    user = add_pod(
        api, "tainted-device", nodeName="devices", resourceClaims=[{"name": "gpu", "resourceClaimName": "tainted"}]
    )
    tainted = post(api, f"{DEVICES}/resourceclaims", "tainted", spec=REQUESTS)
    tainted["status"] = {
        "allocation": {"devices": {"results": [{"request": "gpu", **device}]}},
        "reservedFor": [{"resource": "pods", "name": "tainted-device", "uid": user["metadata"]["uid"]}],
    }
    api.request("PUT", f"{DEVICES}/resourceclaims/tainted/status", tainted)


def admission_policy(api: Api) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.data.size() < 100"}],
    }
    post(api, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "small", spec=spec)


def service_range(api: Api) -> None:
    post(api, "/apis/networking.k8s.io/v1/servicecidrs", "second", spec={"cidrs": ["10.99.0.0/24"]})


@dataclass(frozen=True)
class Case:
    """Controller, the right that is removed, and the user action after which the controller needs the right.

    role: path of the role below RBAC's API.
    """

    controller: str
    role: str
    verb: str
    resource: str
    provoke: Callable[[Api], Any]

    def __str__(self) -> str:
        return self.controller


def case(controller: str, client: str, right: str, provoke: Callable[[Api], Any]) -> Case:
    verb, resource = right.split()
    return Case(controller, f"clusterroles/system:controller:{client}", verb, resource, provoke)


CASES = (
    Case(
        "serviceaccount-token-controller",
        "clusterroles/system:kube-controller-manager",
        "update",
        "secrets",
        token_secret,
    ),
    Case(
        "bootstrap-signer-controller",
        "namespaces/kube-public/roles/system:controller:bootstrap-signer",
        "update",
        "configmaps",
        signed_cluster_info,
    ),
    Case(
        "token-cleaner-controller",
        "namespaces/kube-system/roles/system:controller:token-cleaner",
        "delete",
        "secrets",
        bootstrap_token("123456", expiration="2020-01-01T00:00:00Z"),
    ),
    case(
        "endpoints-controller",
        "endpoint-controller",
        "create endpoints",
        lambda api: add_service(api, "a", selector=LABELS),
    ),
    case(
        "endpointslice-controller",
        "endpointslice-controller",
        "create endpointslices",
        lambda api: add_service(api, "b", selector=LABELS),
    ),
    case("endpointslice-mirroring-controller", "endpointslicemirroring-controller", "create endpointslices", mirrored),
    case(
        "replicationcontroller-controller",
        "replication-controller",
        "create pods",
        workload(f"{CORE}/replicationcontrollers", spec={"replicas": 1, "selector": LABELS, "template": TEMPLATE}),
    ),
    case("pod-garbage-collector-controller", "pod-garbage-collector", "delete pods", ended_pods),
    case(
        "resourcequota-controller",
        "resourcequota-controller",
        "update resourcequotas/status",
        workload(f"{CORE}/resourcequotas", spec={"hard": {"count/secrets": "100"}}),
    ),
    case("namespace-controller", "namespace-controller", "update namespaces/finalize", deleted_namespace),
    case(
        "serviceaccount-controller", "service-account-controller", "create serviceaccounts", new_namespace("accounts")
    ),
    case("garbage-collector-controller", "generic-garbage-collector", "delete *", dependents),
    case("daemonset-controller", "daemon-set-controller", "create controllerrevisions", daemon_set),
    case("job-controller", "job-controller", "create pods", job),
    case("deployment-controller", "deployment-controller", "create replicasets", workload(f"{APPS}/deployments")),
    case("replicaset-controller", "replicaset-controller", "create pods", workload(f"{APPS}/replicasets")),
    case(
        "horizontal-pod-autoscaler-controller",
        "horizontal-pod-autoscaler",
        "update horizontalpodautoscalers/status",
        autoscaler,
    ),
    case("disruption-controller", "disruption-controller", "update poddisruptionbudgets/status", budget),
    case("statefulset-controller", "statefulset-controller", "create pods", stateful_set),
    case("cronjob-controller", "cronjob-controller", "update cronjobs/status", cron_job),
    case(
        "certificatesigningrequest-signing-controller",
        "certificate-controller",
        "update certificatesigningrequests/status",
        certificate_request("signed"),
    ),
    case(
        "certificatesigningrequest-approving-controller",
        "certificate-controller",
        "create subjectaccessreviews",
        certificate_request("unapproved"),
    ),
    case("ttl-controller", "ttl-controller", "patch nodes", node("ttl")),
    case("node-ipam-controller", "node-controller", "patch nodes", node("ipam")),
    case("node-lifecycle-controller", "node-controller", "update nodes/status", node("silent")),
    case("taint-eviction-controller", "node-controller", "delete pods", tainted_pods),
    case(
        "service-lb-controller",
        "service-controller",
        "patch services/status",
        lambda api: add_service(api, "balanced", type="LoadBalancer"),
    ),
    case("node-route-controller", "route-controller", "patch nodes/status", node("routed")),
    case(
        "cloud-node-lifecycle-controller",
        "node-controller",
        "delete nodes",
        node("gone", annotations={"cloud.kcm.dev/instance": "gone"}),
    ),
    case("persistentvolume-binder-controller", "persistent-volume-binder", "update persistentvolumes", bound_claim),
    case(
        "clusterrole-aggregation-controller",
        "clusterrole-aggregation-controller",
        "patch clusterroles",
        aggregated_role,
    ),
    case(
        "persistentvolumeclaim-protection-controller",
        "pvc-protection-controller",
        "update persistentvolumeclaims",
        deleted_claim,
    ),
    case(
        "persistentvolume-protection-controller", "pv-protection-controller", "update persistentvolumes", deleted_volume
    ),
    case(
        "volumeattributesclass-protection-controller",
        "volumeattributesclass-protection-controller",
        "update volumeattributesclasses",
        deleted_attributes_class,
    ),
    case("ttl-after-finished-controller", "ttl-after-finished-controller", "delete jobs", finished_job),
    case(
        "root-ca-certificate-publisher-controller",
        "root-ca-cert-publisher",
        "create configmaps",
        new_namespace("certified"),
    ),
    case(
        "ephemeral-volume-controller",
        "ephemeral-volume-controller",
        "create persistentvolumeclaims",
        ephemeral_volume,
    ),
    case(
        "persistentvolume-attach-detach-controller",
        "attachdetach-controller",
        "create volumeattachments",
        attached_volume,
    ),
    case("persistentvolume-expander-controller", "expand-controller", "get persistentvolumes", larger_claim),
    case("resourceclaim-controller", "resource-claim-controller", "create resourceclaims", claim_template),
    case("device-taint-eviction-controller", "device-taint-eviction-controller", "delete pods", tainted_device),
    case(
        "validatingadmissionpolicy-status-controller",
        "validatingadmissionpolicy-status-controller",
        "patch validatingadmissionpolicies/status",
        admission_policy,
    ),
    case("service-cidr-controller", "service-cidrs-controller", "patch servicecidrs/status", service_range),
)


def without(role: Object, verb: str, resource: str) -> Object:
    """Return the role without this right."""
    rules: list[Object] = []
    for rule in role["rules"]:
        if verb not in rule["verbs"] or resource not in rule.get("resources", ()):
            rules.append(rule)
            continue
        others = [name for name in rule["resources"] if name != resource]
        verbs = [name for name in rule["verbs"] if name != verb]
        if others:
            rules.append({**rule, "resources": others})
        if verbs:
            rules.append({**rule, "resources": [resource], "verbs": verbs})
    assert rules != role["rules"], f"the role {role['metadata']['name']} has no right to {verb} {resource}"
    return {**role, "rules": rules}


def failing_checks(site: Site) -> dict[str, str]:
    """Return what the page shows of each failed check."""
    page = site.manager.get("/healthz?verbose")[1]
    return dict(re.findall(r"^\[-\](\S+) failed: (.*)$", page, flags=re.MULTILINE))


provoked: set[str] = set()  # controllers whose right was restored and that may not have noticed yet


@pytest.mark.parametrize("case", CASES, ids=str)
def test_controller_without_a_right_names_it_and_others_work(case: Case, site: Site) -> None:
    api, path = Api(site.kubeconfig), f"{RBAC}/{case.role}"
    role = api.get(path)
    api.request("PUT", path, without(role, case.verb, case.resource))
    try:
        case.provoke(api)
        cannot = re.compile(f"failing: cannot {case.verb} \\S+" if case.resource == "*" else _shown(case))

        def shown() -> bool:
            return cannot.match(failing_checks(site).get(case.controller, "")) is not None

        until(shown, "its check names verb and resource", within=60.0, why=lambda: str(failing_checks(site)))
        provoked.add(case.controller)
        sharing = {other.controller for other in CASES if other.role == case.role}
        assert set(failing_checks(site)) <= provoked | sharing
        lines = [line for line in site.manager.program.text().splitlines() if f'controller="{case.controller}"' in line]
        denied = [line for line in lines if '"API server denies a right to the controller"' in line]
        assert any(f'verb="{case.verb}"' in line for line in denied)
    finally:
        role["metadata"].pop("resourceVersion")
        api.request("PUT", path, role)


def test_refused_events_are_named_by_check_and_log(site: Site) -> None:
    api, path = Api(site.kubeconfig), f"{RBAC}/clusterroles/system:controller:replicaset-controller"
    role = api.get(path)
    api.request("PUT", path, without(role, "create", "events"))
    sets, labels = f"{APPS}/replicasets", {"app": "events"}
    template = {**TEMPLATE, "metadata": {"labels": labels}}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    post(api, sets, "events", spec=spec)

    def shown() -> str:
        return failing_checks(site).get("replicaset-controller", "")

    until(lambda: shown() == "failing: cannot create events", "its check names verb and resource", within=60.0)
    lines = [line for line in site.manager.program.text().splitlines() if '"event not written"' in line]
    assert any('cannot create resource \\"events\\"' in line for line in lines)
    role["metadata"].pop("resourceVersion")
    api.request("PUT", path, role)
    api.request("PATCH", f"{sets}/events", {"spec": {"replicas": 5}}, type=MERGE)
    until(lambda: not shown(), "an event was written", within=60.0)


def _shown(case: Case) -> str:
    resource, slash, subresource = case.resource.partition("/")
    return f"failing: cannot {case.verb} {resource}[a-z0-9.]*{slash}{subresource}$"


def old_requests(api: Api) -> None:
    collection = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    condition = {"type": "Denied", "status": "True", "reason": "Old", "lastUpdateTime": "2020-01-01T00:00:00Z"}
    spec: Object = {
        "request": base64.b64encode(request_pem("old")).decode(),
        "signerName": "example.com/signer",
        "usages": ["client auth"],
    }
    made = post(api, collection, "old", spec=spec)
    made["status"] = {"conditions": [condition]}
    api.request("PUT", f"{collection}/old/approval", made)


def old_tokens(api: Api) -> None:
    tracking = {"data": {"since": "2020-01-01"}}
    name = "kube-apiserver-legacy-service-account-token-tracking"
    try:
        api.request("PATCH", f"{SYSTEM}/configmaps/{name}", tracking, type=MERGE)
    except HTTPError as err:
        err.close()
        post(api, f"{SYSTEM}/configmaps", name, **tracking)
    account = post(api, f"{SYSTEM}/serviceaccounts", "old", secrets=[{"name": f"old-{number}"} for number in range(3)])
    about = {
        "kubernetes.io/service-account.name": "old",
        "kubernetes.io/service-account.uid": account["metadata"]["uid"],
    }
    for number in range(3):
        data = {"token": base64.b64encode(b"t").decode()}
        meta = {"annotations": about}
        kind = "kubernetes.io/service-account-token"
        post(api, f"{SYSTEM}/secrets", f"old-{number}", meta=meta, type=kind, data=data)


def pod_certificate_requests(api: Api) -> None:
    spec: Object = {
        "signerName": "example.com/signer",
        "podName": "web",
        "podUID": "1",
        "serviceAccountName": "default",
        "serviceAccountUID": "2",
        "nodeName": "n",
        "nodeUID": "3",
        "stubPKCS10Request": base64.b64encode(request_der("")).decode(),
    }
    collection = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests"
    for number in range(3):
        post(api, collection, f"old-{number}", spec=spec)


def as_if_created_in_2020(directory: Path) -> None:
    """Change the creation time of all PodCertificateRequests in the database of a server that does not run.

    Clients cannot choose a creation time, and the cleaner acts only after a quarter of an hour.
    """
    created = re.compile(rb'"creationTimestamp":"[^"]+"')
    with contextlib.closing(sqlite3.connect(directory / STORE)) as database, database:
        rows = database.execute("SELECT key, body FROM objects WHERE storage = ?", (PCR_STORAGE,)).fetchall()
        assert len(rows) == 3
        for key, body in rows:
            old = created.sub(b'"creationTimestamp":"2020-01-01T00:00:00Z"', body)
            database.execute("UPDATE objects SET body = ? WHERE storage = ? AND key = ?", (old, PCR_STORAGE, key))


def deleted_pod_group(api: Api) -> None:
    groups = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{SPACE}/podgroups"
    protected = {"finalizers": ["scheduling.k8s.io/podgroup-protection"]}
    post(api, groups, "deleted", meta=protected, spec={"schedulingPolicy": {"basic": {}}})
    api.request("DELETE", f"{groups}/deleted")


def pool_status_request(api: Api) -> None:
    requests = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
    post(api, requests, "pools", spec={"driver": "gpu.example.com"})


def stale_version(api: Api) -> None:
    versions = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
    made = post(api, versions, "apps.deployments", spec={})
    stored = {"apiServerID": "gone", "encodingVersion": "apps/v1", "decodableVersions": ["apps/v1"]}
    made["status"] = {"storageVersions": [stored], "commonEncodingVersion": "apps/v1"}
    api.request("PUT", f"{versions}/apps.deployments/status", made)


def migration(api: Api) -> None:
    migrations = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
    post(api, migrations, "configmaps", spec={"resource": {"group": "", "resource": "configmaps"}})


def different_labels(api: Api) -> None:
    """Create pods of different SELinux labels that share a volume of a driver that mounts with a label."""
    post(api, "/apis/storage.k8s.io/v1/csidrivers", "csi.example.com", spec={"seLinuxMount": True})
    volumes, path = csi_claim(api, "shared"), f"{CORE}/persistentvolumeclaims/shared"
    uid = api.get(path)["metadata"]["uid"]
    api.request("PATCH", "/api/v1/persistentvolumes/shared", {"spec": {"claimRef": {"uid": uid}}}, type=MERGE)
    api.request("PATCH", f"{path}/status", {"status": {"phase": "Bound"}}, type=MERGE)
    container = {**TEMPLATE["spec"]["containers"][0], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    for level in ("s0:c1,c2", "s0:c3,c4", "s0:c5,c6", "s0:c7,c8"):
        context = {"seLinuxOptions": {"level": level}}
        add_pod(
            api, f"level-{level[-1]}", containers=[container], securityContext=context, volumes=volumes, nodeName="n"
        )


AT_START = (
    case(
        "certificatesigningrequest-cleaner-controller",
        "certificate-controller",
        "delete certificatesigningrequests",
        old_requests,
    ),
    case(
        "podcertificaterequest-cleaner-controller",
        "podcertificaterequestcleaner",
        "delete podcertificaterequests",
        pod_certificate_requests,
    ),
    case(
        "legacy-serviceaccount-token-cleaner-controller",
        "legacy-service-account-token-cleaner",
        "patch secrets",
        old_tokens,
    ),
    case(
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "kube-apiserver-serving-clustertrustbundle-publisher",
        "create clustertrustbundles",
        lambda _api: None,
    ),
    case("podgroup-protection-controller", "podgroup-protection-controller", "update podgroups", deleted_pod_group),
    case(
        "resourcepoolstatusrequest-controller",
        "resourcepoolstatusrequest-controller",
        "update resourcepoolstatusrequests/status",
        pool_status_request,
    ),
    case(
        "storageversion-garbage-collector-controller",
        "storage-version-garbage-collector",
        "delete storageversions",
        stale_version,
    ),
    case(
        "storage-version-migrator-controller",
        "storage-version-migrator-controller",
        "update storageversionmigrations/status",
        migration,
    ),
    case("selinux-warning-controller", "selinux-warning-controller", "create events", different_labels),
)
GATES = (
    "APIServerIdentity",
    "ClusterTrustBundle",
    "DRAResourcePoolStatus",
    "GenericWorkload",
    "PodCertificateRequest",
    "StorageVersionAPI",
    "StorageVersionMigrator",
)
SERVED = (
    "certificates.k8s.io/v1beta1=true",
    "internal.apiserver.k8s.io/v1alpha1=true",
    "resource.k8s.io/v1alpha3=true",
    "scheduling.k8s.io/v1alpha2=true",
    "storagemigration.k8s.io/v1beta1=true",
)


@pytest.mark.parametrize("case", AT_START, ids=str)
def test_controller_that_acts_when_it_starts_names_its_missing_right(case: Case, tmp_path: Path) -> None:
    now = time.time()
    authority = AuthorityFiles("trusted", authority_pair("ca", begin=now - DAY, end=now + DAY))
    settings = ServerSettings(directory=tmp_path / "server", runtime_config=SERVED)
    server = launch(settings)
    try:
        api, path = Api(server.kubeconfig), f"{RBAC}/{case.role}"
        post(api, "/api/v1/namespaces", SPACE)
        case.provoke(api)
        if case.provoke is pod_certificate_requests:
            server.stop()
            as_if_created_in_2020(settings.directory)
            server = launch(settings)
        api.request("PUT", path, without(api.get(path), case.verb, case.resource))  # a start restores default roles
        manager = run_kcm(
            tmp_path / "output",
            f"--kubeconfig={server.kubeconfig_of(MANAGER)}",
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--controllers={case.controller}",
            "--legacy-service-account-token-clean-up-period=1ms",
            f"--feature-gates={','.join(f'{gate}=true' for gate in GATES)}",
            f"--root-ca-file={authority.certificate}",
        )
        with ending(manager.program):
            site, cannot = Site(server.kubeconfig, manager), re.compile(_shown(case))
            until(
                lambda: cannot.match(failing_checks(site).get(case.controller, "")) is not None,
                "its check names verb and resource",
                within=90.0,
                why=manager.program.text,
            )
            assert set(failing_checks(site)) == {case.controller}
    finally:
        server.stop()


def test_checks_pass_again_after_the_rights_were_granted(site: Site) -> None:
    assert provoked, "this test follows the others"
    until(lambda: failing_checks(site) == {}, "all recover", within=200.0, why=lambda: json.dumps(failing_checks(site)))


def test_cases_cover_the_controllers_that_run(site: Site) -> None:
    page = site.manager.get("/healthz?verbose")[1]
    running = set(re.findall(r"^\[.\](\S+-controller)\b", page, flags=re.MULTILINE))
    assert running - {case.controller for case in (*CASES, *AT_START)} == set()
