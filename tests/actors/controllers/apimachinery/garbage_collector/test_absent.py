"""LRU cache of absent owners."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery.garbage_collector.absent import AbsentOwners
from kcm.actors.controllers.apimachinery.garbage_collector.items import Item


def owner(name: str) -> Item:
    return Item("v1/replicationcontrollers", f"ns/{name}", name)


def test_least_recently_used_owner_is_evicted_first() -> None:
    absent = AbsentOwners(most=2)
    absent.add(owner("rc1"), in_other_namespace=False)
    absent.add(owner("rc2"), in_other_namespace=True)
    assert owner("rc1") in absent
    absent.add(owner("rc3"), in_other_namespace=False)
    assert [name for name in ("rc1", "rc2", "rc3") if owner(name) in absent] == ["rc1", "rc3"]


def test_owners_with_equal_uids_differ_by_coordinates() -> None:
    absent = AbsentOwners()
    absent.add(owner("rc1"), in_other_namespace=True)
    assert Item("v1/secrets", "ns/rc1", "rc1") not in absent
    assert Item("v1/replicationcontrollers", "other/rc1", "rc1") not in absent
    assert absent.was_in_other_namespace(owner("rc1"))
