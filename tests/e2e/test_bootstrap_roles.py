"""Controllers with their own service accounts on a real kube-apiserver with RBAC: each sends all of its kinds of
writes, upstream's bootstrap roles allow them, and the roles that simulated runs check are those of the server.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError

import pytest

from kcm.actors.engine.elector.lease import CLIENT as ELECTIONS
from kcm.actors.simulation.invariants.common.bootstrap_roles import MANAGER, Right, roles
from kcm.runtime.simulation.keys import AuthorityFiles, authority_pair, request_pem
from tests.bench.writes import audit_flags, audit_log
from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Api, Kubectl, Object
from tests.e2e.programs import hollow_nodes, managing, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]

GATES = "ClusterTrustBundle=true,PodCertificateRequest=true"
SERVED = (
    f"--feature-gates={GATES}",
    "--runtime-config=certificates.k8s.io/v1beta1=true",
)
ACCOUNT = "system:serviceaccount:kube-system:"
DAY = 86400.0
LABELS = {"app": "web"}
SYSTEM = "/api/v1/namespaces/kube-system"
# By account: all kinds of writes of its controllers, except those that only follow a conflict or a lost response, and
# PodCertificateRequests after 15 minutes, which simulated runs check
# (actors/simulation/invariants/common/bootstrap_roles.py).
WRITES = {
    "bootstrap-signer": {"update configmaps"},
    "certificate-controller": {
        "create subjectaccessreviews",
        "update certificatesigningrequests/approval",
        "update certificatesigningrequests/status",
        "delete certificatesigningrequests",
    },
    "clusterrole-aggregation-controller": {"patch clusterroles"},
    "deployment-controller": {
        "create replicasets",
        "update replicasets",
        "delete replicasets",
        "update deployments",
        "update deployments/status",
        "create events",
    },
    "disruption-controller": {"update poddisruptionbudgets/status"},
    "endpoint-controller": {"create endpoints", "update endpoints", "delete endpoints"},
    "endpointslice-controller": {"create endpointslices", "update endpointslices"},
    "endpointslicemirroring-controller": {"create endpointslices", "update endpointslices", "delete endpointslices"},
    "generic-garbage-collector": {"delete configmaps", "patch configmaps"},
    "kube-apiserver-serving-clustertrustbundle-publisher": {
        "create clustertrustbundles",
        "delete clustertrustbundles",
    },
    "legacy-service-account-token-cleaner": {"patch secrets", "delete secrets"},
    "namespace-controller": {"update namespaces/status", "update namespaces/finalize", "deletecollection configmaps"},
    "node-controller": {
        "patch nodes",
        "update nodes/status",
        "update pods/status",
        "patch pods/status",
        "delete pods",
        "delete nodes",
        "create events",
    },
    "pod-garbage-collector": {"patch pods/status", "delete pods"},
    "replicaset-controller": {
        "create pods",
        "delete pods",
        "patch pods",
        "update replicasets/status",
        "create events",
    },
    "replication-controller": {"create pods", "delete pods", "patch pods", "update replicationcontrollers/status"},
    "resourcequota-controller": {"update resourcequotas/status"},
    "root-ca-cert-publisher": {"create configmaps", "update configmaps"},
    "route-controller": {"patch nodes/status"},
    "service-account-controller": {"create serviceaccounts"},
    "service-controller": {"patch services/status", "create events"},
    "token-cleaner": {"delete secrets"},
    "ttl-after-finished-controller": {"delete jobs"},
    "ttl-controller": {"patch nodes"},
}


class Site(NamedTuple):
    kubectl: Kubectl
    server: RealServer


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    assets = assets_or_skip()
    directory = tmp_path_factory.mktemp("roles")
    now = time.time()
    authority = AuthorityFiles("roles", authority_pair("ca", begin=now - DAY, end=now + 30 * DAY))
    with ExitStack() as stack:
        server = stack.enter_context(real_server(directory, assets, *audit_flags(directory), *SERVED))
        stack.enter_context(hollow_nodes(server.kubeconfig, directory / "hollow.log", nodes=4))
        flags = (
            f"--kubeconfig={server.manager_kubeconfig}",
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--feature-gates={GATES}",
            "--controllers=*,bootstrapsigner,tokencleaner",
            "--cloud-provider=fake",
            "--allocate-node-cidrs",
            "--cluster-cidr=10.120.0.0/16",
            f"--root-ca-file={directory / 'apiserver.crt'}",
            f"--service-account-private-key-file={directory / 'sa.key'}",
            f"--cluster-signing-cert-file={authority.certificate}",
            f"--cluster-signing-key-file={authority.key}",
            "--terminated-pod-gc-threshold=1",
            "--node-monitor-period=1s",
            "--node-monitor-grace-period=6s",
            "--node-startup-grace-period=15s",
            "--node-eviction-rate=10",
            "--route-reconciliation-period=2s",
            "--legacy-service-account-token-clean-up-period=1ms",
        )
        _leave_old_things(Api(server.kubeconfig))
        stack.enter_context(managing(directory / "kcm.log", *flags))
        yield Site(in_namespace(server.kubeconfig, "roles"), server)


def _leave_old_things(api: Api) -> None:
    """Create old objects, which the cleaners delete when they start."""
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    spec: dict[str, Any] = {
        "request": base64.b64encode(request_pem("old")).decode(),
        "signerName": "example.com/signer",
        "usages": ["client auth"],
    }
    made = api.request("POST", requests, {"metadata": {"name": "old"}, "spec": spec})
    condition = {"type": "Denied", "status": "True", "reason": "Old", "lastUpdateTime": "2020-01-01T00:00:00Z"}
    made["status"] = {"conditions": [condition]}
    api.request("PUT", f"{requests}/old/approval", made)
    bundle = {"signerName": "kubernetes.io/kube-apiserver-serving", "trustBundle": Path(_trusted()).read_text()}
    name = "kubernetes.io:kube-apiserver-serving:old"
    bundles = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
    api.request("POST", bundles, {"metadata": {"name": name}, "spec": bundle})

    subsets = [{"addresses": [{"ip": "192.0.2.3"}], "ports": [{"port": 80}]}]
    api.request("POST", f"{SYSTEM}/endpoints", {"metadata": {"name": "of-no-service"}, "subsets": subsets})
    tracking = f"{SYSTEM}/configmaps/kube-apiserver-legacy-service-account-token-tracking"
    until(lambda: _is_there(api, tracking), "the server tracks tokens")
    api.request("PUT", tracking, {**api.get(tracking), "data": {"since": "2020-01-01"}})
    account: dict[str, Any] = {"metadata": {"name": "old"}, "secrets": [{"name": "unmarked"}, {"name": "marked"}]}
    uid = api.request("POST", f"{SYSTEM}/serviceaccounts", account)["metadata"]["uid"]
    annotations = {"kubernetes.io/service-account.name": "old", "kubernetes.io/service-account.uid": uid}
    for secret, labels in (("unmarked", {}), ("marked", {"kubernetes.io/legacy-token-invalid-since": "2020-01-01"})):
        meta = {"name": secret, "annotations": annotations, "labels": labels}
        data = {"token": base64.b64encode(b"t").decode()}
        body = {"type": "kubernetes.io/service-account-token", "metadata": meta, "data": data}
        api.request("POST", f"{SYSTEM}/secrets", body)
    token = {"token-id": "abcdef", "token-secret": "0123456789abcdef"}
    _keep_bootstrap_token(api, **token, **{"usage-bootstrap-signing": "true"})
    _keep_bootstrap_token(api, **{**token, "token-id": "123456"}, expiration="2020-01-01T00:00:00Z")
    cluster = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "clusters: []"}}
    api.request("POST", "/api/v1/namespaces/kube-public/configmaps", cluster)


def _keep_bootstrap_token(api: Api, **data: str) -> None:
    meta = {"name": f"bootstrap-token-{data['token-id']}"}
    body = {"type": "bootstrap.kubernetes.io/token", "metadata": meta, "stringData": data}
    api.request("POST", f"{SYSTEM}/secrets", body)


def _is_there(api: Api, path: str) -> bool:
    try:
        return bool(api.get(path))
    except OSError:
        return False


def _trusted() -> str:
    now = time.time()
    return AuthorityFiles("trusted", authority_pair("trusted", begin=now - DAY, end=now + DAY)).certificate


def template(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}


def orphan(name: str, **labels: str) -> dict[str, Any]:
    made = template(**labels)
    return {"apiVersion": "v1", "kind": "Pod", **made, "metadata": {"name": name, **made["metadata"]}}


def do_all(site: Site) -> None:
    """Perform the actions that cause each kind of write of each controller."""
    kubectl = site.kubectl
    _workloads(kubectl)
    _services(kubectl)
    _objects(kubectl)
    _certificates(kubectl)
    _nodes(kubectl)


def _workloads(kubectl: Kubectl) -> None:
    kubectl.apply(orphan("adopted", app="adopting"), orphan("taken", app="taking"))
    selector = {"matchLabels": {"app": "adopting"}}
    kubectl.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "adopting"},
            "spec": {"replicas": 2, "selector": selector, "template": template(app="adopting")},
        },
        {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": {"name": "taking"},
            "spec": {"replicas": 2, "selector": {"app": "taking"}, "template": template(app="taking")},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "revisionHistoryLimit": 0,
                "selector": {"matchLabels": LABELS},
                "template": template(**LABELS),
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}},
        },
    )
    kubectl.until_complete("web")
    kubectl("set", "image", "deployment/web", "c=nginx:2")
    kubectl.until_complete("web")
    kubectl("annotate", "deployment", "web", "deprecated.deployment.rollback.to=1")
    kubectl("scale", "replicaset/adopting", "--replicas=1")
    kubectl("scale", "rc/taking", "--replicas=1")
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "done"},
        "spec": {"ttlSecondsAfterFinished": 0, "template": template()},
    }
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"  # type: ignore[index]
    kubectl.apply(job)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    types = ("SuccessCriteriaMet", "Complete")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in types]
    status = {"conditions": conditions, "startTime": now, "completionTime": now, "succeeded": 1}
    until(partial(_says, kubectl, kubectl.path("batch/v1/jobs", "done"), status), "the Job says that it is complete")
    for number in range(3):  # more than --terminated-pod-gc-threshold
        kubectl.apply(orphan(f"ended-{number}"))
        path = f"{kubectl.path('pods', f'ended-{number}')}/status"
        ended = {"status": {"phase": "Succeeded"}}
        kubectl.api.request("PATCH", path, ended, type="application/merge-patch+json")  # they are being scheduled


def _says(kubectl: Kubectl, path: str, status: Object) -> bool:
    """Replaces the status; False if its controller was quicker."""
    try:
        kubectl.api.request("PUT", f"{path}/status", {**kubectl.api.get(path), "status": status})
    except HTTPError as err:
        with err:
            if err.code != HTTPStatus.CONFLICT:
                raise
        return False
    return True


def _services(kubectl: Kubectl) -> None:
    kubectl("expose", "deployment", "web", "--port=80", "--type=LoadBalancer")
    own = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "own"}, "spec": {"ports": [{"port": 80}]}}
    ports = [{"port": 80}]
    addresses = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "own"}}
    kubectl.apply(own, {**addresses, "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": ports}]})
    until(lambda: _slices(kubectl, "own"), "it is mirrored")
    kubectl.apply({**addresses, "subsets": [{"addresses": [{"ip": "192.0.2.2"}], "ports": ports}]})
    until(lambda: "192.0.2.2" in _slices(kubectl, "own"), "the change is mirrored")
    kubectl("delete", "endpoints", "own")
    until(lambda: _slices(kubectl, "web"), "there are addresses")
    kubectl("scale", "deployment/web", "--replicas=3")
    kubectl.until_complete("web")
    until(lambda: kubectl.get("services", "web")["status"]["loadBalancer"].get("ingress"), "it has an address")
    kubectl("delete", "service", "web")


def _slices(kubectl: Kubectl, service: str) -> str:
    """Addresses of a Service."""
    found = kubectl.items("discovery.k8s.io/v1/endpointslices", f"kubernetes.io/service-name={service}")
    endpoints = [endpoint for slice_ in found for endpoint in slice_.get("endpoints") or ()]
    return " ".join(address for endpoint in endpoints for address in endpoint["addresses"])


def _objects(kubectl: Kubectl) -> None:
    kubectl("create", "quota", "few", "--hard=count/configmaps=100")
    until(
        lambda: "kube-root-ca.crt" in {config_map["metadata"]["name"] for config_map in kubectl.items("configmaps")},
        "certificates",
    )
    kubectl("patch", "configmap", "kube-root-ca.crt", "--patch", json.dumps({"data": {"ca.crt": "other"}}))
    for owner, cascade in (("front", "foreground"), ("kept", "orphan")):
        kubectl("create", "configmap", owner)
        uid = kubectl.get("configmaps", owner)["metadata"]["uid"]
        owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": True}]
        meta = {"name": f"of-{owner}", "ownerReferences": owners}
        kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        kubectl("delete", "configmap", owner, f"--cascade={cascade}", "--wait=false")
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    selectors = [{"matchLabels": LABELS}]
    kubectl.apply(
        {**role, "metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": selectors}},
        {**role, "metadata": {"name": "part", "labels": LABELS}, "rules": [rule]},
    )
    other = in_namespace(kubectl.api.kubeconfig, "roles-going")
    other("create", "configmap", "one")
    other("delete", "namespace", "roles-going", "--wait=false")


def _certificates(kubectl: Kubectl) -> None:
    spec = {
        "request": base64.b64encode(request_pem("system:node:n", "system:nodes")).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["client auth", "digital signature"],
    }
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    kubectl.apply({**kind, "metadata": {"name": "kubelet"}, "spec": spec})


def _nodes(kubectl: Kubectl) -> None:
    """One is tainted, another is silent, a third is silent and gone from the cloud; pods are on each."""
    tainted, silent, gone = sorted({pod["spec"]["nodeName"] for pod in kubectl.ready_pods()})[:3]
    kubectl("taint", "node", tainted, "broken=yes:NoExecute")
    kubectl("annotate", "node", silent, "hollow.kcm.dev/silent=true")
    kubectl("annotate", "node", gone, "hollow.kcm.dev/silent=true", "cloud.kcm.dev/instance=gone")


class Request(NamedTuple):
    """Request in the audit log. account: name without prefix, or the manager's user. what: as "update pods/status"."""

    account: str
    what: str
    status: int
    path: str


