"""Replicas from one metric, from the responses of the metrics APIs to the number; pods have two containers.

Source of the cases: kubernetes v1.36 pkg/controller/podautoscaler/replica_calculator_test.go (TestReplicaCalc…,
TestPlainMetric…, TestExternalPerPodMetric…).
"""

from __future__ import annotations

import pytest

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.replicas import MAX_REPLICAS, MAX_USAGE, Tolerances
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.sources import MetricError
from kcm.protocols.objects import Object
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.cases import (
    Case,
    about_other,
    about_other_each,
    cpu,
    each,
    outside,
    outside_each,
    proposed,
)

TENTH = Tolerances(0.1, 0.1)
ONE_PERCENT_UP = Tolerances(0.1, 0.01)
TWO = (2000,)  # one CPU for each container
UNEVEN = (1800, 2000, 2200)


def both(*levels: int) -> tuple[tuple[int, int], ...]:
    """Return the same usage for both containers."""
    return tuple((level, level) for level in levels)


def second(*levels: int, first: int = 1000) -> tuple[tuple[int, int], ...]:
    return tuple((first, level) for level in levels)


def of_cpu(percent: int, average: str) -> Object:
    return {"averageUtilization": percent, "averageValue": average}


FIVE = (100, 300, 500, 250, 250)
TEN = (800, 400, 620, 580, 604, 596, 602, 598, 600, 600)

