"""Conversion of YAML request bodies to JSON."""

from __future__ import annotations

from typing import NamedTuple

import orjson

from kcm.runtime.process.go_yaml import read_first


class JsonBody(NamedTuple):
    """Request body in JSON.

    repeated: warnings about duplicate keys in the YAML from which the body was converted, with their line numbers
    """

    json: bytes
    repeated: tuple[str, ...] = ()


def yaml_to_json(body: bytes) -> JsonBody:
    """Convert the first YAML document of a body to JSON.

    Raises ValueError for invalid YAML, values that JSON cannot express, and documents that are too large.
    """
    found = read_first(body)
    try:
        return JsonBody(orjson.dumps(found.value), found.repeated)
    except TypeError as err:  # an integer of more than 64 bits, converted from a float
        raise ValueError(str(err)) from err