def requests(log: Path) -> Iterator[Request]:
    for line in log.read_text().splitlines():
        event = json.loads(line)
        user, about = event["user"]["username"], event.get("objectRef") or {}
        if user.startswith(ACCOUNT) or user == "system:kube-controller-manager":
            resource = "/".join(part for part in (about.get("resource"), about.get("subresource")) if part)
            status = event.get("responseStatus", {}).get("code", 0)
            yield Request(user.removeprefix(ACCOUNT), f"{event['verb']} {resource}", status, event["requestURI"])


def test_each_controller_may_do_all_that_it_does(site: Site) -> None:
    do_all(site)
    log = audit_log(site.server.directory)

    def missing() -> dict[str, list[str]]:
        done: dict[str, set[str]] = {}
        for request in requests(log):
            done.setdefault(request.account, set()).add(request.what)
        missed = {account: sorted(writes - done.get(account, set())) for account, writes in WRITES.items()}
        return {account: writes for account, writes in missed.items() if writes}

    until(lambda: not missing(), "each has written all that it writes", within=120.0, why=lambda: str(missing()))
    refused = {(request.account, request.what, request.path) for request in requests(log) if request.status == 403}
    # The server rejects all creations in a namespace that is being deleted.
    assert {request for request in refused if "/namespaces/roles-going/" not in request[2]} == set()


def test_the_roles_that_simulated_runs_are_held_to_are_the_servers(site: Site) -> None:
    found = site.kubectl.api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles")["items"]
    known = {"system:kube-controller-manager": MANAGER}
    served = {}
    for role in found:
        prefix, _, account = role["metadata"]["name"].rpartition(":")
        name = account if prefix == "system:controller" else known.get(role["metadata"]["name"])
        if name is not None:
            served[name] = {
                Right(verb, group, resource, only)
                for rule in role["rules"]
                for verb in rule["verbs"]
                for group in rule.get("apiGroups") or ()
                for resource in rule.get("resources") or ()
                for only in rule.get("resourceNames") or ("",)
                if group != "extensions"
            }
    simulated = {name: set(rights) for name, rights in roles().items() if name != ELECTIONS}  # a sum of two roles
    assert simulated == served
