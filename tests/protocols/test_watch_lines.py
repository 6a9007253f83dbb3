"""Lines of a watch and pages of a list."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.protocols.objects import decode_object
from kcm.protocols.watch_lines import (
    INITIAL_EVENTS_END,
    ListPage,
    MalformedError,
    WatchLine,
    ends_initial_events,
    parse_list_page,
    parse_watch_line,
    strip,
    version_of,
)


def test_a_line_is_a_type_and_an_object() -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"web"}}}\n'
    assert parse_watch_line(line) == WatchLine("ADDED", {"metadata": {"name": "web"}})
    assert parse_watch_line(b'{"type":"NEW","object":{}}').type == "NEW", "a type that we do not know"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"", "not JSON"),
        (b'{"type":"ADDED","obj', "not JSON"),
        (b"[]", "without a type"),
        (b'{"type":1,"object":{}}', "without a type"),
        (b'{"type":"ADDED"}', "ADDED without an object"),
        (b'{"type":"ADDED","object":[]}', "ADDED without an object"),
    ],
)
def test_a_malformed_line_is_an_error_that_shows_its_beginning(line: bytes, error: str) -> None:
    with pytest.raises(MalformedError, match=error) as raised:
        parse_watch_line(line + b" " * 1000)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            {"metadata": {"resourceVersion": "7", "continue": "token"}, "items": [{"a": 1}]},
            ListPage([{"a": 1}], "7", "token"),
        ),
        ({"metadata": {"resourceVersion": "7", "continue": ""}, "items": None}, ListPage([], "7", "")),
        ({"metadata": None}, ListPage([], "", "")),
        ({}, ListPage([], "", "")),
    ],
)
def test_missing_parts_of_a_page_are_empty(page: dict[str, Any], expected: ListPage) -> None:
    assert parse_list_page(orjson.dumps(page)) == expected


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<html>", "not JSON"),
        (b"[]", "not a list"),
        (b'{"metadata":"x"}', "not a list"),
        (b'{"metadata":{},"items":{}}', "items are not an array: dict"),
    ],
)
def test_a_malformed_page_is_an_error(body: bytes, error: str) -> None:
    with pytest.raises(MalformedError, match=error):
        parse_list_page(body)


def test_a_stripped_object_has_neither_kind_nor_managed_fields() -> None:
    obj = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "web", "managedFields": [{"manager": "kubectl"}]},
        "spec": {"nodeName": "n1"},
    }
    assert decode_object(strip(obj)) == {"metadata": {"name": "web"}, "spec": {"nodeName": "n1"}}
    with pytest.raises(MalformedError, match="metadata is not an object but list"):
        strip({"metadata": []})


@pytest.mark.parametrize(
    ("metadata", "version"),
    [
        ({"resourceVersion": "42"}, 42),
        ({"resourceVersion": "4x"}, None),
        ({"resourceVersion": ""}, None),
        ({"resourceVersion": 42}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_version_is_a_decimal_text(metadata: Any, version: int | None) -> None:
    assert version_of({"metadata": metadata}) == version


@pytest.mark.parametrize(
    ("metadata", "ends"),
    [
        ({"annotations": {INITIAL_EVENTS_END: "true"}}, True),
        ({"annotations": {INITIAL_EVENTS_END: "false"}}, False),
        ({"annotations": None}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_the_annotated_bookmark_ends_the_initial_events(metadata: Any, ends: bool) -> None:
    assert ends_initial_events({"metadata": metadata}) is ends
