"""Finalizers that protect objects, such as volumes, claims and PodGroups, from deletion while they are in use.

The functions return whole objects for updates, because the RBAC roles of the controllers do not permit patches.

Source: kubernetes v1.36 pkg/controller/util/protectionutil/utils.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.objects import Object, finalizers_of, is_deleting, metadata


def with_finalizer(obj: Mapping[str, Any], finalizer: str) -> Object | None:
    """Return a copy of the object with the finalizer; None if it has the finalizer already, or is being deleted."""
    names = finalizers_of(obj)
    if is_deleting(obj) or finalizer in names:
        return None
    return {**obj, "metadata": {**metadata(obj), "finalizers": [*names, finalizer]}}


def is_deletion_candidate(obj: Mapping[str, Any], finalizer: str) -> bool:
    """Report whether the object is being deleted and still has the finalizer. Source: IsDeletionCandidate."""
    return is_deleting(obj) and finalizer in finalizers_of(obj)


def without_finalizer(obj: Mapping[str, Any], finalizer: str) -> Object | None:
    """Return a copy of the object without the finalizer; None if it is not being deleted, or lacks the finalizer."""
    if not is_deletion_candidate(obj, finalizer):
        return None
    names = [name for name in finalizers_of(obj) if name != finalizer]
    return {**obj, "metadata": {**metadata(obj), "finalizers": names}}
