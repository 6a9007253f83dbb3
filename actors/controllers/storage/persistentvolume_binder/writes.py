"""Writes of claims and volumes by the binder. A write is sent only if it changes the object.

Binding takes four writes, in this order: claimRef of the volume, phase of the volume, volumeName of the claim, phase of
the claim. After a failure between two of them, the next sync sends the missing ones. Each write updates the whole
object with the resourceVersion that was read.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/pv_controller.go (bind, unbindVolume, updateClaimStatus,
updateVolumePhase).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.storage.persistentvolume_binder.binding import (
    bound_claim,
    bound_volume,
    claim_in_phase,
    unbound_volume,
    volume_in_phase,
)
from kcm.actors.reconciliation import Step, get_live, must, must_object, record, step, update
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import Key, Object, decode_object, key_of, name_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource
from kcm.protocols.volumes import phase_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


@step
def read_live(resource: Resource, key: Key) -> Step[Object | None]:
    """Read an object from the API server; None if it does not exist. Raises CommandError if the read failed."""
    outcome = yield from must(get_live(resource, key), but=(NotFound,))
    return decode_object(outcome.body) if isinstance(outcome, Done) else None


class Writes:
    """Writer of the bindings and phases of claims and volumes."""

    def __init__(self, *, log: FilteringBoundLogger) -> None:
        self._log = log

    @step
    def bind(self, volume: Object, claim: Object) -> Step[None]:
        """Bind a claim to a volume. Source: bind.

        This takes four writes: the claimRef and phase of the volume, then the volumeName and phase of the claim. Writes
        that an earlier sync has completed are not repeated.
        """
        named = bound_volume(volume, claim)
        if named is not None:
            volume = yield from must_object(update(PERSISTENT_VOLUMES, named))
            self._log.info("claim bound to volume", claim=key_of(claim), volume=name_of(volume))
        volume = yield from self.set_phase(volume, "Bound")
        naming = bound_claim(claim, volume)
        if naming is not None:
            claim = yield from must_object(update(PERSISTENT_VOLUME_CLAIMS, naming))
            self._log.info("volume bound to claim", claim=key_of(claim), volume=name_of(volume))
        yield from self.set_claim_phase(claim, "Bound", volume)

    @step
    def unbind(self, volume: Object) -> Step[None]:
        volume = yield from must_object(update(PERSISTENT_VOLUMES, unbound_volume(volume)))
        self._log.info("volume unbound", volume=name_of(volume))
        yield from self.set_phase(volume, "Available")

    @step
    def set_phase(self, volume: Object, phase: str, message: str = "") -> Step[Object]:
        changed = volume_in_phase(volume, phase, message)
        if changed is not None:
            volume = yield from must_object(update(PERSISTENT_VOLUMES, changed, subresource="status"))
            self._log.info("volume entered phase", volume=name_of(volume), phase=phase)
        return volume

    @step
    def mark_failed(self, volume: Object, reason: str, message: str) -> Step[Object]:
        """Set the phase of a volume to Failed and record an event, unless the volume is Failed already."""
        if phase_of(volume) == "Failed":
            return volume
        volume = yield from self.set_phase(volume, "Failed", message)
        yield record(PERSISTENT_VOLUMES, volume, "Warning", reason, message)
        return volume

    @step
    def set_claim_phase(self, claim: Object, phase: str, volume: Mapping[str, Any] | None = None) -> Step[Object]:
        changed = claim_in_phase(claim, phase, volume)
        if changed is not None:
            claim = yield from must_object(update(PERSISTENT_VOLUME_CLAIMS, changed, subresource="status"))
            self._log.info("claim entered phase", claim=key_of(claim), phase=phase)
        return claim

    @step
    def mark_lost(self, claim: Object, reason: str, message: str) -> Step[None]:
        """Set the phase of a claim to Lost and record an event, unless the claim is Lost already."""
        if phase_of(claim) == "Lost":
            return
        claim = yield from self.set_claim_phase(claim, "Lost")
        yield record(PERSISTENT_VOLUME_CLAIMS, claim, "Warning", reason, message)
