"""`kubectl drain` and evictions meet budgets, on our cluster and on a real kube-apiserver."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.e2e.budgets import allowed, budget, evict
from tests.e2e.kubectl import Kubectl, name_of
from tests.e2e.manifests import deployment, pod
from tests.e2e.programs import until

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def test_a_drain_waits_until_its_budget_allows_it(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("drained", 3), budget("drained", minAvailable="100%"))
    (first, *_) = kubectl.until_pods(3, "app=drained")
    until(lambda: allowed(kubectl, "drained") == (0, 3, 3, 3), "nothing is allowed", why=kubectl.state)
    node = first["spec"]["nodeName"]
    drain = ("drain", node, "--pod-selector=app=drained", "--timeout")
    try:
        refused = kubectl.run(*drain, "2s")
        assert refused.returncode == 1
        assert REFUSED in refused.stderr
        assert len(kubectl.ready_pods("app=drained")) == 3
        kubectl.apply(budget("drained", minAvailable=2))
        until(lambda: allowed(kubectl, "drained") == (1, 3, 2, 3), "one is allowed", why=kubectl.state)
        assert f"node/{node} drained" in kubectl(*drain, "60s")
        left = kubectl.until_pods(3, "app=drained")
        assert node not in {pod["spec"]["nodeName"] for pod in left}
        until(lambda: allowed(kubectl, "drained") == (1, 3, 2, 3), "the new one counts", why=kubectl.state)
    finally:
        kubectl("uncordon", node)


def test_no_more_go_at_once_than_is_allowed(kubectl: Kubectl) -> None:
    names = [f"p{i}" for i in range(6)]
    labels = {"app": "many"}
    kubectl.apply(*(pod(name, labels=labels) for name in names), budget("many", minAvailable=4))
    kubectl.until_pods(6, "app=many")
    until(lambda: allowed(kubectl, "many") == (2, 6, 4, 6), "two are allowed", why=kubectl.state)
    with ThreadPoolExecutor(max_workers=6) as users:
        done = list(users.map(lambda name: evict(kubectl, name), names))
    assert sorted(eviction.returncode for eviction in done) == [0, 0, 1, 1, 1, 1]
    assert all(REFUSED in eviction.stderr for eviction in done if eviction.returncode)
    until(lambda: len(kubectl.items("pods", "app=many")) == 4, "four are left", why=kubectl.state)
    until(lambda: allowed(kubectl, "many") == (0, 4, 4, 4), "none more", why=kubectl.state)
    assert "disruptedPods" not in kubectl.get("policy/v1/poddisruptionbudgets", "many")["status"]


def test_eviction_is_answered_according_to_its_budget(kubectl: Kubectl) -> None:
    kubectl.apply(pod("web"), budget("web", minAvailable=1))
    kubectl.until_pods(1, "app=web")
    until(lambda: allowed(kubectl, "web") == (0, 1, 1, 1), "nothing is allowed", why=kubectl.state)
    assert REFUSED in evict(kubectl, "web").stderr
    assert REFUSED in evict(kubectl, "web", deleteOptions={"dryRun": ["All"]}).stderr
    kubectl.apply(budget("other", "web", maxUnavailable=1))
    two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    eviction = evict(kubectl, "web")
    assert two in eviction.stdout + eviction.stderr
    kubectl("delete", "pdb", "other", "web")
    wrong = evict(kubectl, "web", deleteOptions={"preconditions": {"uid": "1"}})
    assert "the UID in the precondition (1) does not match the UID in record" in wrong.stderr
    assert evict(kubectl, "web", deleteOptions={"dryRun": ["All"]}).returncode == 0
    assert name_of(kubectl.until_pods(1, "app=web")[0]) == "web"
    assert evict(kubectl, "web").returncode == 0
    kubectl.until_pods(0, "app=web")
