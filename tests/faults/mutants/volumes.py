"""Mutants of the controllers of volumes and claims."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.shared.protection_finalizers import without_finalizer
from kcm.actors.controllers.storage.claim_protection import ClaimProtection
from kcm.actors.controllers.storage.ephemeral_volume import EphemeralVolumes
from kcm.actors.controllers.storage.persistentvolume_binder.binding import bound_claim, bound_volume
from kcm.actors.controllers.storage.persistentvolume_binder.writes import Writes
from kcm.actors.controllers.storage.persistentvolume_expander import VolumeExpander
from kcm.actors.controllers.storage.selinux_warning import VolumeUses
from kcm.actors.reconciliation import Step, must, must_object, update
from kcm.actors.simulation.campaign.domain_settings import VOLUMES_SETTING
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.objects import Key, Object
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kcm.protocols.volumes import CLAIM_PROTECTION, mode_of
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


def _answers(value: bool) -> Callable[[EphemeralVolumes, Key], Step[bool]]:
    def exists(_self: EphemeralVolumes, _key: Key) -> Step[bool]:
        yield from ()
        return value

    return exists


@contextmanager
def deleted_claims_stay_deleted() -> Iterator[None]:
    """The deletion of an ephemeral volume's claim does not enqueue its pod."""
    with patch.object(EphemeralVolumes, "_exists", _answers(False)):
        yield


@contextmanager
def claims_are_created_for_pods_of_the_cache() -> Iterator[None]:
    """A deleted claim is created again without reading its pod."""
    with patch.object(EphemeralVolumes, "_exists", _answers(True)):
        yield


@contextmanager
def claims_grow_before_their_volumes() -> Iterator[None]:
    """The capacity of a claim with a block volume is written before that of the volume."""
    finish, set_size = VolumeExpander._finish, VolumeExpander._set_size

    def first(self: VolumeExpander, claim: Object, volume: Object, size: str, why: str) -> Step[None]:
        if mode_of(volume) == "Block":
            yield from finish(self, claim, size, why)
        yield from set_size(self, claim, volume, size, why)

    with patch.object(VolumeExpander, "_set_size", first):
        yield


@contextmanager
def annotations_of_expansions_remain() -> Iterator[None]:
    """The annotation of an expanded volume is not removed when the kubelet has resized the file system."""

    def same(_claim: Object, _volume: Object) -> bool:
        return False

    with patch("kcm.actors.controllers.storage.persistentvolume_expander.is_node_expanded", same):
        yield


@contextmanager
def conflicts_outlive_their_pods() -> Iterator[None]:
    """The conflicts of a deleted pod remain in the metric."""
    with patch.object(VolumeUses, "_forget_conflicts", lambda _self, _volume, _pod: None):
        yield


@contextmanager
def drivers_are_evaluated_once() -> Iterator[None]:
    """A change of a CSIDriver does not enqueue the pods with its volumes."""
    with patch.object(VolumeUses, "pods_of_driver", lambda _self, _driver: set()):
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
    Mutant(
        name="a deleted claim of an ephemeral volume stays deleted",
        source="onPVCDelete of pkg/controller/volume/ephemeral/controller.go",
        mutation=deleted_claims_stay_deleted,
        setting=VOLUMES_SETTING,
    ),
    Mutant(
        name="a claim is created again for a pod of the cache",
        source="onPVCDelete of pkg/controller/volume/ephemeral/controller.go, which does not read the pod",
        mutation=claims_are_created_for_pods_of_the_cache,
        setting=replace(VOLUMES_SETTING, draw=pods_are_late),
    ),
    Mutant(
        name="a claim grows before its volume",
        source="the order of writes in expandAndRecoverFunction of operation_generator.go",
        mutation=claims_grow_before_their_volumes,
        setting=VOLUMES_SETTING,
    ),
    Mutant(
        name="the annotation of an expansion remains",
        source="isNodeExpandComplete of expand_controller.go",
        mutation=annotations_of_expansions_remain,
        setting=VOLUMES_SETTING,
    ),
    Mutant(
        name="SELinux conflicts outlive their pods",
        source="DeletePod of pkg/controller/volume/selinuxwarning/cache/volumecache.go",
        mutation=conflicts_outlive_their_pods,
        setting=VOLUMES_SETTING,
    ),
    Mutant(
        name="a CSIDriver is evaluated once",
        source="updateCSIDriver of pkg/controller/volume/selinuxwarning/selinux_warning_controller.go",
        mutation=drivers_are_evaluated_once,
        setting=VOLUMES_SETTING,
    ),
)
