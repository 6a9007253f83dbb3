"""Tests of the truncation of Endpoints, with upstream's cases."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.network.endpoints.capacity import truncated
from kcm.protocols.objects import Object


def subsets(ready: list[int], not_ready: list[int]) -> list[Object]:
    found: list[Object] = []
    for number, (some, others) in enumerate(zip(ready, not_ready, strict=True)):
        found.append(
            {
                "addresses": [{"ip": f"10.{number}.{i // 250}.{i % 250}"} for i in range(some)],
                "notReadyAddresses": [{"ip": f"11.{number}.{i // 250}.{i % 250}"} for i in range(others)],
                "ports": [{"port": number + 1}],
            }
        )
    return found


@pytest.mark.parametrize(
    ("ready", "not_ready", "left", "not_ready_left"),
    [
        ([997], [4], [997], [3]),
        ([1000], [10], [1000], [0]),
        ([1001], [0], [1000], [0]),
        ([90, 110, 50, 10, 20], [101, 200, 200, 201, 298], [90, 110, 50, 10, 20], [73, 144, 144, 145, 214]),
        ([205, 400, 402, 400, 693], [100, 200, 200, 200, 300], [98, 191, 192, 191, 328], [0] * 5),
    ],
)
def test_ready_addresses_are_kept_first(
    ready: list[int], not_ready: list[int], left: list[int], not_ready_left: list[int]
) -> None:
    found = truncated(subsets(ready, not_ready))
    assert found is not None
    assert [len(subset.get("addresses") or ()) for subset in found] == left
    assert [len(subset.get("notReadyAddresses") or ()) for subset in found] == not_ready_left


def test_endpoints_within_capacity_are_unchanged() -> None:
    assert truncated(subsets([600, 300], [50, 50])) is None
