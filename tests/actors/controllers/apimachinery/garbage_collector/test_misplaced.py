"""Reports of owner references to objects in other namespaces."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery.garbage_collector.items import Item
from kcm.actors.controllers.apimachinery.garbage_collector.misplaced import OBJECTS, REFERENCES, MisplacedOwners

ITEM = Item("v1/configmaps", "ns/a", "a")
ONE, TWO = {"uid": "1"}, {"uid": "2"}


def test_reference_is_reported_once_and_again_when_it_was_removed_and_added() -> None:
    owners = MisplacedOwners()
    assert owners.news(ITEM, [ONE]) == ONE
    assert owners.news(ITEM, [ONE]) is None
    assert owners.news(ITEM, [ONE, TWO]) == TWO
    assert owners.news(ITEM, [TWO]) is None
    assert owners.news(ITEM, []) is None
    assert owners.news(ITEM, [TWO]) == TWO


def test_references_added_together_are_reported_once() -> None:
    owners = MisplacedOwners()
    many = [{"uid": str(number)} for number in range(3 * REFERENCES)]
    assert owners.news(ITEM, many) == many[0]
    assert owners.news(ITEM, many) is None


def test_memory_is_bounded() -> None:
    owners = MisplacedOwners()
    for number in range(OBJECTS + 1):
        owners.news(Item("v1/configmaps", f"ns/{number}", str(number)), [ONE])
    assert owners.news(Item("v1/configmaps", f"ns/{OBJECTS}", str(OBJECTS)), [ONE]) is None
    assert owners.news(Item("v1/configmaps", "ns/0", "0"), [ONE]) == ONE
