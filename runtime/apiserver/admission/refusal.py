"""Errors of admission plugins. Plugins also refuse objects whose name is not generated yet."""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors import status_errors


def forbidden(group: str, plural: str, obj: Object, because: str) -> status_errors.StatusError:
    """Return the error 403 of a plugin that refuses an object.

    The error names an object without a name by its generateName.

    Source: apiserver pkg/admission/errors.go, NewForbidden (v1.36).
    """
    meta = obj["metadata"]
    return status_errors.forbidden(group, plural, meta.get("name") or meta.get("generateName") or "Unknown", because)
