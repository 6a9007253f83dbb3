"""Evictions (pods/eviction), limited by PodDisruptionBudgets.

The cases are those of upstream's pkg/registry/core/pod/storage/eviction_test.go that concern a single request: here
requests do not overlap.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Answer, Api

READY = [{"type": "Ready", "status": "True"}]
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
NOW = "2001-09-09T01:46:40Z"


def budget(name: str = "web", **spec: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def a_pod(api: Api, *, phase: str = "Running", ready: bool = True, name: str = "web") -> None:
    api.create("pods", api.pod(name, nodeName="n"))
    body = {"status": {"phase": phase, "conditions": READY if ready else []}}
    assert api.patch("pods", name, body, subresource="status").status == 200


def a_budget(api: Api, *, status: Object | None = None, name: str = "web", **spec: Any) -> None:
    assert api.create("poddisruptionbudgets", budget(name, **spec)).status == 201
    if status is not None:
        body = {"status": {"observedGeneration": 1, **status}}
        assert api.patch("poddisruptionbudgets", name, body, subresource="status").status == 200


def evict(api: Api, name: str = "web", *, options: Object | None = None, **query: str) -> Answer:
    body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if options is not None:
        body["deleteOptions"] = options
    return api.send("POST", api.path("pods", name, "eviction"), body, **query)


def is_terminating(api: Api, name: str = "web") -> bool:
    pod = api.get("pods", name)
    return pod.status == 404 or "deletionTimestamp" in pod.meta


def status_of(api: Api, name: str = "web") -> Object:
    status: Object = api.get("poddisruptionbudgets", name).obj["status"]
    return status


def test_without_a_budget_the_pod_is_marked_and_deleted(api: Api) -> None:
    a_pod(api)
    pods = api.watch("pods")
    assert evict(api, options={"gracePeriodSeconds": 3}).status == 201
    assert api.get("pods", "web").meta["deletionGracePeriodSeconds"] == 3
    marked, deleted = (event["object"] for event in pods.events[-2:])
    assert "deletionTimestamp" not in marked["metadata"]
    assert marked["status"]["conditions"][-1] == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": NOW,
    }
    assert deleted["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("name", "body", "status", "message"),
    [
        ("gone", {"metadata": {"name": "gone"}}, 404, 'pods "gone" not found'),
        ("web", {"metadata": {"name": "other"}}, 400, "name in URL does not match name in Eviction object"),
        ("web", {"metadata": {}}, 400, "name in URL does not match name in Eviction object"),
        (
            "web",
            {
                "metadata": {"name": "web"},
                "deleteOptions": {"ignoreStoreReadErrorWithClusterBreakingPotential": True},
            },
            422,
            "Invalid value: true: can not be set for pod eviction, try after removing the option",
        ),
        (
            "web",
            {"metadata": {"name": "web"}, "deleteOptions": {"preconditions": {"uid": "other"}}},
            409,
            "the UID in the precondition (other) does not match the UID in record",
        ),
    ],
)
def test_malformed_eviction_is_refused(api: Api, name: str, body: Object, status: int, message: str) -> None:
    a_pod(api)
    a_budget(api, status={"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2})
    answer = api.send("POST", api.path("pods", name, "eviction"), body)
    assert answer.status == status
    assert message in answer.message
    assert not is_terminating(api)
    assert status_of(api)["disruptionsAllowed"] == 1


def test_v1beta1_eviction_is_accepted(api: Api) -> None:
    a_pod(api)
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "web"}}
    assert api.send("POST", api.path("pods", "web", "eviction"), body).status == 201
    assert is_terminating(api)


ENOUGH = {"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 3}
TOO_FEW = {"disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 3, "expectedPods": 3}
NONE_WANTED = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 1}
ALLOWED = {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}


@pytest.mark.parametrize(
    ("ready", "phase", "policy", "status", "goes", "left"),
    [
        (True, "Running", None, ENOUGH, False, 0),
        (True, "Running", None, ALLOWED, True, 0),
        (True, "Running", "IfHealthyBudget", ENOUGH, False, 0),
        (True, "Running", "AlwaysAllow", ENOUGH, False, 0),
        (True, "Running", "AlwaysAllow", ALLOWED, True, 0),
        # An unready pod needs no budget if enough others are ready, or with AlwaysAllow.
        (False, "Running", None, ENOUGH, True, 0),
        (False, "Running", None, TOO_FEW, False, 0),
        (False, "Running", None, NONE_WANTED, False, 0),
        (False, "Running", None, ALLOWED, True, 1),
        (False, "Running", "IfHealthyBudget", ENOUGH, True, 0),
        (False, "Running", "IfHealthyBudget", TOO_FEW, False, 0),
        (False, "Running", "AlwaysAllow", TOO_FEW, True, 0),
        (False, "Running", "AlwaysAllow", NONE_WANTED, True, 0),
        # A pod that has ended, or does not run yet, needs no budget.
        (False, "Pending", None, TOO_FEW, True, 0),
        (False, "Succeeded", None, TOO_FEW, True, 0),
        (False, "Failed", None, TOO_FEW, True, 0),
        (True, "Pending", None, ENOUGH, True, 0),
    ],
)
def test_budget_limits_evictions(
    api: Api, ready: bool, phase: str, policy: str | None, status: Object, goes: bool, left: int
) -> None:
    a_pod(api, phase=phase, ready=ready)
    a_budget(api, status=status, **({} if policy is None else {"unhealthyPodEvictionPolicy": policy}))
    answer = evict(api)
    assert (answer.status, is_terminating(api)) == ((201, True) if goes else (429, False))
    assert status_of(api)["disruptionsAllowed"] == left


def test_eviction_is_recorded_in_the_budget(api: Api) -> None:
    a_pod(api)
    a_budget(api, status={**ALLOWED, "conditions": [{"type": "Theirs", "status": "True", "reason": "R", "message": "m",
                                                     "lastTransitionTime": NOW}]})  # fmt: skip
    assert evict(api).status == 201
    status = status_of(api)
    assert status["disruptedPods"] == {"web": NOW}
    assert [(condition["type"], condition["status"], condition["reason"]) for condition in status["conditions"]] == [
        ("Theirs", "True", "R"),
        ("DisruptionAllowed", "False", "InsufficientPods"),
    ]


@pytest.mark.parametrize(
    ("status", "condition", "cause"),
    [
        (TOO_FEW, {}, "The disruption budget web needs 3 healthy pods and has 2 currently"),
        (
            TOO_FEW,
            {"reason": "SyncFailed", "message": "no controllers"},
            "The disruption budget web does not allow evicting pods currently because it failed sync: no controllers",
        ),
        (
            {**TOO_FEW, "currentHealthy": 4},
            {"reason": "Else", "message": "later"},
            "The disruption budget web does not allow evicting pods currently (Else): later",
        ),
        ({**TOO_FEW, "currentHealthy": 4}, {}, "The disruption budget web does not allow evicting pods currently"),
    ],
)
def test_refusal_contains_the_cause(api: Api, status: Object, condition: Object, cause: str) -> None:
    a_pod(api)
    full = {"type": "DisruptionAllowed", "status": "False", "lastTransitionTime": NOW, **condition}
    a_budget(api, status={**status, "conditions": [full] if condition else []})
    answer = evict(api)
    assert (answer.status, answer.reason, answer.message) == (429, "TooManyRequests", REFUSED)
    assert answer.obj["details"] == {"causes": [{"reason": "DisruptionBudget", "message": cause}]}


def test_unobserved_budget_refuses_with_a_retry_delay(api: Api) -> None:
    a_pod(api)
    a_budget(api)
    answer = evict(api)
    assert (answer.status, answer.message) == (429, REFUSED)
    assert answer.obj["details"] == {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget web is still being processed by the server.",
            }
        ],
        "retryAfterSeconds": 10,
    }


def test_budget_with_too_many_unconfirmed_evictions_rejects_evictions(api: Api) -> None:
    a_pod(api)
    a_budget(api, status={**ALLOWED, "disruptedPods": {f"p{i}": NOW for i in range(2001)}})
    answer = evict(api)
    assert answer.status == 403
    assert answer.message == (
        'poddisruptionbudget.policy "web" is forbidden: DisruptedPods map too big - '
        "too many evictions not confirmed by PDB controller"
    )


def test_a_pod_with_two_budgets_is_not_evicted(api: Api) -> None:
    """The HTTP status is a success and the body is a failure, as upstream."""
    a_pod(api)
    for name in ("web", "other"):
        a_budget(api, name=name, status=ALLOWED)
    answer = evict(api)
    assert answer.status == 201
    assert (answer.obj["status"], answer.obj["code"]) == ("Failure", 500)
    assert answer.message == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )
    assert not is_terminating(api)


@pytest.mark.parametrize(
    ("selector", "applies"),
    [({}, True), (None, False), ({"matchLabels": {"app": "db"}}, False), ({"matchLabels": {"app": "web"}}, True)],
)
def test_budget_applies_to_selected_pods(api: Api, selector: Object | None, applies: bool) -> None:
    """An empty selector selects all pods, a missing selector none."""
    a_pod(api)
    a_budget(api, status=ENOUGH, selector=selector)
    assert evict(api).status == (429 if applies else 201)


def test_budget_of_another_namespace_does_not_apply(api: Api) -> None:
    a_pod(api)
    api.create("namespaces", {"metadata": {"name": "other"}})
    assert api.create("poddisruptionbudgets", budget(), namespace="other").status == 201
    assert evict(api).status == 201


def test_dry_run_eviction_changes_nothing_and_may_be_rejected(api: Api) -> None:
    a_pod(api)
    a_budget(api, status=ALLOWED)
    before = api.list("poddisruptionbudgets").obj, api.list("pods").obj
    assert evict(api, dryRun="All").status == 201
    assert evict(api, options={"dryRun": ["All"]}).status == 201
    assert evict(api, options={"dryRun": ["All"]}, dryRun="All").status == 201
    assert (api.list("poddisruptionbudgets").obj, api.list("pods").obj) == before
    api.patch("poddisruptionbudgets", "web", {"status": ENOUGH}, subresource="status")
    assert evict(api, dryRun="All").status == 429


def test_a_resource_version_is_a_precondition(api: Api) -> None:
    a_pod(api)
    version = api.get("pods", "web").meta["resourceVersion"]
    refused = evict(api, options={"preconditions": {"resourceVersion": "1"}})
    assert refused.status == 409
    assert "the ResourceVersion in the precondition (1) does not match" in refused.message
    assert evict(api, options={"preconditions": {"resourceVersion": version}}).status == 201


def test_a_pod_that_is_being_deleted_may_be_evicted_again(api: Api) -> None:
    a_pod(api)
    api.delete("pods", "web", {"gracePeriodSeconds": 30})
    a_budget(api, status=ENOUGH)
    assert evict(api).status == 201


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_evictions_never_exceed_the_allowed_disruptions(api: Api, allowed: int) -> None:
    for i in range(5):
        a_pod(api, name=f"web-{i}")
    a_budget(api, status={**ALLOWED, "disruptionsAllowed": allowed})
    answers = [evict(api, f"web-{i}").status for i in range(5)]
    assert sorted(answers) == [201] * allowed + [429] * (5 - allowed)
    assert len(status_of(api).get("disruptedPods") or {}) == allowed
