"""Progress of the live lookups of the owners of an object."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery.garbage_collector.items import Item
from kcm.actors.controllers.apimachinery.garbage_collector.lookups import BATCH, Lookups
from kcm.actors.controllers.apimachinery.garbage_collector.ownership import Owner, OwnerState, Reference

HEAVY, OTHER = (Item("v1/configmaps", f"ns/{name}", name) for name in ("heavy", "other"))
REFERENCES = [{"uid": str(number)} for number in range(2 * BATCH)]


def owner(reference: Reference) -> Item:
    return Item("v1/secrets", f"ns/{reference['uid']}", str(reference["uid"]))


def unseen(reference: Reference) -> Owner:
    return Owner(OwnerState.UNSEEN, owner(reference))


def test_owners_are_handed_out_in_batches_until_all_are_known() -> None:
    lookups = Lookups()
    lookup = lookups.begin(HEAVY, 1, REFERENCES)
    assert [number for number, _ in lookup.next_unread(REFERENCES, unseen)] == list(range(BATCH))
    assert lookups.is_under_way(HEAVY, 1)
    assert [number for number, _ in lookup.next_unread(REFERENCES, unseen)] == list(range(BATCH, 2 * BATCH))
    assert not lookups.is_under_way(HEAVY, 1)
    assert lookup.next_unread(REFERENCES, unseen) == []


def test_absent_owner_is_remembered_when_all_others_have_forgotten_it() -> None:
    lookups = Lookups()
    lookups.begin(HEAVY, 1, REFERENCES).record_absent(1)
    lookup = lookups.find(HEAVY, 1, REFERENCES)
    assert lookup is not None
    assert lookup.resolved(1, unseen(REFERENCES[1])).state is OwnerState.ABSENT
    assert lookup.resolved(1, Owner(OwnerState.SOLID, owner(REFERENCES[1]))).state is OwnerState.SOLID
    assert lookup.resolved(2, unseen(REFERENCES[2])).state is OwnerState.UNSEEN
    assert [number for number, _ in lookup.next_unread(REFERENCES, unseen)] == [0, *range(2, BATCH + 1)]


def test_lookup_continues_after_other_changes_and_ends_when_references_change() -> None:
    lookups = Lookups()
    lookup = lookups.begin(HEAVY, 1, REFERENCES)
    lookup.next_unread(REFERENCES, unseen)
    assert not lookups.is_under_way(HEAVY, 2)
    assert lookups.begin(HEAVY, 2, list(map(dict, REFERENCES))) is lookup
    assert lookups.is_under_way(HEAVY, 2)
    assert lookups.find(HEAVY, 3, REFERENCES[1:]) is None
    assert lookups.begin(HEAVY, 3, REFERENCES[1:]).position == 0


def test_owner_is_looked_up_once_and_others_wait_for_the_result() -> None:
    lookups = Lookups()
    batch = [(0, owner(REFERENCES[0]))]
    assert lookups.begin_reads(batch, dependent=HEAVY) == batch
    assert lookups.begin_reads(batch, dependent=OTHER) == []
    assert lookups.begin_reads(batch, dependent=OTHER) == []
    assert lookups.end_read(batch[0][1]) == [OTHER]
    assert lookups.begin_reads(batch, dependent=OTHER) == batch


def test_forgotten_lookups_take_no_memory() -> None:
    lookups = Lookups()
    lookups.begin(HEAVY, 1, REFERENCES)
    lookups.forget(HEAVY)
    assert len(lookups) == 0
