"""Errors of plugins that run before the name of an object is generated."""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors import status_errors


def forbidden(group: str, plural: str, obj: Object, because: str) -> status_errors.StatusError:
    """Return a 403. An object whose name is not generated yet is identified by its generateName.

    Source: apiserver pkg/admission/errors.go, NewForbidden (v1.36).
    """
    meta = obj["metadata"]
    return status_errors.forbidden(group, plural, meta.get("name") or meta.get("generateName") or "Unknown", because)
