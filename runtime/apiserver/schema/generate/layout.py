"""Layout of api_types.json: sorted JSON with one line per field, so that changes between releases are readable."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.runtime.apiserver.schema.generate.documents import Facts

_ORDER = (
    *("type", "list", "map", "required", "pointer", "default", "number"),
    *("listType", "listMapKeys", "mapType", "patchStrategy", "patchMergeKey", "unions"),
)


def written(types: Mapping[str, Facts], kinds: Mapping[str, str]) -> str:
    return "".join(_lines(types, kinds))


def _lines(types: Mapping[str, Facts], kinds: Mapping[str, str]) -> Iterator[str]:
    yield '{"kinds":{\n'
    yield ",\n".join(f"{_json(kind)}:{_json(name)}" for kind, name in sorted(kinds.items()))
    yield '\n},"types":{\n'
    yield ",\n".join(_type(name, facts) for name, facts in sorted(types.items()))
    yield "\n}}\n"


def _type(name: str, facts: Facts) -> str:
    """Return the lines of a type. The first line begins with its quoted name, by which api_types.py finds the type."""
    head = [
        f"{_json(word)}:{_json(value, sort_keys=True)}" for word, value in sorted(facts.items()) if word != "fields"
    ]
    if "fields" in facts:
        fields = ",\n".join(f" {_json(name)}:{_json(_ordered(field))}" for name, field in facts["fields"].items())
        head.append(f'"fields":{{\n{fields}}}')
    return f"{_json(name)}:{{{','.join(head)}}}"


def _ordered(field: Facts) -> Facts:
    assert set(field) <= set(_ORDER), field
    return {word: field[word] for word in _ORDER if word in field}


def _json(value: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=sort_keys)
