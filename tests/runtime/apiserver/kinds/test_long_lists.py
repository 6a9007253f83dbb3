"""Validation of long lists takes linear time."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.pod_spec.resources import wrong_resources
from kcm.runtime.apiserver.kinds.pod_spec.scheduling import wrong_spread
from kcm.runtime.apiserver.kinds.resource.shared.device_claims import wrong_references
from kcm.runtime.apiserver.rules.webhook_clients import wrong_review_versions


class Counted(str):
    """String that counts its comparisons."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__

    def startswith(self, *arguments: Any) -> bool:
        Counted.comparisons += 1
        return str.startswith(self, *arguments)


def names(number: int) -> list[Any]:
    return [Counted(f"n{each}") for each in range(number)]


@pytest.mark.parametrize(
    "validate",
    [
        lambda: wrong_spread([{"topologyKey": name, "maxSkew": 1} for name in names(2_000)], "x"),
        lambda: wrong_review_versions(names(2_000), "x"),
        lambda: wrong_references(names(30), "x", {}),
    ],
    ids=["topologySpreadConstraints", "admissionReviewVersions", "requests"],
)
def test_elements_are_not_compared_with_all_others(validate: Any) -> None:
    Counted.comparisons = 0
    list(validate())
    assert Counted.comparisons < 20_000


def test_resource_claims_are_found_by_lookup() -> None:
    """Count executed lines, because the former comparison with all other claims was inside a generator."""
    lines = 0

    def trace(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    claims = [{"name": f"n{number}"} for number in range(1_000)]
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        list(wrong_resources({"claims": claims}, "x", ()))
    finally:
        sys.settrace(before)
    assert lines < 100_000
