"""Metrics of the Job controller.

Source: kubernetes v1.36 pkg/controller/job (recordJobPodFinished, recordJobPodsCreationTotal,
recordFinishedPodWithTrackingFinalizer, and the tests of each).
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.workloads.job import metrics as of
from kcm.actors.controllers.workloads.job.metrics import STALE_SKIPS
from kcm.actors.reconciliation import Retry
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Get, List
from kcm.protocols.messages.outcomes import Done, Forbidden, Outcome
from kcm.protocols.objects import Object, encode_object
from kcm.runtime.metrics.families import STALE_SYNC_SKIPS
from kcm.runtime.metrics.registry import Counter, Family
from tests.actors.controllers.workloads.job.scene import Scene, exited, going, job, pod, pods


def shown(scene: Scene, family: Family) -> dict[tuple[str, ...], float]:
    """Return the value of each series by its labels."""
    found = dict(next((series for exported, series in scene.registry.collect() if exported == family), ()))
    return {labels: series.value for labels, series in found.items() if isinstance(series, Counter)}


def test_pods_and_the_job_are_counted_as_they_finish() -> None:
    scene = Scene(job(completions=2, parallelism=2), pods(Succeeded=2, Failed=1))
    scene.sync()
    assert shown(scene, of.PODS_FINISHED) == {("NonIndexed", "succeeded"): 2, ("NonIndexed", "failed"): 1}
    assert shown(scene, of.FINISHED) == {("NonIndexed", "succeeded", "CompletionsReached"): 1}


def test_series_start_at_zero() -> None:
    """A rate needs a first value that it can grow from."""
    scene = Scene(job(completions=2))
    scene.sync()
    assert shown(scene, of.PODS_FINISHED) == {("NonIndexed", "succeeded"): 0, ("NonIndexed", "failed"): 0}


@pytest.mark.parametrize(
    ("limit", "label", "counted"), [(None, "global", {"succeeded": 1}), (0, "perIndex", {"succeeded": 1, "failed": 1})]
)
def test_finished_indexes_are_counted(limit: int | None, label: str, counted: dict[str, int]) -> None:
    some = [pod("a", "Succeeded", index=0), pod("b", "Failed", index=1)]
    scene = Scene(job(completionMode="Indexed", completions=3, parallelism=3, backoffLimitPerIndex=limit), some)
    scene.sync()
    expected = {(status, label): float(count) for status, count in counted.items()}
    assert shown(scene, of.FINISHED_INDEXES) == expected
    assert shown(scene, of.PODS_FINISHED) == {("Indexed", "succeeded"): 1, ("Indexed", "failed"): 1}


@pytest.mark.parametrize(
    ("spec", "there", "reason"),
    [
        ({}, [], "new"),
        ({}, [pod("f", "Failed", status=exited(1, at=0.0))], "recreate_terminating_or_failed"),
        ({"podReplacementPolicy": "Failed"}, [pod("f", "Failed", status=exited(1, at=0.0))], "recreate_failed"),
        ({"podReplacementPolicy": "Failed"}, [going(pod("f", "Running"))], "recreate_terminating_or_failed"),
    ],
)
def test_created_pods_are_counted_by_reason(spec: dict[str, Any], there: list[Object], reason: str) -> None:
    scene = Scene(job(parallelism=2, completions=2, **spec), there)
    scene.sync()
    ((labels, count),) = shown(scene, of.PODS_CREATED).items()
    assert labels == (reason, "succeeded")
    assert count == 2 - sum("deletionTimestamp" in shown_pod["metadata"] for shown_pod in there)


def test_only_attempted_creations_are_counted_as_failed() -> None:
    """A quota permits three of ten pods: batches of 1, 2 and 4 are sent, and no further one."""
    scene = Scene(job(parallelism=10, completions=10))
    room = 3

    def answer(command: Command) -> Outcome:
        nonlocal room
        if not isinstance(command, Create):
            return scene.accept(command)
        room -= 1
        return scene.accept(command) if room >= 0 else Forbidden("exceeded quota")

    scene.sync(answer, raises=CommandError)
    assert shown(scene, of.PODS_CREATED) == {("new", "succeeded"): 3, ("new", "failed"): 4}
    assert shown(scene, of.SYNCS) == {("NonIndexed", "error", "pods_created"): 1}


@pytest.mark.parametrize("ends", [{"completions": 1}, {"completions": 5, "backoffLimit": 0}])
def test_removed_finalizers_of_finished_pods_are_counted(ends: dict[str, int]) -> None:
    """Operators watch the difference: finished pods whose finalizer is not removed yet."""
    scene = Scene(job(**ends), pods(Succeeded=1, Failed=1))
    for _ in range(3):
        scene.sync()
        scene.bench.catch_up()
    assert [status for _, status, _ in scene.conditions] == ["True", "True"]
    assert shown(scene, of.TRACKED_FINISHED) == {("add",): 2, ("delete",): 2}


def test_failures_handled_by_the_policy_are_counted_by_action() -> None:
    rules = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]
    some = [pod("a", "Failed", status=exited(3)), pod("b", "Failed", status=exited(4))]
    scene = Scene(job(parallelism=2, completions=2, podFailurePolicy={"rules": rules}), some)
    scene.sync()
    assert shown(scene, of.FAILURES_BY_POLICY) == {("Ignore",): 1}


def test_sync_that_waits_for_a_stale_table_is_not_counted() -> None:
    scene = Scene(job(completions=2, status={"active": 1}), pods(Succeeded=1))

    def answer(command: Command) -> Outcome:
        """Answer as a server with a newer version of the Job and without pods."""
        if isinstance(command, Get):
            newer = job(completions=2, meta={"resourceVersion": "99999"})
            return Done(encode_object(newer))
        assert isinstance(command, List)
        return Done(encode_object({"metadata": {"resourceVersion": "99999"}, "items": []}))

    scene.sync(answer, raises=Retry)
    assert shown(scene, of.STALE_SKIPS) == {("", "pods"): 1}
    assert shown(scene, of.SYNCS) == {}


def test_engine_counts_stale_syncs_of_jobs_in_the_same_metric() -> None:
    assert STALE_SYNC_SKIPS["job-controller"] == STALE_SKIPS
