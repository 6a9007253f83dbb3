"""What --feature-gates switches."""

from __future__ import annotations

import pytest

from actors.app.arguments import read_options
from actors.options import InvalidOptions, Options
from actors.options.feature_gates import GATES


def options(*argv: str) -> Options:
    return read_options(argv)


def faults(*argv: str) -> tuple[str, ...]:
    with pytest.raises(InvalidOptions) as error:
        options(*argv)
    return error.value.errors


@pytest.mark.parametrize(
    "setting, gate, state",
    [
        ("", "PodDeletionCost", True),
        ("PodDeletionCost=false", "PodDeletionCost", False),
        ("kube:PodDeletionCost=false", "PodDeletionCost", False),
        ("AllBeta=false", "PodDeletionCost", False),
        ("AllBeta=false,PodDeletionCost=true", "PodDeletionCost", True),
        ("PodDeletionCost=true,AllBeta=false", "PodDeletionCost", True),
        ("AllAlpha=true", "PodDeletionCost", True),
        ("AllAlpha=true", "HPAScaleToZero", True),
        ("AllBeta=true", "MaxUnavailableStatefulSet", True),
        ("TaintBasedEvictions=false", "TaintBasedEvictions", False),
        ("VolumeAttributesClass=true", "VolumeAttributesClass", True),
    ],
)
def test_feature_gates_are_switched(setting: str, gate: str, state: bool) -> None:
    gates = options(f"--feature-gates={setting}").feature_gates
    assert gates[gate] is state
    assert gates.keys() == GATES.keys()


@pytest.mark.parametrize(
    "setting, fault",
    [
        ("Foo=true", "unrecognized feature gate: Foo"),
        ("apiserver:PodDeletionCost=true", "component not registered: apiserver"),
        ("PodDeletionCost", "missing bool value for PodDeletionCost"),
        (
            "PodDeletionCost=yes",
            'invalid value of PodDeletionCost=yes, err: strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        (
            "VolumeAttributesClass=false",
            "cannot set feature gate VolumeAttributesClass to false, feature is locked to true",
        ),
    ],
)
def test_feature_gates_that_cannot_be_set_are_named(setting: str, fault: str) -> None:
    assert faults(f"--feature-gates={setting}") == (fault,)
