"""Options of writes in the query: dryRun, fieldManager, fieldValidation, and force for server-side apply.

Source: apimachinery pkg/apis/meta/v1/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcm.protocols.messages.commands import PatchType
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required, too_long
from kcm.runtime.client.api import LONGEST_FIELD_MANAGER

ALL = "All"
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_CHECKED = frozenset({"dryRun", "fieldManager", "fieldValidation"})


def check_create_options(query: Mapping[str, str]) -> None:
    """Check the query of a create. Raises StatusError (422)."""
    _check("CreateOptions", query, [])


def check_update_options(query: Mapping[str, str]) -> None:
    """Check the query of an update. Raises StatusError (422)."""
    _check("UpdateOptions", query, [])


def check_patch_options(query: Mapping[str, str], patch_type: str) -> None:
    """Check the query of a patch. Raises StatusError (422).

    patch_type: media type of the patch
    """
    errors: list[FieldError] = []
    if patch_type == PatchType.APPLY:
        if not query.get("fieldManager"):
            errors.append(required("fieldManager", "is required for apply patch"))
    elif "force" in query:
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    _check("PatchOptions", query, errors)


def _check(kind: str, query: Mapping[str, str], errors: list[FieldError]) -> None:
    if not errors and _CHECKED.isdisjoint(query):
        return
    errors += [*manager_errors(query.get("fieldManager", ""), "fieldManager"), *dry_run_errors(_dry_run(query))]
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        errors.append(not_supported("fieldValidation", validation, _VALIDATIONS))
    if errors:
        raise status_errors.invalid("meta.k8s.io", kind, "", errors)


def _dry_run(query: Mapping[str, str]) -> list[str]:
    return [query["dryRun"]] if "dryRun" in query else []


def dry_run_errors(asked: list[str]) -> list[FieldError]:
    return [not_supported("dryRun", asked, (ALL,))] if any(value != ALL for value in asked) else []


def manager_errors(name: str, field: str) -> list[FieldError]:
    errors = [too_long(field, LONGEST_FIELD_MANAGER)] if len(name.encode()) > LONGEST_FIELD_MANAGER else []
    if name.isprintable():
        return errors
    position = 0  # in bytes
    for char in name:
        if not char.isprintable():
            errors.append(invalid(field, name, f"invalid character {_described(char)} (at position {position})"))
        position += len(char.encode())
    return errors


def _described(char: str) -> str:
    """Format a character as Go's %#U, which omits unprintable characters."""
    return f"U+{ord(char):04X}"
