"""Indexed Jobs: pending indexes, and creation, deletion and counting of their pods."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.workloads.job.fields import FAILURE_COUNT, IGNORED_FAILURE_COUNT, INDEX
from kcm.actors.controllers.workloads.job.pod_control import base_name
from kcm.actors.simulation.driver import NOW, bodies, created_names
from kcm.protocols.messages.commands import Create
from kcm.protocols.objects import Object, annotations_of
from tests.actors.controllers.workloads.job.scene import Scene, acts, exited, going, job, pod


def indexed(**more: Any) -> Object:
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimit": 100, **more}
    return job(**spec)


def created_indexes(scene: Scene) -> list[int]:
    return [int(annotations_of(body)[INDEX]) for body in bodies(scene.sync(), Create)]


def test_created_pod_has_its_index() -> None:
    scene = Scene(indexed(parallelism=1))
    driven = scene.sync()
    [made] = bodies(driven, Create)
    assert made["metadata"]["generateName"] == "count-0-"
    assert created_names(driven)[0].startswith("count-0-")
    assert made["metadata"]["labels"][INDEX] == "0"
    assert made["spec"]["hostname"] == "count-0"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    assert made["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]


def test_long_name_keeps_its_index() -> None:
    assert base_name("x" * 60, 17) == f"{'x' * 54}-17-"


def test_pods_without_a_valid_index_are_deleted_uncounted() -> None:
    there = [
        pod("none", "Running"),
        pod("odd", "Running", index="abc"),
        pod("below", "Pending", index="-2"),
        pod("one", "Pending", index=1),
        pod("two", "Running", index=2),
        pod("zero", "Succeeded", index=0),
        pod("lost", "Succeeded"),
        pod("failed", "Failed"),
    ]
    scene = Scene(indexed(parallelism=2, completions=5), there)
    assert acts(scene.sync()) == (0, 3, 6)
    assert (scene.counts, scene.status["completedIndexes"]) == ((2, 1, 0), "0")


def test_one_pod_of_each_index_is_kept() -> None:
    there = [pod("a", "Running", index=2), pod("b", "Pending", index=2), pod("bad", "Running")]
    scene = Scene(indexed(completions=5), there)
    assert acts(scene.sync()) == (0, 2, 2)
    assert scene.counts == (1, 0, 0)


def test_indexes_beyond_reduced_completions_are_not_counted() -> None:
    scene = Scene(indexed(parallelism=2, completions=2, status={"completedIndexes": "3", "succeeded": 1}))
    scene.sync()
    assert (scene.counts[1], scene.status.get("completedIndexes", "")) == (0, "")


@pytest.mark.parametrize(("policy", "indexes"), [("Failed", [0]), ("TerminatingOrFailed", [0, 1])])
def test_terminating_pod_keeps_its_index_with_replacement_policy_failed(policy: str, indexes: list[int]) -> None:
    there = [going(pod("going", "Running", index=1))]
    scene = Scene(indexed(parallelism=2, completions=5, podReplacementPolicy=policy), there)
    assert created_indexes(scene) == indexes


PER_INDEX = {"backoffLimitPerIndex": 1}


def failing(name: str, index: int, failures: int, *, code: int = 1, at: float = NOW - 60) -> Object:
    return pod(name, "Failed", index=index, annotations={FAILURE_COUNT: str(failures)}, status=exited(code, at=at))


def test_failed_pod_is_counted_when_its_replacement_has_its_failure_count() -> None:
    scene = Scene(indexed(parallelism=1, **PER_INDEX), [failing("a", 0, 0)])
    [made] = bodies(scene.sync(), Create)
    assert annotations_of(made)[FAILURE_COUNT] == "1"
    assert scene.counts == (1, 0, 0)
    scene.sync()
    assert scene.counts == (1, 0, 1)


def test_index_waits_for_its_own_backoff() -> None:
    there = [failing("a", 0, 0, at=NOW - 4), failing("b", 1, 0)]
    scene = Scene(indexed(parallelism=2, completions=2, **PER_INDEX), there)
    assert created_indexes(scene) == [1]
    scene = Scene(indexed(parallelism=1, completions=1, **PER_INDEX), there[:1])
    driven = scene.sync()
    assert driven.result is not None
    assert driven.result.seconds == pytest.approx(6.0)


def rules(code: int, action: str) -> Object:
    return {"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [code]}}]}


def test_ignored_failure_is_recorded_in_the_replacement() -> None:
    shown = indexed(parallelism=1, podFailurePolicy=rules(3, "Ignore"), **PER_INDEX)
    scene = Scene(shown, [failing("a", 0, 0, code=3)])
    [made] = bodies(scene.sync(), Create)
    assert (annotations_of(made)[FAILURE_COUNT], annotations_of(made)[IGNORED_FAILURE_COUNT]) == ("0", "1")


def enough(**rule: Any) -> Object:
    return {"successPolicy": {"rules": [rule]}}


@pytest.mark.parametrize(
    ("rule", "is_met"),
    [
        ({"succeededIndexes": "0,1", "succeededCount": 1}, True),
        ({"succeededIndexes": "0,1"}, False),
        ({"succeededIndexes": "1"}, True),
        ({"succeededCount": 1}, True),
        ({"succeededCount": 2}, False),
        ({"succeededIndexes": ""}, False),
        ({"succeededIndexes": "1-9"}, False),
    ],
)
def test_success_policy_finishes_the_job(rule: Object, is_met: bool) -> None:
    there = [pod("a", "Running", index=0), pod("b", "Succeeded", index=1), pod("c", "Running", index=2)]
    scene = Scene(indexed(**enough(**rule)), there)
    scene.sync()
    assert scene.conditions == ([("SuccessCriteriaMet", "True", "SuccessPolicy")] if is_met else [])
    assert scene.counts[2] == 0
    assert scene.status["terminating"] == (2 if is_met else 0)
