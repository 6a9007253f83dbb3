"""The data of ConfigMaps and Secrets.

Source: kubernetes pkg/apis/core/validation/validation.go (v1.36).
"""

from __future__ import annotations

import re

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, too_long

DATA_LIMIT = 1024 * 1024  # bytes
_data_key = re.compile("[-._a-zA-Z0-9]+")


def validate_data(data: Object, field: str) -> list[FieldError]:
    rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    text = f"{rule} (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
    errors = [invalid(f"{field}[{key}]", key, text) for key in data if not _data_key.fullmatch(key)]
    if sum(map(len, data.values())) > DATA_LIMIT:
        errors.append(too_long(field, DATA_LIMIT))
    return errors


def validate_immutable_data(new: Object, old: Object, parts: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    changed = [part for part in parts if (new.get(part) or {}) != (old.get(part) or {})]
    errors = [forbidden(part, detail) for part in changed]
    return errors if new.get("immutable") else [forbidden("immutable", detail), *errors]