UP = [
    (Case("all ready", cpu(30), both(300, 500, 700), 3, 5, requests=TWO), of_cpu(50, "1")),
    (Case("a container", cpu(30, "b"), second(300, 500, 700), 3, 5, requests=TWO), of_cpu(50, "500m")),
    (Case("one unready", cpu(30), both(300, 500, 700), 3, 4, "urr", TWO), of_cpu(60, "1200m")),
    (Case("one starts", cpu(30), both(300, 500, 700), 3, 4, "hrr", TWO), of_cpu(60, "1200m")),
    (Case("its container", cpu(30, "b"), second(300, 500, 700, first=0), 3, 4, "hrr", TWO), of_cpu(60, "600m")),
    (Case("two unready", cpu(30), both(400, 500, 700), 3, 3, "ruu", TWO), of_cpu(40, "800m")),
    (Case("two start", cpu(30), both(400, 500, 700), 3, 3, "rHH", TWO), of_cpu(40, "800m")),
    (Case("two failed", cpu(30), both(500, 700), 2, 4, "rrff", TWO), of_cpu(60, "1200m")),
    (
        Case("half measured", cpu(30, "b"), ((1000, 500), (9000, 700), (1000,), (9000,)), 2, 4, "rrff", TWO),
        of_cpu(60, "600m"),
    ),
    (Case("container of failed", cpu(30, "b"), ((1000, 500), (9000, 700)), 2, 4, "rrff", TWO), of_cpu(60, "600m")),
    (Case("two deleted", cpu(30), both(500, 700), 2, 4, "rrdd", TWO), of_cpu(60, "1200m")),
    (Case("container of deleted", cpu(30, "a"), both(500, 700), 2, 4, "rrdd", TWO), of_cpu(60, "600m")),
    (
        Case("more samples than pods", cpu(100), both(4000, 9500, 3000, 7000, 3200, 2000), 4, 24, requests=TWO),
        of_cpu(587, "11750m"),
    ),
    (Case("pods", each("15"), (20_000, 10_000, 30_000), 3, 4), {"averageValue": "20"}),
    (Case("pods, one starts", each("15"), (50_000, 10_000, 30_000), 3, 6, "rrH"), {"averageValue": "30"}),
    (Case("pods, two start", each("15"), (50_000, 15_000, 30_000), 3, 7, "HrH"), {"averageValue": "31666m"}),
    (Case("pods, few", each("4400m"), (8600,), 1, 2), {"averageValue": "8600m"}),
    (Case("an object", about_other("15"), (20_000,), 3, 4), {"value": "20"}),
    (Case("an object, two unready", about_other("10"), (50_000,), 3, 5, "uru"), {"value": "50"}),
    (Case("an object, for each", about_other_each("5"), (20_000,), 3, 4), {"averageValue": "6667m"}),
    (Case("an object, for each reported", about_other_each("2"), (8000,), 3, 4, reported=4), {"averageValue": "2"}),
    (Case("an object, no end", about_other("1m"), (MAX_USAGE,), 3, MAX_REPLICAS), {"value": f"{MAX_USAGE}m"}),
    (Case("external, two unready", outside("4400m"), (8600,), 3, 2, "uru"), {"value": "8600m"}),
    (Case("external, for each", outside_each("2150m"), (8600,), 3, 4), {"averageValue": "2867m"}),
    (
        Case("external, for each, no end", outside_each("1m"), (MAX_USAGE,), 1, MAX_REPLICAS),
        {"averageValue": f"{MAX_USAGE}m"},
    ),
    (
        Case("external, as much for each", outside_each(f"{MAX_USAGE}m"), (MAX_USAGE,), 1, 1),
        {"averageValue": f"{MAX_USAGE}m"},
    ),
    (
        Case("external, a sum without end", outside(f"{MAX_USAGE}m"), (MAX_USAGE // 2 + 1,) * 2, 3, 3),
        {"value": f"{MAX_USAGE}m"},
    ),
]
DOWN = [
    (Case("all ready", cpu(50), both(*FIVE), 5, 3, requests=TWO), of_cpu(28, "560m")),
    (Case("a container", cpu(50, "b"), second(*FIVE), 5, 3, requests=TWO), of_cpu(28, "280m")),
    (Case("two unready", cpu(50), both(*FIVE), 5, 2, "rrruu", TWO), of_cpu(30, "600m")),
    (Case("containers of two unready", cpu(50, "b"), second(*FIVE), 5, 2, "rrruu", TWO), of_cpu(30, "300m")),
    (Case("four pending", cpu(50), both(100), 5, 1, "rpppp", TWO), of_cpu(10, "200m")),
    (Case("containers of four pending", cpu(50, "b"), second(*FIVE), 5, 1, "rpppp", TWO), of_cpu(10, "100m")),
    (Case("two start", cpu(50), both(*FIVE), 5, 2, "rrrhh", TWO), of_cpu(30, "600m")),
    (
        Case("containers of two that start", cpu(50, "b"), second(100, 300, 500, 1000, 1000), 5, 2, "rrrhh", TWO),
        of_cpu(30, "300m"),
    ),
    (Case("two failed", cpu(50), both(*FIVE), 5, 3, "rrrrrff", TWO), of_cpu(28, "560m")),
    (Case("containers of two failed", cpu(50, "b"), second(*FIVE), 5, 3, "rrrrrff", TWO), of_cpu(28, "280m")),
    (Case("two deleted", cpu(50), both(*FIVE), 5, 3, "rrrrrdd", TWO), of_cpu(28, "560m")),
    (Case("containers of two deleted", cpu(50, "b"), second(*FIVE), 5, 3, "rrrrrdd", TWO), of_cpu(28, "280m")),
    (Case("pods", each("20"), (12_000,) * 5, 5, 3), {"averageValue": "12"}),
    (Case("an object", about_other("20"), (12_000,), 5, 3), {"value": "12"}),
    (Case("an object, for each", about_other_each("2"), (6000,), 5, 3), {"averageValue": "1200m"}),
    (Case("external", outside("14334m"), (8600,), 5, 3), {"value": "8600m"}),
    (Case("external, for each", outside_each("2867m"), (8600,), 5, 3), {"averageValue": "1720m"}),
    (Case("beyond the tolerance", cpu(56), both(*(150,) * 10), 10, 9, requests=TEN), of_cpu(50, "300m")),
]
ALONE = [
    (Case("cpu", cpu(100), both(1010, 1030, 1020), requests=UNEVEN), of_cpu(102, "2040m")),
    (Case("pods", each("20"), (20_000, 21_000, 21_000)), {"averageValue": "20666m"}),
    (Case("an object", about_other("20"), (20_666,)), {"value": "20666m"}),
    (Case("an object, for each", about_other_each("5"), (20_166,), 4, 4), {"averageValue": "5042m"}),
    (Case("external", outside("8888m"), (8600,)), {"value": "8600m"}),
    (Case("external, for each", outside_each("2900m"), (8600,)), {"averageValue": "2867m"}),
    (Case("within the tolerance", cpu(55), both(*(150,) * 10), 10, 10, requests=TEN), of_cpu(50, "300m")),
]
MISSING = [
    (Case("two of four", cpu(100), both(400, 95), 4, 3, requests=TWO), of_cpu(24, "495m")),
    (Case("two of five, pods", each("20"), (20_000, 19_000, 21_000), 5, 5), {"averageValue": "20"}),
    (Case("at the target", cpu(100), both(1000), 2, 2, requests=TWO), of_cpu(100, "2")),
    (Case("above it", cpu(100), both(1900), 2, 2, requests=TWO), of_cpu(190, "3800m")),
    (Case("below it", cpu(100), both(600), 2, 2, requests=TWO), of_cpu(60, "1200m")),
    (Case("and one unready", cpu(50), both(100, 450), 3, 3, "urr", TWO), of_cpu(45, "900m")),
    (Case("and one starts", cpu(50), both(100, 450), 3, 3, "hrr", TWO), of_cpu(45, "900m")),
    (Case("and one unready, much above", cpu(50), both(100, 2000), 3, 4, "urr", TWO), of_cpu(200, "4")),
    (Case("and one starts unready, much above", cpu(50), both(100, 2000), 3, 4, "Hrr", TWO), of_cpu(200, "4")),
    (Case("and one unready, below", cpu(50), both(100, 100, 100), 4, 3, "urrr", TWO), of_cpu(10, "200m")),
    (
        Case("more than requested", cpu(300), both(200, 100, 100), 4, 2, "urrr", (2000, 2000, 4000, 4000)),
        of_cpu(6, "200m"),
    ),
    (Case("one more by a rollout", cpu(50), both(100, 100), 2, 2, "rrr", TWO), of_cpu(10, "200m")),
    (Case("one more by a rollout, pods", each("17"), (10_000, 10_000), 2, 2, "rrr"), {"averageValue": "10"}),
]


@pytest.mark.parametrize(("case", "shown"), [*UP, *DOWN, *ALONE, *MISSING], ids=str)
def test_replicas_and_status_follow_from_a_metric(case: Case, shown: Object) -> None:
    assert proposed(case, TENTH) == (case.end, shown)


@pytest.mark.parametrize(
    ("tolerances", "case", "shown"),
    [
        (Tolerances(0, 0), Case("none", cpu(100), both(909, 1010, 1111), 3, 4, requests=UNEVEN), of_cpu(101, "2020m")),
        (
            Tolerances(0.1, 2),
            Case("200 % up", cpu(100), both(1890, 1910, 1900), requests=UNEVEN),
            of_cpu(190, "3800m"),
        ),
        (
            Tolerances(2, 0.08),
            Case("8 % up", cpu(100), both(1100, 1080, 1090), 3, 4, requests=UNEVEN),
            of_cpu(109, "2180m"),
        ),
        (Tolerances(0.36, 0.1), Case("36 % down", cpu(100), both(660, 640, 650), requests=UNEVEN), of_cpu(65, "1300m")),
        (
            Tolerances(0.34, 0.1),
            Case("34 % down", cpu(100), both(660, 640, 650), 3, 2, requests=UNEVEN),
            of_cpu(65, "1300m"),
        ),
        (ONE_PERCENT_UP, Case("pods", each("20"), (20_000, 21_000, 21_000), 3, 4), {"averageValue": "20666m"}),
        (ONE_PERCENT_UP, Case("an object", about_other("20"), (20_666,), 3, 4), {"value": "20666m"}),
        (
            ONE_PERCENT_UP,
            Case("an object, for each", about_other_each("5"), (20_208,), 4, 5),
            {"averageValue": "5052m"},
        ),
        (ONE_PERCENT_UP, Case("external", outside("8800m"), (8900,), 3, 4), {"value": "8900m"}),
        (
            ONE_PERCENT_UP,
            Case("external, for each", outside_each("2800m"), (8600,), 3, 4),
            {"averageValue": "2867m"},
        ),
    ],
    ids=str,
)
def test_each_direction_has_its_own_tolerance(tolerances: Tolerances, case: Case, shown: Object) -> None:
    assert proposed(case, tolerances) == (case.end, shown)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (Case("samples of pods that are gone", cpu(100), (100,), pods="-r"), "no metrics returned matched known pods"),
        (
            Case("no samples", cpu(100), pods="rrrr"),
            "unable to get metrics for resource cpu: no metrics returned from resource metrics API",
        ),
        (
            Case("nothing asked for", cpu(100), (200,), pods="r", requests=(0,)),
            "missing request for cpu in container a of",
        ),
    ],
    ids=str,
)
def test_metric_without_a_result_raises(case: Case, text: str) -> None:
    with pytest.raises(MetricError, match=text):
        proposed(case, TENTH)
