"""Matches of tolerations and taints."""

import pytest

from kcm.protocols.tolerations import find_toleration, tolerates

TAINT = {"key": "gpu", "value": "a100", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "disk", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Equal", "value": "a100"}, True),
        ({"key": "gpu", "value": "a100"}, True),
        ({"key": "gpu", "operator": "", "value": "a100", "effect": ""}, True),
        ({"key": "gpu", "value": "h100"}, False),
        ({"key": "gpu"}, False),
        ({"value": "a100"}, False),
        ({"key": "gpu", "operator": "Gt", "value": "1"}, False),
    ],
)
def test_a_toleration_is_for_a_taint_of_its_key_value_and_effect(toleration, expected) -> None:
    assert tolerates(toleration, TAINT) is expected


def test_a_taint_without_a_value_equals_a_toleration_without_one() -> None:
    assert tolerates({"key": "gpu"}, {"key": "gpu", "effect": "NoExecute"})
    assert tolerates({"key": "gpu", "value": ""}, {"key": "gpu", "effect": "NoExecute"})


def test_first_matching_toleration_is_found() -> None:
    first = {"operator": "Exists", "tolerationSeconds": 7}
    assert find_toleration([{"key": "disk"}, first, {"key": "gpu", "operator": "Exists"}], TAINT) is first
    assert find_toleration([{"key": "disk"}], TAINT) is None
    assert find_toleration(None, TAINT) is None
