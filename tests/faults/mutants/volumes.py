"""Mutants of the controllers of volumes and claims."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.shared.protection_finalizers import without_finalizer
from kcm.actors.controllers.storage.claim_protection import ClaimProtection
from kcm.actors.controllers.storage.persistentvolume_binder.binding import bound_claim, bound_volume
from kcm.actors.controllers.storage.persistentvolume_binder.writes import Writes
from kcm.actors.reconciliation import Step, must, must_object, update
from kcm.actors.simulation.campaign.settings import VOLUMES_SETTING
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.objects import Key, Object
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kcm.protocols.volumes import CLAIM_PROTECTION
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.faults.mutants.mutant import Mutant


@contextmanager
def claims_go_as_the_cache_shows_their_pods() -> Iterator[None]:
    """The finalizer of a claim is removed without listing the pods of the namespace."""

    def free(self: ClaimProtection, key: Key) -> Step[None]:
        claim = self._claims.get(key)
        freed = None if claim is None else without_finalizer(claim, CLAIM_PROTECTION)
        if freed is not None:
            yield from must(update(PERSISTENT_VOLUME_CLAIMS, freed), but=(NotFound,))

    with patch.object(ClaimProtection, "_unprotect", free):
        yield


@contextmanager
def claims_name_their_volume_first() -> Iterator[None]:
    """The claim is written before the volume, so that another claim may get the volume if that write fails."""

    def bind(self: Writes, volume: Object, claim: Object) -> Step[None]:
        naming = bound_claim(claim, volume)
        if naming is not None:
            claim = yield from must_object(update(PERSISTENT_VOLUME_CLAIMS, naming))
        named = bound_volume(volume, claim)
        if named is not None:
            volume = yield from must_object(update(PERSISTENT_VOLUMES, named))
        volume = yield from self.set_phase(volume, "Bound")
        yield from self.set_claim_phase(claim, "Bound", volume)

    with patch.object(Writes, "bind", bind):
        yield


def pods_are_late(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Draw a stall of the watch of pods."""
    at = round(random.Random(f"late pods of claims {seed}").uniform(2.0, seconds * 0.4), 2)
    stalled = FaultKind.WATCH_STALLED
    return (Fault(kind=stalled, start=at, until=at + 30.0, process=process, resource="pods"),)


VOLUMES = (
    Mutant(
        name="a claim goes as the cache shows its pods",
        source="the live list of pods in pvc_protection_controller.go, which older releases did not make",
        mutation=claims_go_as_the_cache_shows_their_pods,
        setting=replace(VOLUMES_SETTING, draw=pods_are_late),
    ),
    Mutant(
        name="a claim names its volume before the volume names it",
        source="the order of writes in bind of pv_controller.go",
        mutation=claims_name_their_volume_first,
        setting=VOLUMES_SETTING,
    ),
)
