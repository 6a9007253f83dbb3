"""One sync of a Job with a pod failure policy: ignored, counted and fatal failures.

Source of the cases: kubernetes v1.36 pkg/controller/job/job_controller_test.go (TestSyncJobWithJobPodFailurePolicy),
with the gates that are on by default.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.simulation.driver import NOW
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time
from tests.actors.controllers.workloads.job.endings import Conditions, failed, will_fail
from tests.actors.controllers.workloads.job.scene import Scene, described, exited, job, numbers, pod


def on_exit(action: str, *codes: int, operator: str = "In", **more: str) -> Object:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes), **more}}


def on_condition(action: str, type: str) -> Object:
    return {"action": action, "onPodConditions": [{"type": type, "status": "True"}]}


def with_rules(*rules: Object, wanted: int = 1, **more: Any) -> Object:
    spec = {"parallelism": wanted, "completions": wanted, "podReplacementPolicy": "Failed", **more}
    return job(podFailurePolicy={"rules": list(rules)}, **spec)


def ended(**codes: int) -> list[Object]:
    """A failed pod whose containers have ended with these codes, by their names; that of init is an init container."""
    statuses = {name: exited(code, container=name, at=0.0)["containerStatuses"][0] for name, code in codes.items()}
    init = [statuses.pop("init")] if "init" in statuses else []
    return [pod("p0", "Failed", status={"containerStatuses": list(statuses.values()), "initContainerStatuses": init})]


RULES = [on_exit("Ignore", 1, 2, 3), on_exit("FailJob", 5, 6, 7)]
OF_MAIN = [on_exit("Ignore", 1, 2, 3, containerName="main"), on_exit("FailJob", 5, 6, 7, containerName="main")]
COUNT_2 = [on_exit("Count", 1, 2), on_exit("Ignore", 2, 3)]
COUNT_LIMIT = [on_condition("Count", "ResourceLimitExceeded"), on_condition("Ignore", "DisruptionTarget")]


def check(shown: Object, there: list[Object], left: Object, conditions: Conditions) -> None:
    scene = Scene(shown, there)
    scene.sync()
    assert scene.numbers == left
    assert scene.messages == conditions


@pytest.mark.parametrize(
    ("shown", "there", "left"),
    [
        (with_rules(*OF_MAIN), ended(beside=5, main=42), numbers(active=1, failed=1)),
        (with_rules(*RULES), described("Running exit=5"), numbers(active=1)),
        (with_rules(on_exit("FailJob", 5, 6, 7, operator="NotIn")), ended(main=5), numbers(active=1, failed=1)),
        (with_rules(*RULES, backoffLimit=0), ended(one=2, two=6), numbers(active=1)),
        (with_rules(*RULES, backoffLimit=0), ended(main=1), numbers(active=1)),
        (with_rules(*COUNT_2), ended(main=2), numbers(active=1, failed=1)),
        (
            with_rules(*COUNT_LIMIT),
            described("Failed ResourceLimitExceeded DisruptionTarget"),
            numbers(active=1, failed=1),
        ),
        (
            with_rules(on_condition("Ignore", "DisruptionTarget"), backoffLimit=0),
            described("Failed DisruptionTarget"),
            numbers(active=1),
        ),
    ],
)
def test_a_failure_is_ignored_or_counted_and_the_pod_replaced(shown: Object, there: list[Object], left: Object) -> None:
    check(shown, there, left, [])


def test_an_ignored_failure_is_waited_for_as_any_other() -> None:
    """Its pod was deleted just now."""
    status = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    there = [pod("p0", "Failed", status=status, deletionTimestamp=format_time(NOW))]
    check(with_rules(on_condition("Ignore", "DisruptionTarget"), backoffLimit=0), there, numbers(), [])


def test_with_a_policy_a_terminating_pod_has_not_failed() -> None:
    shown = job(podFailurePolicy={"rules": [on_condition("Count", "DisruptionTarget")]}, backoffLimit=0)
    check(shown, described("Pending going"), numbers(terminating=1), [])


def by_code(code: int, rule: int, container: str = "main", pod: str = "p0") -> str:
    ended = f"Container {container} for pod default/{pod} failed with exit code {code}"
    return f"{ended} matching FailJob rule at index {rule}"


POLICY = "PodFailurePolicy"
INDEXED = {"completionMode": "Indexed"}


@pytest.mark.parametrize(
    ("shown", "there", "left", "conditions"),
    [
        (with_rules(*RULES), ended(main=5), numbers(failed=1), failed(POLICY, by_code(5, 1))),
        (
            with_rules(*RULES, wanted=2),
            described("Running, Failed exit=5"),
            numbers(failed=2, terminating=1),
            will_fail(POLICY, by_code(5, 1, pod="p1")),
        ),
        (
            with_rules(*RULES, **INDEXED),
            described("Failed #0 exit=5"),
            numbers(failed=1),
            failed(POLICY, by_code(5, 1)),
        ),
        (
            with_rules(on_exit("FailJob", 5, 6, 7, operator="NotIn")),
            ended(main=42),
            numbers(failed=1),
            failed(POLICY, by_code(42, 0)),
        ),
        (
            with_rules(*RULES),
            ended(init=5, main=143),
            numbers(failed=1),
            failed(POLICY, by_code(5, 1, container="init")),
        ),
        (with_rules(*RULES, backoffLimit=0), ended(main=10), numbers(failed=1), failed("BackoffLimitExceeded")),
        (
            with_rules(on_condition("FailJob", "DisruptionTarget")),
            described("Failed DisruptionTarget"),
            numbers(failed=1),
            failed(POLICY, "Pod default/p0 has condition DisruptionTarget matching FailJob rule at index 0"),
        ),
    ],
)
def test_a_failure_ends_the_job(shown: Object, there: list[Object], left: Object, conditions: Conditions) -> None:
    check(shown, there, left, conditions)


@pytest.mark.parametrize("pod", ["p0", "deleted-already"])
def test_first_failure_reason_is_kept(pod: str) -> None:
    why = by_code(5, 1, pod=pod)
    known = dict(zip(("type", "status", "reason", "message"), will_fail(POLICY, why)[0], strict=True))
    shown = with_rules(*RULES, status={"conditions": [known]})
    check(shown, ended(main=5), numbers(failed=1), failed(POLICY, why))
