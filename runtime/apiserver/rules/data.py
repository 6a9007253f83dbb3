"""The data of ConfigMaps and Secrets.

Source: kubernetes pkg/apis/core/validation/validation.go (v1.36).
"""

from __future__ import annotations

import re

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid
from kcm.runtime.apiserver.rules.names import too_many_characters

DATA_LIMIT = 1024 * 1024  # bytes
_LONGEST_KEY = 253
_data_key = re.compile("[-._a-zA-Z0-9]+")


def key_problems(key: str) -> list[str]:
    """Return the problems of a key of a ConfigMap or Secret.

    Source: apimachinery pkg/util/validation, IsConfigMapKey.
    """
    problems = [too_many_characters(_LONGEST_KEY)] if len(key) > _LONGEST_KEY else []
    if not _data_key.fullmatch(key):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        examples = "'key.name',  or 'KEY_NAME',  or 'key-name'"
        problems.append(f"{rule} (e.g. {examples}, regex used for validation is '[-._a-zA-Z0-9]+')")
    if key == ".":
        problems.append("must not be '.'")
    elif key == "..":
        problems.append("must not be '..'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def validate_keys(data: Object, field: str) -> list[FieldError]:
    return [invalid(f"{field}[{key}]", key, text) for key in data for text in key_problems(key)]


def size_of(encoded: Object) -> int:
    """Return the decoded size of base64 values, in bytes."""
    return sum(len(value) * 3 // 4 - value.count("=", -2) for value in encoded.values())


def validate_immutable_data(new: Object, old: Object, parts: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    changed = [part for part in parts if (new.get(part) or {}) != (old.get(part) or {})]
    errors = [forbidden(part, detail) for part in changed]
    return errors if new.get("immutable") else [forbidden("immutable", detail), *errors]
