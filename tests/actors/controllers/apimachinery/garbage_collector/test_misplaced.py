"""Reports of owner references to objects in other namespaces."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery.garbage_collector.items import Item
from kcm.actors.controllers.apimachinery.garbage_collector.misplaced import OBJECTS, REFERENCES, MisplacedOwners

ITEM = Item("v1/configmaps", "ns/a", "a")
ONE, TWO = {"uid": "1"}, {"uid": "2"}


def test_reference_is_reported_once_and_again_when_it_was_removed_and_added() -> None:
    owners = MisplacedOwners()
    assert owners.report(ITEM, [ONE]) == ONE
    assert owners.report(ITEM, [ONE]) is None
    assert owners.report(ITEM, [ONE, TWO]) == TWO
    assert owners.report(ITEM, [TWO]) is None
    assert owners.report(ITEM, []) is None
    assert owners.report(ITEM, [TWO]) == TWO


def test_references_added_together_are_reported_once() -> None:
    owners = MisplacedOwners()
    many = [{"uid": str(number)} for number in range(3 * REFERENCES)]
    assert owners.report(ITEM, many) == many[0]
    assert owners.report(ITEM, many) is None


def test_memory_is_bounded() -> None:
    owners = MisplacedOwners()
    for number in range(OBJECTS + 1):
        owners.report(Item("v1/configmaps", f"ns/{number}", str(number)), [ONE])
    assert owners.report(Item("v1/configmaps", f"ns/{OBJECTS}", str(OBJECTS)), [ONE]) is None
    assert owners.report(Item("v1/configmaps", "ns/0", "0"), [ONE]) == ONE
