"""Limits of the nesting of JSON, and of the length of field paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from kcm.runtime.apiserver.schema.nesting import MOST_NESTED, check_nesting
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.core.test_custom_resources import THINGS, crd, thing


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


# Large values are built by the test that needs them, not while tests are collected.
@pytest.mark.parametrize(
    ("build", "refused"),
    [
        (lambda: nested(MOST_NESTED), False),
        (lambda: nested(MOST_NESTED + 1), True),
        (lambda: [[[] for _ in range(1000)] for _ in range(100)], False),
        (lambda: {"k" * 500_000: 1}, False),
        (lambda: {"k" * 500_000: [{"x": 1} for _ in range(100)]}, False),
        (lambda: {"k" * 500_000: [{"x": 1} for _ in range(10_000)]}, True),
        (lambda: {"k" * 100_000: {str(number): 1 for number in range(100_000)}}, True),
        (lambda: {f"name-{number:05}": {"value": number} for number in range(100_000)}, False),
    ],
    ids=range(8),
)
def test_deep_nesting_and_long_paths_are_rejected(build: Callable[[], Any], refused: bool) -> None:
    value = build()
    raw = orjson.dumps(value)
    if refused:
        with pytest.raises(ValueError, match=r"nested more than|paths of fields are too long"):
            check_nesting(value, raw)
    else:
        check_nesting(value, raw)


@pytest.mark.parametrize("field_validation", ["Warn", "Strict"])
def test_object_with_many_fields_below_a_long_name_is_refused(api: Api, field_validation: str) -> None:
    item = {"type": "object", "properties": {"x": {"type": "integer", "maximum": 3}}}
    spec = {"type": "object", "additionalProperties": {"type": "array", "items": item}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    api.create(
        "customresourcedefinitions", crd(versions=[{"name": "v1", "served": True, "storage": True, "schema": schema}])
    )
    body = thing(spec={"k" * 500_000: [{"x": 4} for _ in range(10_000)]})
    refused = api.send("POST", THINGS, body, fieldValidation=field_validation)
    assert (refused.status, "paths of fields are too long" in refused.message) == (400, True)
    api.send("POST", THINGS, thing(spec={"a": [{"x": 1}]}))
    refused = api.send("PATCH", f"{THINGS}/t", {"spec": body["spec"]}, type_="application/merge-patch+json")
    assert refused.status == 400
    operations = [{"op": "add", "path": f"/spec/{'k' * 500_000}", "value": [{"x": 4} for _ in range(10_000)]}]
    refused = api.send("PATCH", f"{THINGS}/t", operations, type_="application/json-patch+json")
    assert refused.status == 422
