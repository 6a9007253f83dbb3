"""The allocator, compared with upstream's for all of upstream's test cases.

upstream_allocations.json is recorded by record_upstream.py, with the default feature gates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kcm.actors.hollow.scheduler.devices.allocator import Allocator
from kcm.actors.hollow.scheduler.devices.inventory import DeviceId, Inventory, slice_of
from kcm.actors.hollow.scheduler.devices.requests import AllocationError, NodeAllocationError, tolerates
from kcm.actors.hollow.scheduler.node_fit import node_view
from kcm.protocols.objects import Object, name_of
from kcm.protocols.quantities import parse_quantity

CASES = {case["name"]: case for case in json.loads(Path(__file__).with_name("upstream_allocations.json").read_bytes())}


class Given:
    """The allocated devices of a case."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.dedicated = {DeviceId(*device) for device in case["allocated"]}
        self.shared = {DeviceId(*device) for device in case["shared"]}
        self.capacity = {
            DeviceId(*each["device"]): {name: Decimal(parse_quantity(text)) for name, text in each["capacity"].items()}
            for each in case["capacities"]
        }

    def is_dedicated(self, device: DeviceId) -> bool:
        return device in self.dedicated

    def is_used(self, device: DeviceId) -> bool:
        return device in self.dedicated or device in self.shared

    def consumed(self, device: DeviceId) -> Mapping[str, Decimal] | None:
        return self.capacity.get(device)


def allocate(case: Mapping[str, Any]) -> tuple[list[Object] | None, str]:
    classes = {name_of(each): each for each in case["classes"] or ()}
    allocator = Allocator(Inventory(map(slice_of, case["slices"] or ())), Given(case), classes.get)
    try:
        return allocator.allocate(node_view(case["node"]), case["claims"] or ()), ""
    except (AllocationError, NodeAllocationError) as err:
        return None, str(err)


def comparable(results: list[Object] | None) -> Any:
    """Return results with one share ID, as in the recording, and without empty fields."""
    found = []
    for result in results or ():
        devices = [
            {**each, "shareID": "some"} if each.get("shareID") else each for each in result["devices"]["results"] or ()
        ]
        found.append((devices, result["devices"].get("config") or [], result.get("nodeSelector")))
    return found


@pytest.mark.parametrize("name", CASES)
def test_allocation_is_that_of_upstream(name: str) -> None:
    case = CASES[name]
    results, error = allocate(case)
    # The fake lister of upstream's test does not name the class in its error.
    assert re.sub(r'deviceclass.resource.k8s.io "[a-z-]+" not found', ' "not found" not found', error) == case["error"]
    assert comparable(results) == comparable(case["results"])


TOLERATIONS: Mapping[str, tuple[Object, Object, bool]] = {
    "everything": ({"operator": "Exists"}, {"key": "a", "effect": "NoExecute"}, True),
    "the key, with any value": ({"key": "a", "operator": "Exists"}, {"key": "a", "value": "v"}, True),
    "another key": ({"key": "b", "operator": "Exists"}, {"key": "a"}, False),
    "the value, without an operator": ({"key": "a", "value": "v"}, {"key": "a", "value": "v"}, True),
    "another value": ({"key": "a", "operator": "Equal", "value": "w"}, {"key": "a", "value": "v"}, False),
    "another effect": ({"operator": "Exists", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}, False),
    "an unknown operator": ({"operator": "Matches"}, {"key": "a"}, False),
}


@pytest.mark.parametrize("case", TOLERATIONS)
def test_toleration_of_a_device_taint(case: str) -> None:
    toleration, taint, expected = TOLERATIONS[case]
    assert tolerates(toleration, taint) is expected
