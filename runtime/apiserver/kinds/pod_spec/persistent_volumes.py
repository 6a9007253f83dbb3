"""Defaults, validation and table cells that PersistentVolumes and their claims share.

Source: kubernetes pkg/registry/core/persistentvolume{,claim}/strategy.go, pkg/apis/core/validation/validation.go,
pkg/printers/internalversion/printers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kcm.protocols.objects import Object, annotations_of, is_deleting
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, not_supported
from kcm.runtime.apiserver.rules.cells import part

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ONE_POD = "ReadWriteOncePod"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", _ONE_POD: "RWOP"}

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", _ONE_POD)
VOLUME_MODES = ("Block", "Filesystem")


def set_pending(volume: Object) -> None:
    """Set the first status of a new volume or claim: phase Pending."""
    volume["status"] = {"phase": "Pending"}


def wrong_access_modes(modes: Iterable[str], field: str) -> Iterator[FieldError]:
    known = {mode for mode in modes if mode in ACCESS_MODES}
    yield from (not_supported(field, mode, ACCESS_MODES) for mode in modes if mode not in known)
    if _ONE_POD in known and len(known) > 1:
        yield forbidden(field, "may not use ReadWriteOncePod with other access modes")


def access_modes(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def class_of(obj: Object) -> str:
    older = annotations_of(obj).get(CLASS_ANNOTATION)
    return str(part(obj, "spec").get("storageClassName") or "") if older is None else older


def phase_of(obj: Object) -> str:
    return "Terminating" if is_deleting(obj) else str(part(obj, "status").get("phase") or "")
