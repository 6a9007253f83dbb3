"""Evaluations of autoscalers that do not scale their target.

Source of the cases: kubernetes v1.36 pkg/controller/podautoscaler/horizontal_test.go (…NoScale, Test…Tolerance…,
Test…Stabilize…, TestEventNotCreated, TestAvoidUnnecessaryUpdates).
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kcm.protocols.messages.commands import Update
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.cases import (
    Case,
    about_other,
    about_other_each,
    cpu,
    each,
    expected,
    look_in_vain,
    looked,
    outside,
    outside_each,
    scene_of,
)
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scaled import AT_ONCE

REQUESTS = (900, 1000, 1100)
UNEVEN = (400, 200, 310, 290, 302, 298, 301, 299, 300, 300)
DOWN = (("scale_down", "none", "Resource"),)  # computed, but not carried out

ALONE = [
    Case("unready pods", cpu(30), (400, 500, 700), pods="ruu", percent=40),
    Case("pods that start unready", cpu(30), (400, 500, 700), pods="rHH", percent=40),
    Case("a tolerance", cpu(100), (1010, 1030, 1020), requests=REQUESTS, bounds=(1, 5), percent=102),
    Case("a tolerance, pods", each("20"), (20_000, 20_001, 21_000), bounds=(1, 5)),
    Case("a tolerance, an object", about_other("20"), (20_050,), bounds=(1, 5)),
    Case("a tolerance, external", outside("8666m"), (8600,), size=4, end=4),
    Case("a tolerance, an object for each pod", about_other_each("2200m"), (8600,), size=4, end=4),
    Case("a tolerance, external for each pod", outside_each("2200m"), (8600,), size=4, end=4),
    Case(
        "just within the tolerance",
        cpu(55),
        (150,) * 10,
        requests=UNEVEN,
        size=10,
        end=10,
        bounds=(0, 1000),
        percent=50,
        known=True,
    ),
    Case("as it should be", cpu(50), (200, 200), requests=(400,), size=2, end=2, bounds=(1, 5)),
    Case("one more pod by a rollout", cpu(50), (500,) * 5, pods="rrrrr", size=4, end=4, reported=5, bounds=(1, 8)),
]


@pytest.mark.parametrize("case", ALONE, ids=str)
def test_target_is_not_scaled(case: Case) -> None:
    assert looked(case) == expected(case)


TOLERANCES = [
    Case(
        "of 1 % up", cpu(100), (1010, 1030, 1020), requests=REQUESTS, end=4, behavior={"scaleUp": {"tolerance": "0.01"}}
    ),
    Case("of 90 % down", cpu(100), (300, 300, 300), behavior={"scaleDown": {"tolerance": "0.9"}}),
    Case("of nobody", cpu(100), (1010, 1030, 1020), requests=REQUESTS),
    Case(
        "of 1 % up without the gate",
        cpu(100),
        (1010, 1030, 1020),
        requests=REQUESTS,
        behavior={"scaleUp": {"tolerance": "0.01"}},
        tolerates=False,
    ),
]


@pytest.mark.parametrize("case", TOLERANCES, ids=str)
def test_tolerance_of_the_autoscaler_is_used(case: Case) -> None:
    rules = {way: {**AT_ONCE, **(case.behavior or {}).get(way, {})} for way in ("scaleUp", "scaleDown")}
    case = replace(case, behavior=rules, bounds=(1, 5))
    assert looked(case) == expected(case)


STABLE = [
    Case("since its start", cpu(50), (100, 300, 500, 250, 250), size=5, end=5, percent=28),
    Case("since a minute", cpu(100), (50, 50, 50), requests=(100,), pods="rrr", size=4, end=4, bounds=(1, 5)),
]


@pytest.mark.parametrize(("case", "seconds"), list(zip(STABLE, (0, 60), strict=True)), ids=str)
def test_target_is_not_scaled_below_recent_recommendations(case: Case, seconds: float) -> None:
    case = replace(case, but="ScaleDownStabilized", computed=DOWN)
    scene = scene_of(case)
    if seconds:
        look_in_vain(scene, ago=seconds)
    assert looked(case, scene) == expected(case)


def test_unchanged_status_is_not_written() -> None:
    """Upstream's case: two of three pods are starting, and the third pod leads to less than minReplicas."""
    case = Case("", cpu(80), (400, 500, 700), pods="rHH", size=2, end=2, but="TooFewReplicas", percent=40, known=True)
    scene = scene_of(replace(case, computed=DOWN))
    assert looked(case, scene)["conditions"] == expected(case)["conditions"]
    scene.bench.catch_up()
    assert scene.look().of(Update) == []
