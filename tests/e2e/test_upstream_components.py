"""Upstream's own components on the embedded server: kube-controller-manager, kube-scheduler, and a kubelet (kubemark's,
which runs containers in appearance). They speak protobuf, and each is the user that it is in a cluster of kubeadm's.

What the server refused them is in its audit log: no more than a kube-apiserver would have refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcm.runtime.signing.node_tokens import node_token
from tests.e2e.conftest import NEEDS_KUBECTL, in_namespace
from tests.e2e.kubectl import Api, is_ready, name_of
from tests.e2e.programs import Program, ending, spawn, until
from tests.e2e.real_server import assets_or_skip
from tests.e2e.scenarios import reason, workload

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300), NEEDS_KUBECTL]

NODE = "real-node"
ON_CONTROLLERS = "ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection"
NOTED = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
COMPONENTS = ("kube-controller-manager", "kube-scheduler", "kubemark")


@dataclass(frozen=True)
class Cluster:
    """Embedded server for upstream's components. directory: of the server."""

    directory: Path
    audit: Path
    programs: dict[str, Program]

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def text(self) -> str:
        """Return the log, for the message of a failed test."""
        return "\n".join(f"{name}: {program.text()[-2000:]}" for name, program in self.programs.items())

    def refused(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [event for event in lines if event.get("responseStatus", {}).get("code", 0) >= 400]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    assets = assets_or_skip()
    missing = [name for name in COMPONENTS if not (assets / name).exists()]
    if missing:
        pytest.skip(f"not in {assets}: {', '.join(missing)}")
    place = tmp_path_factory.mktemp("components")
    made = Cluster(place / "kcm", place / "audit.log", {})
    policy = place / "policy.json"
    policy.write_text(json.dumps(NOTED))
    serving = [
        "apiserver",
        f"--embedded-dir={made.directory}",
        "--embedded-in-memory",
        f"--embedded-enable-admission-plugins={ON_CONTROLLERS}",
        f"--embedded-audit-policy-file={policy}",
        f"--embedded-audit-log-path={made.audit}",
    ]
    with ExitStack() as stack:

        def run(name: str, *command: str) -> None:
            made.programs[name] = stack.enter_context(ending(spawn([*command], place / f"{name}.log")))

        run("apiserver", sys.executable, "-P", "-m", "kcm.actors.command", *serving)
        until(made.kubeconfig.exists, "the server has written its files", why=made.text)
        until(Api(made.kubeconfig).alive, "the server serves", why=made.text)
        for name, more in (
            ("kube-controller-manager", _of_manager(made.directory)),
            ("kube-scheduler", ()),
        ):
            known = made.directory / "kubeconfigs" / name
            flags = [f"--{whose}kubeconfig={known}" for whose in ("", "authentication-", "authorization-")]
            run(name, str(assets / name), *flags, "--secure-port=0", *more)
        kubelet = _node_kubeconfig(made.directory, place / "node.kubeconfig")
        flags = [f"--name={NODE}", f"--kubeconfig={kubelet}", f"--cert-dir={place}"]
        flags += ["--kubelet-port=0", "--kubelet-read-only-port=0", "--use-host-image-service=false"]
        run("kubemark", str(assets / "kubemark"), "--morph=kubelet", *flags)
        yield made


def _of_manager(directory: Path) -> tuple[str, ...]:
    key = directory / "certificates" / "service-accounts.key"
    account = ("--use-service-account-credentials", f"--service-account-private-key-file={key}")
    return (*account, "--controllers=*", "--horizontal-pod-autoscaler-sync-period=2s")


def _node_kubeconfig(directory: Path, path: Path) -> Path:
    config = yaml.safe_load((directory / "kubeconfigs" / "kube-scheduler").read_text())
    key = (directory / "tokens" / "nodes.key").read_bytes()
    config["users"][0]["user"] = {"token": node_token(key, NODE)}
    path.write_text(yaml.safe_dump(config))
    return path


def test_they_run_what_is_asked_for(cluster: Cluster) -> None:
    api = Api(cluster.kubeconfig)

    def leaders() -> bool:
        leases = api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")["items"]
        return {*COMPONENTS[:2]} <= {name_of(lease) for lease in leases if lease["spec"].get("holderIdentity")}

    def is_up() -> bool:
        return any(name_of(node) == NODE and is_ready(node) for node in api.get("/api/v1/nodes")["items"])

    until(leaders, "both lead", why=cluster.text)
    until(is_up, "the node is ready", why=cluster.text)
    kubectl = in_namespace(cluster.kubeconfig, "upstream")
    kubectl.apply(workload("Deployment", "web", 3, "web:1"))
    kubectl.until_pods(3, image="web:1")
    kubectl.apply(workload("Deployment", "web", 3, "web:2"))
    kubectl.until_complete("web")
    kubectl.until_pods(3, image="web:2")
    kubectl("expose", "deployment", "web", "--port=80")
    until(lambda: len(_addresses(kubectl.items("discovery.k8s.io/v1/endpointslices"))) == 3, "endpoints")
    kubectl("scale", "deployment", "web", "--replicas=1")
    (left,) = kubectl.until_pods(1)
    assert left["spec"]["nodeName"] == NODE
    kubectl("create", "job", "once", "--image=busybox")
    until(lambda: kubectl.items("pods", "job-name=once"), "a pod of the job", why=kubectl.state)
    kubectl("delete", "deployment", "web", "--cascade=foreground")
    until(lambda: not kubectl.items("apps/v1/replicasets"), "what it owned is gone", why=kubectl.state)
    kubectl("delete", "namespace", "upstream")


def test_autoscalers_go_by_the_metrics_of_the_embedded_server(cluster: Cluster) -> None:
    kubectl = in_namespace(cluster.kubeconfig, "scaled")
    deployment = workload("Deployment", "web", 1)
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    kubectl.apply(deployment)
    kubectl.until_pods(1)
    kubectl("autoscale", "deployment", "web", "--cpu-percent=50", "--min=1", "--max=5")
    kubectl("annotate", "pods", "-l=app=web", "hollow.kcm.dev/cpu-usage=120m")

    def current_status() -> dict[str, Any]:
        status: dict[str, Any] = kubectl.get("autoscaling/v2/horizontalpodautoscalers", "web").get("status") or {}
        return status

    def average() -> Any:
        metrics = current_status().get("currentMetrics") or ({},)
        return metrics[0].get("resource", {}).get("current", {}).get("averageUtilization")

    until(lambda: average() == 46, "two more pods use a tenth each", why=lambda: json.dumps(current_status()))
    assert current_status()["currentReplicas"] == 3
    assert reason(current_status()["conditions"], "ScalingActive") == "ValidMetricFound"
    assert "New size: 3" in kubectl("events", "--for=hpa/web")
    kubectl("delete", "namespace", "scaled")


def _addresses(slices: list[dict[str, Any]]) -> list[str]:
    return [endpoint["targetRef"]["name"] for part in slices for endpoint in part.get("endpoints") or ()]


def test_nothing_is_refused_that_a_kube_apiserver_would_not_refuse(cluster: Cluster) -> None:
    """Allow only refusals that are usual: not found, conflict, terminating namespace."""
    refused = [
        (event["user"]["username"], event["verb"], event["requestURI"], event["responseStatus"])
        for event in cluster.refused()
        if not _is_usual(event["responseStatus"])
    ]
    assert refused == []
    for name, program in cluster.programs.items():
        assert program.running, f"{name} ended"
        assert "Failed to watch" not in program.text(), name


def _is_usual(status: dict[str, Any]) -> bool:
    code, message = status["code"], status.get("message", "")
    return (
        (code == 404 and status.get("reason") == "NotFound" and "not found" in message)
        or code == 409
        or (code == 403 and "because it is being terminated" in message)
    )
