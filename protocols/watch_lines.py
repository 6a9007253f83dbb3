"""Parsers of the lines of a watch and the pages of a list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from msgspec import Struct

from kcm.protocols.objects import Key, Object, encode_to_keep
from kcm.protocols.versions import ObjectVersion, own_state, parse_version

INITIAL_EVENTS_END = "k8s.io/initial-events-end"  # annotation of the bookmark that ends a streaming list (KEP-3157)


_BEGINS_CHANGE = re.compile(rb'\{"type":"(?:ADDED|MODIFIED)","object":').match


class MalformedError(ValueError):
    """Malformed line or page, which an API server never sends. The text is the reason."""


class WatchLine(NamedTuple):
    """One watch event. type: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR or an unknown type. object: any JSON."""

    type: str
    object: Object


class ListPage(Struct, frozen=True):
    """Page of a list. resource_version: "" if missing. next: token of the next page, "" on the last page."""

    items: list[Any]
    resource_version: str
    next: str


def parse_watch_line(line: bytes) -> WatchLine:
    """Parse one line of a watch. Raises MalformedError."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as err:
        raise MalformedError(f"a watch event that is not JSON ({err}): {line[:80]!r}") from None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise MalformedError(f"a watch event without a type: {line[:80]!r}")
    obj = value.get("object")
    if not isinstance(obj, dict):
        raise MalformedError(f"a watch event {value['type']} without an object: {line[:80]!r}")
    return WatchLine(value["type"], obj)


def state_in_line(line: bytes) -> ObjectVersion | None:
    """Return key, UID and version of an ADDED or MODIFIED object, or None if the line must be decoded for them."""
    found = _BEGINS_CHANGE(line)
    return None if found is None else own_state(line, begins=found.end())


def latest_changes(lines: Sequence[bytes]) -> list[bytes]:
    """Return the lines without the changes of objects that a later line changes again."""
    kept: list[bytes] = []
    later: set[Key] = set()
    for line in reversed(lines):
        state = state_in_line(line)
        if state is not None:
            if state.key in later:
                continue
            later.add(state.key)
        kept.append(line)
    kept.reverse()
    return kept


def parse_list_page(body: bytes) -> ListPage:
    """Parse one page. Missing items are an empty list, a missing `continue` is "". Raises MalformedError."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as err:
        raise MalformedError(f"a list that is not JSON ({err}): {body[:80]!r}") from None
    meta = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(meta, dict | None):
        raise MalformedError(f"not a list: {body[:80]!r}")
    items = value.get("items")
    if items is not None and not isinstance(items, list):
        raise MalformedError(f"a list whose items are not an array: {type(items).__name__}")
    meta = meta or {}
    return ListPage(items or [], str(meta.get("resourceVersion") or ""), str(meta.get("continue") or ""))


def strip(obj: Object) -> bytes:
    """Return the JSON that tables keep: without managedFields, kind and apiVersion.

    Modifies obj. Raises MalformedError if its metadata is not an object.
    """
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        raise MalformedError(f"an object whose metadata is not an object but {type(meta).__name__}")
    meta.pop("managedFields", None)
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    return encode_to_keep(obj)


def version_of(obj: Object) -> int | None:
    """Return metadata.resourceVersion as a number, or None if it is missing or not a 64-bit number."""
    meta = obj.get("metadata")
    return parse_version(meta.get("resourceVersion")) if isinstance(meta, dict) else None


def ends_initial_events(bookmark: Object) -> bool:
    """Report whether this bookmark ends the initial events of a streaming list."""
    meta = bookmark.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    return isinstance(annotations, dict) and annotations.get(INITIAL_EVENTS_END) == "true"
