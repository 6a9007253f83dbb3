"""Search for the volume that matches a claim.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/index.go, pv_controller.go (checkVolumeSatisfyClaim);
component-helpers/storage/volume/pv_helpers.go (FindMatchingVolume). Difference: of several equally good volumes, the
first by name is chosen; upstream chooses any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from msgspec import Struct

from kcm.actors.reconciliation.specs import Facts, Index
from kcm.protocols.objects import Key, Object, is_deleting, key_of, labels_of, name_of, uid_of
from kcm.protocols.quantities import whole_value
from kcm.protocols.resources import PERSISTENT_VOLUMES
from kcm.protocols.selectors import LabelSelector, label_selector_of
from kcm.protocols.volumes import (
    VolumeFacts,
    attributes_class_of,
    class_of,
    key_of_reference,
    mode_of,
    requested_storage,
    volume_facts,
)
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

CLAIMED, UNCLAIMED = "claim of volume", "class of unclaimed volume"


def _claim(volume: Object) -> Iterable[str]:
    reference = (volume.get("spec") or {}).get("claimRef")
    return () if reference is None else (key_of_reference(reference),)


def _class_if_unclaimed(volume: Object) -> Iterable[str]:
    return (class_of(volume),) if (volume.get("spec") or {}).get("claimRef") is None else ()


VOLUMES_BY_CLAIM = Index(PERSISTENT_VOLUMES, CLAIMED, _claim)
UNCLAIMED_VOLUMES = Index(PERSISTENT_VOLUMES, UNCLAIMED, _class_if_unclaimed)
VOLUME_FACTS = Facts(PERSISTENT_VOLUMES, volume_facts)


class Requirements(Struct, frozen=True, kw_only=True):
    """Properties of a claim that a volume must match to be bound to it."""

    key: Key  # of the claim
    uid: str  # of the claim
    class_: str  # name of the StorageClass; "" for none
    modes: frozenset[str]  # access modes
    size: int  # bytes
    mode: str  # volumeMode
    attributes: str  # name of the VolumeAttributesClass; "" for none
    selector: LabelSelector | None


def requirements_of(claim: Mapping[str, Any]) -> Requirements:
    """Return the requirements of a claim for its volume. Raises ValueError for an invalid selector or size."""
    spec = claim.get("spec") or {}
    selector = spec.get("selector")
    return Requirements(
        key=key_of(claim),
        uid=uid_of(claim),
        class_=class_of(claim),
        modes=frozenset(spec.get("accessModes") or ()),
        size=whole_value(requested_storage(claim)),
        mode=mode_of(claim),
        attributes=attributes_class_of(claim),
        selector=None if selector is None else label_selector_of(selector),
    )


def is_reserved(volume: VolumeFacts, required: Requirements) -> bool:
    """Report whether the claimRef of a volume refers to the claim, with the claim's uid or without a uid."""
    return volume.claim == required.key and volume.claim_uid in ("", required.uid)


def candidates(volumes: Lister, required: Requirements) -> list[Entry]:
    """Return the volumes that are reserved for a claim, and the unclaimed volumes of its StorageClass."""
    return [*volumes.indexed_entries(CLAIMED, required.key), *volumes.indexed_entries(UNCLAIMED, required.class_)]


def best_volume(
    required: Requirements, volumes: Iterable[Entry], labels: Callable[[Entry], Mapping[str, str]], *, delayed: bool
) -> Entry | None:
    """Return the volume to bind to a claim; None if no volume matches. Source: FindMatchingVolume.

    Volumes with fewer access modes take precedence. Of the volumes with the same access modes, a volume that is
    reserved for the claim takes precedence, then the smallest volume.

    labels: function that returns the labels of a volume.
    delayed: whether to consider only reserved volumes, because the class has volumeBindingMode WaitForFirstConsumer.
    """
    usable = sorted(
        (volume for volume in volumes if _is_suitable(volume.facts, required)),
        key=lambda volume: (len(volume.facts.modes), volume.facts.modes),
    )
    for _, group in groupby(usable, key=lambda volume: volume.facts.modes):
        found = _best_of(required, sorted(group, key=lambda volume: volume.key), labels, delayed=delayed)
        if found is not None:
            return found
    return None


def _is_suitable(volume: VolumeFacts, required: Requirements) -> bool:
    return (
        (not volume.claim or is_reserved(volume, required))
        and required.modes <= set(volume.modes)
        and volume.capacity >= required.size
        and volume.mode == required.mode
        and volume.attributes == required.attributes
        and not volume.deleting
    )


def _best_of(
    required: Requirements, volumes: list[Entry], labels: Callable[[Entry], Mapping[str, str]], *, delayed: bool
) -> Entry | None:
    """Return the best matching volume of some volumes that all have the same access modes; None if none matches.

    A volume that is reserved for the claim is better than any other. See best_volume for the parameters.
    """
    for volume in volumes:
        if volume.facts.claim:
            return volume
    if delayed:
        return None
    return min(_available(required, volumes, labels), key=lambda volume: volume.facts.capacity, default=None)


def _available(
    required: Requirements, volumes: list[Entry], labels: Callable[[Entry], Mapping[str, str]]
) -> Iterator[Entry]:
    for volume in volumes:
        if volume.facts.phase == "Available" and volume.facts.class_ == required.class_:
            if required.selector is None or required.selector.matches(labels(volume)):
                yield volume


def mismatch(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> str:
    """Return the reason why a claim cannot be bound to the volume in its volumeName; "" if it can be bound.

    The phase of the volume and the claim's selector are not checked. Source: checkVolumeSatisfyClaim.
    """
    facts = volume_facts(dict(volume))
    if is_deleting(volume):
        return f'the volume is marked for deletion "{name_of(volume)}"'
    if facts.capacity < whole_value(requested_storage(claim)):
        return "requested PV is too small"
    if facts.class_ != class_of(claim):
        return "storageClassName does not match"
    if facts.attributes != attributes_class_of(claim):
        return "volumeAttributesClassName does not match"
    if facts.mode != mode_of(claim):
        return "incompatible volumeMode"
    if not set((claim.get("spec") or {}).get("accessModes") or ()) <= set(facts.modes):
        return "incompatible accessMode"
    return ""


def labels_in(volumes: Lister) -> Callable[[Entry], Mapping[str, str]]:
    return lambda entry: labels_of(volumes.object_of(entry))
