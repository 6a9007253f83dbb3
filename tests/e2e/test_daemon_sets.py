"""A DaemonSet through kubectl: it runs everywhere, is rolled out and back, on our cluster and a real kube-apiserver."""

from __future__ import annotations

from tests.e2e.daemon_sets import NAME, daemon_set, image_of, nodes_of, numbers, revisions
from tests.e2e.kubectl import Kubectl, name_of
from tests.e2e.programs import until


def test_a_daemon_set_is_rolled_out_and_back(kubectl: Kubectl) -> None:
    kubectl.apply(daemon_set("v1"))
    kubectl("rollout", "status", f"daemonset/{NAME}", "--timeout=60s")
    everywhere = nodes_of(kubectl)
    assert len(everywhere) == len(set(everywhere)) == numbers(kubectl)["desiredNumberScheduled"] >= 3
    kubectl("set", "image", f"daemonset/{NAME}", "c=v2")
    kubectl("rollout", "status", f"daemonset/{NAME}", "--timeout=60s")
    assert image_of(kubectl) == {"v2"}
    kubectl("rollout", "undo", f"daemonset/{NAME}")
    kubectl("rollout", "status", f"daemonset/{NAME}", "--timeout=60s")
    assert image_of(kubectl) == {"v1"}
    assert revisions(kubectl) == {"v2": 2, "v1": 3}
    assert sorted(nodes_of(kubectl)) == sorted(everywhere)


def test_nodes_are_chosen_and_left(kubectl: Kubectl) -> None:
    label = f"example.com/{kubectl.namespace}"
    kubectl.apply(daemon_set("v1", nodeSelector={label: "yes"}))
    until(lambda: "desiredNumberScheduled" in numbers(kubectl), "the status is written", why=kubectl.state)
    [first, second] = sorted(map(name_of, kubectl.api.get("/api/v1/nodes")["items"]))[:2]
    try:
        kubectl("label", "node", first, second, f"{label}=yes")
        until(lambda: sorted(nodes_of(kubectl)) == [first, second], "both have a pod", why=kubectl.state)
        kubectl("label", "node", first, f"{label}-")
        until(lambda: nodes_of(kubectl) == [second], "the one that was left has none", why=kubectl.state)
        until(lambda: numbers(kubectl)["desiredNumberScheduled"] == 1, "the status says so", why=kubectl.state)
    finally:
        kubectl("label", "node", first, second, f"{label}-")
