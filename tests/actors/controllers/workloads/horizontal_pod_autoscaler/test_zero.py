"""Scaling to zero and from zero, with and without the feature gate HPAScaleToZero.

An autoscaler scales up from zero only if it scaled the target to zero, and only by metrics with a value without pods. A
target that another client scaled to zero is not scaled.

Source of the cases: kubernetes v1.36 pkg/controller/podautoscaler/horizontal_test.go (…Zero…).
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.actors.controllers.workloads.horizontal_pod_autoscaler.cases import (
    ODD,
    Case,
    about_other,
    cpu,
    expected,
    looked,
    outside,
)
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scaled import AT_ONCE

OFF = "SucceededGetScale ScalingDisabled"
BY_US = ("ScaledToZero",)
FROM_ZERO = Case("", about_other("15"), (20_000,), size=0, end=0, bounds=(0, 6))

WITH_THE_GATE = [
    replace(FROM_ZERO, about="up", was=BY_US, end=2, but="NotScaledToZero"),
    replace(
        FROM_ZERO,
        about="up for what would be within the tolerance",
        metrics=about_other("1"),
        values=(1000,),
        was=BY_US,
        end=1,
        but="NotScaledToZero",
    ),
    replace(
        FROM_ZERO,
        about="up to a least that was raised",
        values=(10_000,),
        was=BY_US,
        bounds=(2, 6),
        end=2,
        but="TooFewReplicas NotScaledToZero",
    ),
    replace(FROM_ZERO, about="not by us", only=OFF, computed=()),
    Case(
        "no metric that says something there",
        (cpu(30), ODD),
        (300, 400, 500),
        size=0,
        end=0,
        bounds=(0, 6),
        only=OFF,
        computed=(),
    ),
    Case("by hand, where the least is one", cpu(50), size=0, end=0, bounds=(1, 6), only=OFF, computed=()),
    Case("down by an object", about_other("20"), (0,), size=5, end=0, bounds=(0, 6), known=True, but="ScaledToZero"),
    Case("down by an external", outside("14400m"), (0,), size=5, end=0, bounds=(0, 6), known=True, but="ScaledToZero"),
    Case("elsewhere", cpu(30), (300, 500, 700), end=5, bounds=(1, 6), was=BY_US, but="NotScaledToZero"),
    # Own cases, in addition to upstream's.
    Case(
        "down by cpu, from where nothing leads up",
        cpu(90),
        (0, 0),
        size=2,
        end=0,
        bounds=(0, 6),
        known=True,
        but="NotScaledToZero",
    ),
    Case(
        "by us, and the metric was replaced",
        cpu(30),
        size=0,
        end=0,
        bounds=(0, 6),
        was=BY_US,
        only=f"{OFF} ScaledToZero",
        computed=(),
    ),
    replace(
        FROM_ZERO,
        about="up to a least that was raised, idle, with behavior",
        values=(0,),
        was=BY_US,
        bounds=(2, 6),
        behavior={"scaleUp": AT_ONCE, "scaleDown": AT_ONCE},
        end=2,
        but="NotScaledToZero",
        computed=(("none", "none", "Object"),),
    ),
]
WITHOUT_IT = [
    replace(FROM_ZERO, about="not up", was=BY_US, only=OFF, computed=()),
    replace(FROM_ZERO, about="not up, for little", values=(1000,), was=BY_US, only=OFF, computed=()),
    replace(FROM_ZERO, about="not up to a least that was raised", bounds=(2, 6), was=BY_US, only=OFF, computed=()),
    replace(FROM_ZERO, about="not by us", only=OFF, computed=()),
    Case(
        "no metric that says something there",
        (cpu(30), ODD),
        (300, 400, 500),
        size=0,
        end=0,
        bounds=(0, 6),
        only=OFF,
        computed=(),
    ),
    Case("by hand, where the least is one", cpu(50), size=0, end=0, bounds=(1, 6), only=OFF, computed=()),
    Case("by hand, where the least is three", cpu(90), size=0, end=0, bounds=(3, 5), only=OFF, computed=()),
    Case("down by an object", about_other("20"), (0,), size=5, end=0, bounds=(0, 6), known=True),
    Case("down by an external", outside("14400m"), (0,), size=5, end=0, bounds=(0, 6), known=True),
    Case("elsewhere", cpu(30), (300, 500, 700), end=5, bounds=(1, 6), was=BY_US),
]


@pytest.mark.parametrize("case", WITH_THE_GATE, ids=str)
def test_scaling_from_and_to_zero_with_the_gate(case: Case) -> None:
    case = replace(case, zeroes=True)
    assert looked(case) == expected(case)


@pytest.mark.parametrize("case", WITHOUT_IT, ids=str)
def test_target_at_zero_is_not_scaled_without_the_gate(case: Case) -> None:
    """A remaining condition ScaledToZero is removed at the next opportunity."""
    assert looked(case) == expected(case)
