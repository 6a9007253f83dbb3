"""Observed state of an Indexed Job: failed indexes, and failed pods that are kept until they are replaced.

Source of the cases: kubernetes v1.36 pkg/controller/job/indexed_job_utils_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.workloads.job.backoff import Failures
from kcm.actors.controllers.workloads.job.fields import FAILURE_COUNT, IGNORED_FAILURE_COUNT, job_spec, job_status
from kcm.actors.controllers.workloads.job.observed import Observed, observe
from kcm.actors.controllers.workloads.job.plan import plan_pods
from kcm.actors.simulation.driver import NOW
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time
from tests.actors.controllers.workloads.job.scene import UID, exited, job, job_pods, pod


def observed(*pods: Object, status: Object | None = None, **spec: Any) -> Observed:
    shown = job(**{"completions": 3, "completionMode": "Indexed", "parallelism": 3, **spec})
    return observe(uid=UID, spec=job_spec(shown), status=job_status(status or {}), pods=job_pods(*pods))


def failed(name: str, index: int, count: str | None = "0", *, ignored: str | None = None, **more: Any) -> Object:
    annotations = {FAILURE_COUNT: count, IGNORED_FAILURE_COUNT: ignored}
    present = {key: value for key, value in annotations.items() if value is not None}
    return pod(name, more.pop("phase", "Failed"), index=index, annotations=present, **more)


def ended(ago: float) -> Object:
    return exited(1, at=NOW - ago)


@pytest.mark.parametrize(
    ("limit", "pods", "kept"),
    [
        (1, [failed("a", 0), failed("b", 1, "1"), failed("c", 2)], {"a", "c"}),
        (1, [failed("a", 0, tracked=False)], set()),
        (1, [failed("a", 4)], set()),
        (1, [failed("a1", 0), failed("a2", 0, "1", phase="Running")], set()),
        (1, [failed("a1", 0), failed("a2", 0, "1", phase="Succeeded")], set()),
        (4, [failed("a1", 0), failed("a3", 0, "2"), failed("a2", 0, "1")], {"a3"}),
        (4, [failed("a1", 0), failed("a3", 0, "1", ignored="2"), failed("a2", 0, "2")], {"a3"}),
        (
            4,
            [failed(name, 0, "1", status=ended(ago)) for name, ago in (("a1", 1), ("a3", 0), ("a2", 2))],
            {"a3"},
        ),
    ],
)
def test_last_failed_pod_of_an_index_is_kept_until_it_is_replaced(
    limit: int, pods: list[Object], kept: set[str]
) -> None:
    found = observed(*pods, backoffLimitPerIndex=limit)
    assert {job_pod.uid for job_pod in found.delayed_deletion.values()} == {f"uid-of-{name}" for name in kept}


@pytest.mark.parametrize(
    ("known", "pods", "indexes"),
    [
        (None, [], ""),
        ("0,2", [], "0,2"),
        ("0,2", [failed("a", 1, "1")], "0-2"),
        (None, [failed("a", 0), failed("b", 1, "1"), failed("c", 2, "1", tracked=False)], "1"),
        (None, [failed("a", 5, "1")], ""),
        (None, [failed("a", 1, "1", phase="Running")], ""),
        (None, [failed("a", 1, "1", phase="Running", deletionTimestamp=format_time(NOW))], "1"),
    ],
)
def test_indexes_above_their_backoff_limit_are_failed(known: str | None, pods: list[Object], indexes: str) -> None:
    status = {} if known is None else {"failedIndexes": known}
    assert str(observed(*pods, status=status, backoffLimitPerIndex=1).failed_indexes) == indexes


@pytest.mark.parametrize(
    ("text", "count"),
    [(None, 0), ("2", 2), (str(2**31 - 1), 2**31 - 1), (str(2**31), 0), ("-1", 0), ("xyz", 0), ("9" * 5000, 0)],
)
def test_failure_count_is_a_32_bit_number_or_0(text: str | None, count: int) -> None:
    [found] = job_pods(failed("a", 0, text))
    assert found.failures == count


@pytest.mark.parametrize(
    ("completions", "status", "pods", "indexes"),
    [
        (5, {}, {}, [0, 1, 2, 3, 4]),
        (10, {}, {0: "Running", 1: "Pending"}, [2, 3, 4]),
        (6, {"completedIndexes": "4,5"}, {6: "Running"}, [0, 1, 2, 3]),
        (20, {"completedIndexes": "2-4,9"}, {3: "Pending", 5: "Running", 8: "Pending"}, [0, 1, 6, 7, 10]),
        (20, {"completedIndexes": "1,5,9", "failedIndexes": "2,6,7"}, {3: "Pending", 9: "Pending"}, [0, 4, 8, 10, 11]),
    ],
)
def test_first_unused_indexes_are_next(
    completions: int, status: Object, pods: dict[int, str], indexes: list[int]
) -> None:
    found = observed(
        *(pod(f"p{index}", phase, index=index) for index, phase in pods.items() if index < completions),
        status=status,
        completions=completions,
        parallelism=len(indexes) + sum(index < completions for index in pods),
        backoffLimitPerIndex=5,
    )
    assert list(plan_pods(found, failures=Failures(of=UID), now=NOW).indexes) == indexes


@pytest.mark.parametrize(
    ("pods", "removed"),
    [
        (["- Pending", "2 Pending", "5 Running", "6 Running"], ["- Pending", "6 Running"]),
        (
            ["5 Pending", "0 Running", "3 Pending", "0 Running", "3 Running", "0 Pending", "6 Running", "6 Pending"],
            ["0 Pending", "0 Running", "3 Pending", "6 Pending", "6 Running"],
        ),
        (
            ["- Pending", "odd Running", "-2 Running", "0 Pending", "1 Pending", "1 Pending", "1 Running"],
            ["- Pending", "-2 Running", "1 Pending", "1 Pending", "odd Running"],
        ),
    ],
)
def test_most_advanced_pod_of_an_index_is_kept(pods: list[str], removed: list[str]) -> None:
    """Pods are described by index and phase."""
    made = {}
    for place, text in enumerate(pods):
        index, phase = text.split()
        made[f"uid-of-p{place}"] = pod(f"p{place}", phase, index=None if index == "-" else index)
    found = observed(*made.values(), completions=6, parallelism=6)
    plan = plan_pods(found, failures=Failures(of=UID), now=NOW)
    assert sorted(pods[list(made).index(surplus.uid)] for surplus in plan.delete) == removed
