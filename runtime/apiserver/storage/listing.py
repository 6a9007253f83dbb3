"""Pages of a list of one collection at one revision.

Only the newest state is stored. An older state is reconstructed by undoing later changes, so the pages of one list are
consistent. A list at a revision that the history no longer contains is refused (410), as after a compaction of etcd.

Source: apiserver pkg/storage/{continue.go,etcd3/store.go}, apimachinery metav1.ListOptions (v1.36).
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

import orjson

from kcm.protocols.objects import Key, decode_object, labels_of
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.storage.selection import SelectionPredicate
from kcm.runtime.apiserver.storage.state import Collection
from kcm.runtime.apiserver.storage.store import StoreChange

CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this response to retrieve "
    "the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that "
    "were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
LIST_EXPIRED = "The resourceVersion for the provided list is too old."

NEWEST = -1  # stands for a revision that the history no longer contains: the list continues with the newest state


class Position(NamedTuple):
    """Decoded continue token: the position at which the list continues."""

    revision: int  # of the first page, or NEWEST
    start: Key  # the first key that the next page may contain


def encode_position(position: Position) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": position.revision, "start": position.start}
    return base64.urlsafe_b64encode(orjson.dumps(token)).rstrip(b"=").decode()


def decode_position(text: str) -> Position:
    """Parse a continue token. Raises StatusError (400) if it is malformed."""
    try:
        token = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        revision, start = token["rv"], token["start"]
    except (binascii.Error, ValueError, TypeError, KeyError) as err:
        raise status_errors.bad_request(f"invalid continue token: continue key is not valid: {err}") from err
    if type(revision) is not int or revision < NEWEST or not revision or not isinstance(start, str) or not start:
        raise status_errors.bad_request(
            "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion "
            "(version meta.k8s.io/v1)"
        )
    return Position(revision, start)


class Page(NamedTuple):
    """One page of a list."""

    items: list[bytes]  # the stored bytes of each object
    next: Key  # the first key of the next page; "" on the last page
    remaining: int | None  # number of objects after this page; None if selectors make it unknown


def read_page(
    collection: Collection,
    undone: list[StoreChange],
    selection: SelectionPredicate,
    *,
    namespace: str,
    start: Key,
    limit: int,
) -> Page:
    """Read one page of the selected objects.

    undone: later changes of this collection, oldest first, that are undone to get the state at the list's revision
    start: the first key that the page may contain
    limit: maximum number of items; 0 means no limit
    """
    earlier = {change.key: change.previous for change in reversed(undone)}
    keys = _keys(collection, earlier, namespace, start)
    counts = selection.everything
    if selection.definition.asks_outside and not (selection.labels.empty and selection.on_content.empty):
        keys = _converted_and_selected(collection, earlier, selection, keys)
        selection = selection.by_key()
    items: list[bytes] = []
    for i, key in enumerate(keys):
        if limit and len(items) == limit:
            remaining = len(keys) - i if counts else None
            return Page(items, key, remaining)
        raw = _selected(collection, earlier, selection, key)
        if raw is not None:
            items.append(raw)
    return Page(items, "", None)


def _keys(collection: Collection, earlier: dict[Key, bytes], namespace: str, start: Key) -> list[Key]:
    keys = list(collection.keys(namespace, start=start))
    if earlier:
        here = set(keys)
        prefix = f"{namespace}/" if namespace else ""
        there_then = {key for key, raw in earlier.items() if raw and key.startswith(prefix) and key >= start}
        keys = sorted({key for key in here if earlier.get(key) != b""} | there_then)
    return keys


def _selected(
    collection: Collection, earlier: dict[Key, bytes], selection: SelectionPredicate, key: Key
) -> bytes | None:
    """Return the object's bytes, or None if the selection does not contain the object.

    The cheapest condition is checked first.
    """
    if not selection.has_key(key):
        return None
    raw = earlier.get(key)
    if raw is None:
        record = collection.records[key]
        if not selection.labels.matches(record.labels):
            return None
        raw = record.raw
    elif not selection.labels.matches(labels_of(decode_object(raw))):
        return None
    if not selection.on_content.empty:
        if not selection.has_content(selection.definition.shown(decode_object(raw))):
            return None
    return raw


def _converted_and_selected(
    collection: Collection, earlier: dict[Key, bytes], selection: SelectionPredicate, keys: list[Key]
) -> list[Key]:
    """Return the keys of the selected objects, after converting all objects with one call of the conversion webhook."""
    keys = [key for key in keys if selection.has_key(key)]
    objects = [decode_object(earlier.get(key) or collection.records[key].raw) for key in keys]
    if selection.definition.decode is not None:
        objects = selection.definition.decode(objects)
    return [key for key, obj in zip(keys, objects, strict=True) if selection.matches(key, obj)]
