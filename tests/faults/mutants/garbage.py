"""Mutants of the garbage collector."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import kcm.actors.controllers.apimachinery.garbage_collector.items as items
from kcm.actors.controllers.apimachinery.garbage_collector.items import Item
from kcm.actors.controllers.apimachinery.garbage_collector.owner_lookups import OwnerLookups, enqueue_for_deletion
from kcm.actors.reconciliation import Reconciliation
from kcm.actors.simulation.campaign.domain_settings import GARBAGE_SETTING
from tests.faults.mutants.mutant import Mutant


def cache_says_who_is_absent() -> Any:
    """Owners missing in the tables count as deleted, although their watch may be late."""

    def trusting(self: OwnerLookups, item: Item, *, removed: bool) -> Reconciliation:
        del removed
        self._owners.record_absent([item])
        yield from enqueue_for_deletion(self._tables.dependents(item.uid))
        return None

    return patch.object(OwnerLookups, "look_up_owner", trusting)


def deletions_of_owners_are_missed() -> Any:
    """Dependents of a deleted owner are processed only when they change."""
    return patch.object(items, "_keys_of_deletion", lambda *_: iter(()))


GARBAGE = (
    Mutant(
        name="an owner that the cache does not show counts as gone",
        source="a collector that never asks the server",
        mutation=cache_says_who_is_absent,
        setting=GARBAGE_SETTING,
    ),
    Mutant(
        name="nobody looks at the dependents of an owner that has gone",
        source="a watch whose deletions are lost",
        mutation=deletions_of_owners_are_missed,
        setting=GARBAGE_SETTING,
    ),
)
