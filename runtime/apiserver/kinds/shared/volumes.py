"""What PersistentVolumes and their claims share.

Source: kubernetes pkg/registry/core/persistentvolume{,claim}/strategy.go,
pkg/printers/internalversion/printers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from protocols.objects import Object, annotations_of, is_deleting
from runtime.apiserver.kinds.shared.cells import part

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def set_pending(volume: Object) -> None:
    """The first status of a volume or a claim; its controllers write the rest."""
    volume["status"] = {"phase": "Pending"}


def access_modes(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def class_of(obj: Object) -> str:
    older = annotations_of(obj).get(_CLASS_ANNOTATION)
    return str(part(obj, "spec").get("storageClassName") or "") if older is None else older


def phase_of(obj: Object) -> str:
    return "Terminating" if is_deleting(obj) else str(part(obj, "status").get("phase") or "")
