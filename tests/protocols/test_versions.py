"""Resource versions, and the version of the object in a response."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.protocols.versions import UINT64, ObjectVersion, own_state, own_version, parse_version

DIGITS_THAT_INT_REFUSES = "7" * 4301


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("42", 42),
        (str(UINT64), UINT64),
        (str(UINT64 + 1), None),
        (DIGITS_THAT_INT_REFUSES, None),
        ("-1", None),
        ("1.0", None),
        (" 1", None),
        ("", None),
        ("٤٢", None),
        (42, None),
        (None, None),
    ],
)
def test_a_version_is_ascii_digits_of_64_bits(text: Any, number: int | None) -> None:
    assert parse_version(text) == number


ANNOTATED = {"annotations": {"resourceVersion": "7"}, "name": "web", "resourceVersion": "42"}


@pytest.mark.parametrize(
    "obj",
    [
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web", "uid": "u", "resourceVersion": "42"}},
        {"metadata": {"resourceVersion": "42"}},
        {"metadata": ANNOTATED},
        {"metadata": {"name": "web", "resourceVersion": "42", "annotations": {"resourceVersion": "7"}}},
        {"metadata": {"labels": {"resourceVersion": "7"}, "resourceVersion": "42"}},
        {"metadata": {"ownerReferences": [{"resourceVersion": "7"}], "resourceVersion": "42"}},
        {"spec": {"template": {"metadata": {"resourceVersion": "7"}}}, "metadata": {"resourceVersion": "42"}},
        {"involvedObject": {"resourceVersion": "7"}, "metadata": {"name": "event", "resourceVersion": "42"}},
        {"metadata": {"name": 'a","resourceVersion":"7', "resourceVersion": "42"}},
        {"resourceVersion": "7", "metadata": {"resourceVersion": "42"}},
    ],
)
def test_the_version_of_an_object_is_that_of_its_own_metadata(obj: dict[str, Any]) -> None:
    assert own_version(orjson.dumps(obj)) == 42
    assert own_version(orjson.dumps(obj, option=orjson.OPT_INDENT_2)) == 42


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"metadata":7}',
        b'{"metadata":{"annotations":{"resourceVersion":"7"}}}',
        b'{"spec":{"template":{"metadata":{"resourceVersion":"7"}}},"metadata":{}}',
        b'{"metadata":{"resourceVersion":7}}',
        b'{"metadata":{"resourceVersion":"seven"}}',
        b'{"metadata":{"resourceVersion":"99999999999999999999"}}',
        b'{"metadata":{"resourceVersion":"%s"}}' % DIGITS_THAT_INT_REFUSES.encode(),
    ],
)
def test_body_without_own_version_has_version_zero(body: bytes) -> None:
    assert own_version(body) == 0


_names = st.sampled_from(["name", "resourceVersion", "metadata", "kind", "labels", 'q"', "\\", "é"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99) | st.sampled_from(["7", "x", '"resourceVersion":"8"', "\\"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=4),
    max_leaves=12,
)


@given(_json, _json)
def test_it_is_what_decoding_the_whole_object_shows(meta: Any, spec: Any) -> None:
    for obj in ({"kind": "Pod", "metadata": meta, "spec": spec}, {"spec": spec, "metadata": meta}):
        shown = parse_version(meta.get("resourceVersion")) if isinstance(meta, dict) else None
        assert own_version(orjson.dumps(obj)) == (shown or 0)


META = '{"kind":"Pod","apiVersion":"v1","metadata":{'


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (META + '"name":"a","namespace":"n","uid":"u","resourceVersion":"7"}}', ObjectVersion("n/a", "u", 7)),
        (
            META + '"name":"a","generateName":"a","namespace":"n","uid":"u","resourceVersion":"7"}}',
            ObjectVersion("n/a", "u", 7),
        ),
        ('{"metadata":{"name":"a","uid":"u","resourceVersion":"7","generation":1}}', ObjectVersion("a", "u", 7)),
        (META + '"name":"\\u0061","uid":"u","resourceVersion":"7"}}', None),
        (META + '"name":"a","labels":{},"uid":"u","resourceVersion":"7"}}', None),
        (META + '"name":"a","uid":"u","resourceVersion":"99999999999999999999"}}', None),
        ('{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}', None),
        ('{"spec":{"metadata":{"name":"a","uid":"u","resourceVersion":"7"}}}', None),
    ],
)
def test_object_state_is_read_from_the_beginning_of_a_response(body: str, state: ObjectVersion | None) -> None:
    assert own_state(body.encode()) == state
