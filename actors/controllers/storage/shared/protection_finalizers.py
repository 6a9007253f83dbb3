"""Finalizers that keep an object while it is in use.

They are written with the whole object, as the roles of their controllers allow nothing else.

Source: kubernetes v1.36 pkg/controller/util/protectionutil/utils.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.objects import Object, finalizers_of, is_deleting, metadata


def protected(obj: Mapping[str, Any], finalizer: str) -> Object | None:
    """With the finalizer; None if it has it, or is being deleted."""
    names = finalizers_of(obj)
    if is_deleting(obj) or finalizer in names:
        return None
    return {**obj, "metadata": {**metadata(obj), "finalizers": [*names, finalizer]}}


def may_go(obj: Mapping[str, Any], finalizer: str) -> bool:
    """Whether it is being deleted, and the finalizer holds it."""
    return is_deleting(obj) and finalizer in finalizers_of(obj)


def unprotected(obj: Mapping[str, Any], finalizer: str) -> Object | None:
    """Without the finalizer; None if it is not being deleted, or has it not."""
    if not may_go(obj, finalizer):
        return None
    names = [name for name in finalizers_of(obj) if name != finalizer]
    return {**obj, "metadata": {**metadata(obj), "finalizers": names}}
