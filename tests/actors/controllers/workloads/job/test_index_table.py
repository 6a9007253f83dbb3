"""One sync of an Indexed Job: created indexes, deleted pods, and counts.

Source of the cases: kubernetes v1.36 pkg/controller/job/job_controller_test.go (TestControllerSyncJob), with the gates
that are on by default.
"""

from __future__ import annotations

import pytest

from kcm.actors.controllers.workloads.job.fields import INDEX
from kcm.actors.simulation.driver import bodies
from kcm.protocols.messages.commands import Create
from kcm.protocols.objects import Object, annotations_of
from tests.actors.controllers.workloads.job.endings import Conditions, complete, will_fail
from tests.actors.controllers.workloads.job.scene import Scene, acts, described, job, numbers


def check(scene: Scene, created: list[int], deleted: int, released: int, left: Object, conditions: Conditions) -> None:
    driven = scene.sync()
    made = bodies(driven, Create)
    assert [int(annotations_of(body)[INDEX]) for body in made] == created
    assert [body["spec"]["hostname"] for body in made] == [f"count-{index}" for index in created]
    assert [body["metadata"]["generateName"] for body in made] == [f"count-{index}-" for index in created]
    assert acts(driven) == (len(created), deleted, released)
    assert scene.numbers == left
    assert scene.messages == conditions


@pytest.mark.parametrize(
    ("parallelism", "completions", "there", "created", "released", "left"),
    [
        (2, 5, "", [0, 1], 0, numbers(active=2)),
        (
            2,
            3,
            "Succeeded #0, Succeeded #1, Succeeded #1",
            [2],
            3,
            numbers(active=1, succeeded=2, completedIndexes="0,1"),
        ),
        (
            8,
            20,
            (
                "Running #0, Succeeded #2, Pending #3, Succeeded #4, "
                "Succeeded #5, Succeeded #7, Succeeded #8, Succeeded #9"
            ),
            [1, 6, 10, 11, 12, 13],
            6,
            numbers(active=8, succeeded=6, completedIndexes="2,4,5,7-9"),
        ),
        (3, 4, "Failed #0, Pending #1, Failed #2", [0, 2], 2, numbers(active=3, failed=2)),
    ],
)
def test_missing_indexes_are_created(
    parallelism: int, completions: int, there: str, created: list[int], released: int, left: Object
) -> None:
    shown = job(completionMode="Indexed", parallelism=parallelism, completions=completions)
    check(Scene(shown, described(there)), created, 0, released, left, [])


@pytest.mark.parametrize(("policy", "created", "released"), [("Failed", [0], 0), ("TerminatingOrFailed", [0, 1], 1)])
def test_terminating_pod_counts_with_replacement_policy_failed(policy: str, created: list[int], released: int) -> None:
    """The pod has no index, so it is not counted."""
    shown = job(completionMode="Indexed", parallelism=2, completions=5, podReplacementPolicy=policy)
    left = numbers(active=len(created), terminating=1)
    check(Scene(shown, described("Running going")), created, 0, released, left, [])


@pytest.mark.parametrize(
    ("parallelism", "there", "deleted", "released", "left"),
    [
        (
            2,
            (
                "Running, Succeeded, Failed, Running #bad, Succeeded #bad, Failed #bad, Pending #bad, "
                "Succeeded #0, Running #1, Running #2"
            ),
            3,
            8,
            numbers(active=2, succeeded=1, completedIndexes="0", terminating=2),
        ),
        (
            5,
            "Succeeded, Failed, Running #bad, Succeeded #0, Running #1, Running #2, Pending #2",
            2,
            5,
            numbers(active=2, succeeded=1, completedIndexes="0", terminating=1),
        ),
        (
            2,
            "Succeeded #0, Running #5, Succeeded #6, Pending #7, Failed #8",
            2,
            5,
            numbers(succeeded=1, completedIndexes="0", terminating=1),
        ),
    ],
)
def test_pods_with_invalid_or_duplicate_index_are_deleted_first(
    parallelism: int, there: str, deleted: int, released: int, left: Object
) -> None:
    """A pending pod is deleted at once, because it is not on a node."""
    shown = job(completionMode="Indexed", parallelism=parallelism, completions=5)
    check(Scene(shown, described(there)), [], deleted, released, left, [])


@pytest.mark.parametrize(
    ("limit", "there", "deleted", "released", "left", "conditions"),
    [
        (
            6,
            "Succeeded #0, Failed #1, Succeeded #1, Succeeded #2",
            0,
            4,
            numbers(succeeded=3, failed=1, completedIndexes="0-2"),
            complete("CompletionsReached"),
        ),
        (
            0,
            "Succeeded #0, Failed #1, Running #2",
            1,
            3,
            numbers(succeeded=1, failed=2, completedIndexes="0", terminating=1),
            will_fail("BackoffLimitExceeded"),
        ),
    ],
)
def test_job_finishes_with_all_indexes_or_too_many_failures(
    limit: int, there: str, deleted: int, released: int, left: Object, conditions: Conditions
) -> None:
    shown = job(completionMode="Indexed", parallelism=2, completions=3, backoffLimit=limit)
    check(Scene(shown, described(there)), [], deleted, released, left, conditions)
