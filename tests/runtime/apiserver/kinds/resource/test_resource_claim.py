"""Tests of status.devices of ResourceClaims when devices are deallocated."""

from __future__ import annotations

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.kinds.resource.resource_claim import prepare_for_status_update


def device(name: str, **more: str) -> Object:
    return {"driver": "gpu.example.com", "pool": "pool", "device": name, **more}


def status(allocated: list[Object] | None, devices: list[Object]) -> Object:
    allocation = {} if allocated is None else {"allocation": {"devices": {"results": allocated}}}
    return {"status": {**allocation, **({"devices": devices} if devices else {})}}


A, B, SHARED = device("a"), device("b"), device("a", shareID="s")


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ([A, B], None, []),
        ([A, B], [A], [A]),
        ([A, B], [A, B], [A, B]),
        ([A, SHARED], [SHARED], [B, SHARED]),
        (None, None, [A, B, SHARED]),
        (None, [A], [A, B, SHARED]),
    ],
)
def test_status_of_deallocated_devices_is_removed(
    before: list[Object] | None, after: list[Object] | None, kept: list[Object]
) -> None:
    devices = [A, B, SHARED] if before is None or SHARED in before else [A, B]
    new = status(after, list(devices))
    prepare_for_status_update(new, status(before, devices))
    assert new["status"].get("devices", []) == sorted(kept, key=devices.index)


def test_claim_without_status_is_unchanged() -> None:
    new: Object = {}
    prepare_for_status_update(new, {})
    assert new == {}
