"""YAML bodies as JSON."""

from __future__ import annotations

from typing import NamedTuple

import orjson

from kcm.runtime.process.go_yaml import read_first


class JsonBody(NamedTuple):
    """A body as JSON. repeated: which keys of its YAML are set more than once, and in which lines."""

    json: bytes
    repeated: tuple[str, ...] = ()


def yaml_to_json(body: bytes) -> JsonBody:
    """Raises ValueError on invalid YAML, on values that JSON does not have, and on what is too large."""
    found = read_first(body)
    try:
        return JsonBody(orjson.dumps(found.value), found.repeated)
    except TypeError as err:  # an integer of more than 64 bits, which a float became
        raise ValueError(str(err)) from err
