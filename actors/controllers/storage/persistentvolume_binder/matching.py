"""Which volume a claim gets.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/index.go, pv_controller.go (checkVolumeSatisfyClaim);
component-helpers/storage/volume/pv_helpers.go (FindMatchingVolume). Difference: of volumes that fit equally well it is
the first by name, there any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from kcm.actors.reconciliation.specs import Facts, Index
from kcm.protocols.late_methods import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a claim asks of its volume. size: bytes. selector: None without one."""

    key: Key
    uid: str
    class_: str
    modes: frozenset[str]
    size: int
    mode: str
    attributes: str
    selector: LabelSelector | None


def wish_of(claim: Mapping[str, Any]) -> Wish:
    """Raises ValueError on a selector or size that is none."""
    spec = claim.get("spec") or {}
    selector = spec.get("selector")
    return Wish(
        key=key_of(claim),
        uid=uid_of(claim),
        class_=class_of(claim),
        modes=frozenset(spec.get("accessModes") or ()),
        size=whole_value(requested_storage(claim)),
        mode=mode_of(claim),
        attributes=attributes_class_of(claim),
        selector=None if selector is None else label_selector_of(selector),
    )


def is_reserved(volume: VolumeFacts, wish: Wish) -> bool:
    """Whether a volume names this claim."""
    return volume.claim == wish.key and volume.claim_uid in ("", wish.uid)


def candidates(volumes: Lister, wish: Wish) -> list[Entry]:
    """Volumes that may be the claim's: those that name it, and those of its class that name none."""
    return [*volumes.indexed_entries(CLAIMED, wish.key), *volumes.indexed_entries(UNCLAIMED, wish.class_)]


def best_volume(
    wish: Wish, volumes: Iterable[Entry], labels: Callable[[Entry], Mapping[str, str]], *, delayed: bool
) -> Entry | None:
    """The volume to bind: one that is reserved for the claim, else the smallest that will do.

    Volumes with fewer access modes go before others, whatever else is said of them. delayed: only a reserved one will
    do, as the scheduler chooses.
    """
    usable = sorted(
        (volume for volume in volumes if _could_be(volume.facts, wish)),
        key=lambda volume: (len(volume.facts.modes), volume.facts.modes),
    )
    for _, group in groupby(usable, key=lambda volume: volume.facts.modes):
        found = _best_of(wish, sorted(group, key=lambda volume: volume.key), labels, delayed=delayed)
        if found is not None:
            return found
    return None


def _could_be(volume: VolumeFacts, wish: Wish) -> bool:
    return (
        (not volume.claim or is_reserved(volume, wish))
        and wish.modes <= set(volume.modes)
        and volume.capacity >= wish.size
        and volume.mode == wish.mode
        and volume.attributes == wish.attributes
        and not volume.deleting
    )


def _best_of(
    wish: Wish, volumes: list[Entry], labels: Callable[[Entry], Mapping[str, str]], *, delayed: bool
) -> Entry | None:
    """Of volumes with the same access modes."""
    for volume in volumes:
        if volume.facts.claim:
            return volume
    if delayed:
        return None
    return min(_free(wish, volumes, labels), key=lambda volume: volume.facts.capacity, default=None)


def _free(wish: Wish, volumes: list[Entry], labels: Callable[[Entry], Mapping[str, str]]) -> Iterator[Entry]:
    for volume in volumes:
        if volume.facts.phase == "Available" and volume.facts.class_ == wish.class_:
            if wish.selector is None or wish.selector.matches(labels(volume)):
                yield volume


def misfit(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> str:
    """Why a claim cannot have the volume that it names; "" if it can. Neither phase nor selector are looked at."""
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
