"""Failures of single nodes, of zones and of all nodes at once, observed with kubectl; periods are short.

kcm and kube-controller-manager run with the same flags on one kube-apiserver; conditions, taints, events and the
evictions of pods are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl, Object, is_ready, name_of, uid_of
from tests.e2e.programs import CONTROLLERS, hollow_nodes, managing, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_manager, real_server
from tests.e2e.scenarios import workload
from tests.e2e.snapshots import UID

NODES, REPLICAS = 6, 6
ZONE_LABEL = "topology.kubernetes.io/zone"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOLERATION = 2  # seconds that a pod stays on a node that is lost
FLAGS = (
    f"--controllers={','.join(CONTROLLERS)},node-lifecycle-controller,taint-eviction-controller",
    "--node-monitor-period=1s",
    "--node-monitor-grace-period=6s",
    "--node-startup-grace-period=15s",
    "--node-eviction-rate=10",
)
TOLD_BY = ("node-controller", "taint-eviction-controller")
Story = dict[str, object]


@pytest.fixture
def people(tmp_path: Path) -> Iterator[Kubectl]:
    """A namespace of our own cluster, which `bin/run-kcm` brings with short periods."""
    flags = (f"--embedded-dir={tmp_path / 'kcm'}", f"--hollow-nodes={NODES}", "--hollow-zones=2", *FLAGS)
    with managing(tmp_path / "kcm.log", *flags) as manager:
        yield in_namespace(tmp_path / "kcm" / "kubeconfig", "failing")
        print(manager.program.text())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealServer]:
    """Start a real kube-apiserver with its own hollow nodes and without a controller manager."""
    assets = assets_or_skip()
    with (
        real_server(tmp_path, assets) as server,
        hollow_nodes(server.kubeconfig, tmp_path / "hollow.log", nodes=NODES),
    ):
        yield server


# What people do and see.


def read_node(kubectl: Kubectl, name: str) -> Object:
    return kubectl.api.get(f"/api/v1/nodes/{name}")


def zones(kubectl: Kubectl) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in kubectl.api.get("/api/v1/nodes")["items"]:
        found.setdefault(each["metadata"]["labels"][ZONE_LABEL], []).append(name_of(each))
    return found


def taints(kubectl: Kubectl, name: str) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in read_node(kubectl, name)["spec"].get("taints") or ()}


def conditions(obj: Object) -> dict[str, tuple[str, str, str]]:
    return {
        each["type"]: (each["status"], each.get("reason", ""), each.get("message", ""))
        for each in obj["status"].get("conditions", [])
    }


def ready_nodes(kubectl: Kubectl) -> set[str]:
    """Return the nodes that are Ready in `kubectl get nodes`."""
    lines = kubectl("get", "nodes", "--no-headers").splitlines()
    return {line.split()[0] for line in lines if line.split()[1] == "Ready"}


def until_ready(kubectl: Kubectl, names: set[str]) -> None:
    until(lambda: ready_nodes(kubectl) == names, f"{sorted(names)} are ready", why=lambda: kubectl("get", "nodes"))


def until_tainted(kubectl: Kubectl, names: set[str], *, evicted: bool = True) -> None:
    """All of them, with both effects or with NoSchedule only."""
    wanted = {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")} if evicted else {(UNREACHABLE, "NoSchedule")}
    until(
        lambda: all(taints(kubectl, name) == wanted for name in names),
        f"{sorted(names)} have {wanted}",
        why=lambda: str({name: taints(kubectl, name) for name in sorted(names)}),
    )


def until_sound(kubectl: Kubectl) -> None:
    """Every node is ready and has no taint."""
    everybody = {name for names in zones(kubectl).values() for name in names}
    until_ready(kubectl, everybody)
    until(lambda: not any(taints(kubectl, name) for name in everybody), "no taints are left")


def silence(kubectl: Kubectl, *which: str) -> None:
    kubectl("annotate", "nodes", *which, "hollow.kcm.dev/silent=true")


def speak(kubectl: Kubectl, *which: str) -> None:
    kubectl("annotate", "nodes", *which, "hollow.kcm.dev/silent-")


def begin(kubectl: Kubectl) -> list[Object]:
    """Set heartbeats of one second and create a ReplicaSet whose pods leave lost nodes soon."""
    until(lambda: len(ready_nodes(kubectl)) == NODES, "all nodes are ready")
    kubectl("annotate", "nodes", "--all", "hollow.kcm.dev/heartbeat-seconds=1", "--overwrite")
    manifest = workload("ReplicaSet", "web", REPLICAS)
    manifest["spec"]["template"]["spec"]["tolerations"] = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION}
        for key in (UNREACHABLE, "node.kubernetes.io/not-ready")
    ]
    kubectl.apply(manifest)
    return kubectl.until_pods(REPLICAS)


def until_moved(kubectl: Kubectl, lost: set[str]) -> None:
    """Wait until all replicas are ready on other nodes, and the pods on the lost nodes are being deleted."""

    def moved() -> bool:
        pods = kubectl.items("pods")
        there = [pod for pod in pods if pod["spec"].get("nodeName") in lost]
        good = [pod for pod in pods if is_ready(pod) and pod["spec"]["nodeName"] not in lost]
        return len(good) == REPLICAS and all("deletionTimestamp" in pod["metadata"] for pod in there)

    until(moved, f"pods are where nodes are not lost: {sorted(lost)}", why=kubectl.state)


def event_facts(kubectl: Kubectl, words: dict[str, str]) -> set[tuple[str, str, str, str]]:
    """Return (component, type, reason, message) of the events of nodes and of the pods in the namespace."""
    events = kubectl.api.get("/api/v1/namespaces/default/events")["items"] + kubectl.items("events")
    found = set()
    for event in events:
        component = (event.get("source") or {}).get("component") or event.get("reportingComponent", "")
        if component in TOLD_BY and event["reason"] != "RegisteredNode":
            found.add((component, event["type"], event["reason"], plain(event["message"], words)))
    return found


def plain(text: str, words: dict[str, str]) -> str:
    for name, word in words.items():
        text = text.replace(name, word)
    text = re.sub(r"hollow-node-\d+", "<node>", UID.sub("<uid>", text))
    return re.sub(r"web-[a-z0-9]{5}\b", "<pod>", text)


def story(kubectl: Kubectl) -> Story:
    """One node is lost and comes back, then a zone is lost; what could be seen of each."""
    words = {kubectl.namespace: "<namespace>"}
    pods = begin(kubectl)
    seen: Story = {}
    lost = pods[0]["spec"]["nodeName"]
    on_it = {uid_of(pod) for pod in pods if pod["spec"]["nodeName"] == lost}
    silence(kubectl, lost)
    until_tainted(kubectl, {lost})
    until_moved(kubectl, {lost})
    seen["conditions of a lost node"] = conditions(read_node(kubectl, lost))
    left = [conditions(pod) for pod in kubectl.items("pods") if uid_of(pod) in on_it]
    seen["conditions of its pods"] = [
        {
            type: (status, plain(reason, words), plain(message, words))
            for type, (status, reason, message) in each.items()
        }
        for each in left
        if each
    ][:1]
    speak(kubectl, lost)
    until_sound(kubectl)
    kubectl.until_pods(REPLICAS)

    by_zone = zones(kubectl)
    first, second = sorted(by_zone)
    silence(kubectl, "-l", f"{ZONE_LABEL}={first}")
    until_tainted(kubectl, set(by_zone[first]))
    until_ready(kubectl, set(by_zone[second]))
    until_moved(kubectl, set(by_zone[first]))
    seen["events"] = event_facts(kubectl, words)
    return seen


def lose_the_rest(kubectl: Kubectl) -> None:
    """After a zone is lost: all nodes are, and then are back. Not one more pod goes."""
    survivors = {uid_of(pod) for pod in kubectl.ready_pods()}
    by_zone = zones(kubectl)
    everybody = {name for names in by_zone.values() for name in names}
    silence(kubectl, "-l", f"{ZONE_LABEL}={max(by_zone)}")
    until_ready(kubectl, set())
    until_tainted(kubectl, everybody, evicted=False)
    assert {uid_of(pod) for pod in kubectl.items("pods") if "deletionTimestamp" not in pod["metadata"]} == survivors
    speak(kubectl, "--all")
    until_sound(kubectl)
    assert {uid_of(pod) for pod in kubectl.until_pods(REPLICAS)} == survivors


@pytest.mark.slow
def test_pods_leave_lost_nodes_and_lost_zones_but_stay_when_all_nodes_are_lost(people: Kubectl) -> None:
    seen = story(people)
    status_unknown = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    lost = seen["conditions of a lost node"]
    assert lost == dict.fromkeys(("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"), status_unknown)
    assert seen["events"] == {
        ("node-controller", "Normal", "NodeNotReady", "Node <node> status is now: NodeNotReady"),
        ("node-controller", "Warning", "NodeNotReady", "Node is not ready"),
        ("taint-eviction-controller", "Normal", "TaintManagerEviction", "Marking for deletion Pod <namespace>/<pod>"),
    }
    lose_the_rest(people)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_lost_nodes_are_handled_as_by_kube_controller_manager(server: RealServer, tmp_path: Path) -> None:
    """Not when all nodes are lost: the real manager's tainting runs beside its pass over the nodes, and may taint a
    node that the pass takes to be untainted when it takes the taints back. That node's pods are lost; ours stay.
    """
    with real_manager(server, *FLAGS):
        real = story(in_namespace(server.kubeconfig, "with-the-real-one"))
        speak(in_namespace(server.kubeconfig, "between"), "--all")
    people = in_namespace(server.kubeconfig, "with-ours")
    people.api.request("DELETE", "/api/v1/namespaces/default/events")
    people.api.request("DELETE", "/apis/apps/v1/namespaces/with-the-real-one/replicasets")
    people.api.request("DELETE", "/api/v1/namespaces/with-the-real-one/pods")
    with managing(tmp_path / "kcm.log", f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", *FLAGS):
        assert story(people) == real
