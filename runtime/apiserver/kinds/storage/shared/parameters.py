"""Validation of the parameters of StorageClasses and VolumeAttributesClasses.

Source: kubernetes pkg/apis/storage/validation/validation.go, validateParameters (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required, too_long

_MOST, _MOST_CHARACTERS = 512, 256 * 1024


def wrong_parameters(parameters: Mapping[str, str] | None, field: str, *, allow_none: bool) -> Iterator[FieldError]:
    """Validate the number and total size of driver parameters.

    allow_none: whether the parameters may be missing or empty
    """
    parameters = parameters or {}
    if not parameters:
        if not allow_none:
            yield required(field, "must contain at least one key/value pair")
        return
    if len(parameters) > _MOST:
        yield too_long(field, _MOST)
        return
    for name in parameters:
        if not name:
            yield invalid(field, name, "field can not be empty.")
    if sum(len(name) + len(value) for name, value in parameters.items()) > _MOST_CHARACTERS:
        yield too_long(field, _MOST_CHARACTERS)
