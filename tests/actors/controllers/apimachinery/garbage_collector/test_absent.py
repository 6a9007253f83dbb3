"""Of the owners that do not exist, those that were asked for last are remembered."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery.garbage_collector.absent import AbsentOwners
from kcm.actors.controllers.apimachinery.garbage_collector.items import Item


def owner(name: str) -> Item:
    return Item("v1/replicationcontrollers", f"ns/{name}", name)


def test_who_was_asked_for_least_recently_is_forgotten_first() -> None:
    absent = AbsentOwners(most=2)
    absent.add(owner("rc1"), elsewhere=False)
    absent.add(owner("rc2"), elsewhere=True)
    assert owner("rc1") in absent
    absent.add(owner("rc3"), elsewhere=False)
    assert [name for name in ("rc1", "rc2", "rc3") if owner(name) in absent] == ["rc1", "rc3"]


def test_coordinates_tell_owners_of_one_uid_apart() -> None:
    absent = AbsentOwners()
    absent.add(owner("rc1"), elsewhere=True)
    assert Item("v1/secrets", "ns/rc1", "rc1") not in absent
    assert Item("v1/replicationcontrollers", "other/rc1", "rc1") not in absent
    assert absent.is_elsewhere(owner("rc1"))
