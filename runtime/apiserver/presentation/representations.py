"""Conversion of objects, lists and watch events to the negotiated form: protobuf, a Table, or metadata only.

Source: apiserver pkg/endpoints/handlers/response.go, watch.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from operator import itemgetter, methodcaller
from typing import Any

import orjson

from kcm.protocols.objects import Object, metadata
from kcm.runtime.apiserver.presentation.json_bodies import escaped
from kcm.runtime.apiserver.presentation.negotiation import PROTOBUF, Form
from kcm.runtime.apiserver.presentation.protobuf_cache import ProtobufCache
from kcm.runtime.apiserver.presentation.tables import partial_metadata, table, table_row
from kcm.runtime.apiserver.registry.printers import Printer
from kcm.runtime.apiserver.schema.protobuf_encoder import envelope, list_item, watch_event
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED
from kcm.runtime.apiserver.storage.watches import parts_of_line
from kcm.runtime.apiserver.verbs.read import ListResponse
from kcm.runtime.client.api import Response

META_GROUP, METADATA_LIST = "meta.k8s.io", "PartialObjectMetadataList"
INCLUDES = ("None", "Metadata", "Object")
_OBJECT_EVENTS = {ADDED, MODIFIED, DELETED}


class Representation:
    """Converter of the response to one request, which may be an object, a list or a watch."""

    def __init__(
        self, form: Form, *, include: str, now: Callable[[], float], printer: Printer, cache: ProtobufCache
    ) -> None:
        """Create a converter.

        form: negotiated form, except of discovery
        include: value of ?includeObject for a Table, one of INCLUDES
        now: returns the current Unix time in seconds
        printer: table columns and cells of the requested kind
        cache: cache of protobuf encodings
        """
        self._form, self._include, self._now, self._printer = form, include, now, printer
        self._cache = cache
        self._with_columns = True

    @property
    def _is_protobuf(self) -> bool:
        return self._form.media_type == PROTOBUF

    def body(self, response: Response) -> bytes:
        """Convert the body of a response with an object or a list."""
        if self._is_protobuf and not self._form.kind:
            return self._cache.of(response.body).in_envelope()
        shown = self._shown(orjson.loads(response.body))
        return self._cache.encoder.encode(shown) if self._is_protobuf else orjson.dumps(shown)

    def lines(self, raw: bytes) -> bytes:
        """Convert watch events.

        Only the first Table of a watch contains the column definitions.

        raw: events in JSON, one per line
        """
        if self._is_protobuf:
            return b"".join(self._frame(line) for line in raw.splitlines() if line)
        return escaped(b"".join(self._line(line) for line in raw.splitlines() if line))

    def _line(self, line: bytes) -> bytes:
        event = orjson.loads(line)
        return orjson.dumps({"type": event["type"], "object": self._shown(event["object"])}) + b"\n"

    def _frame(self, line: bytes) -> bytes:
        type_, raw = parts_of_line(line)
        if type_ in _OBJECT_EVENTS and not self._form.kind:
            return watch_event(type_, self._cache.of(raw).in_envelope())
        return watch_event(type_, self._cache.encoder.encode(self._shown(orjson.loads(raw))))

    def list_in_steps(self, response: ListResponse) -> Generator[None, None, bytes]:
        """Convert a list as `body` does, but yield after each object, so that other requests can run."""
        head, form, cache = response.head, self._form, self._cache
        api_version, list_kind, meta = head["apiVersion"], head["kind"], head["metadata"]
        kind = list_kind.removesuffix("List")
        if not self._is_protobuf:
            parts = list[orjson.Fragment]()
            for raw in response.items:
                parts.append(orjson.Fragment(orjson.dumps(self._part(orjson.loads(raw), api_version, kind))))
                yield
            return orjson.dumps(self._list(parts, meta))
        if form.kind and form.version != "v1":  # v1beta1 has another field number for items
            items = [partial_metadata(orjson.loads(raw), form.version) for raw in response.items]
            return cache.encoder.encode(self._list(items, meta))
        messages = list[bytes]()
        for raw in response.items:
            if form.kind:
                item = partial_metadata(orjson.loads(raw))
                message = cache.encoder.message(item, item["apiVersion"], item["kind"])
            else:
                message = cache.of(raw).message
            messages.append(list_item(message))
            yield
        if form.kind:
            api_version, list_kind = f"{META_GROUP}/{form.version}", METADATA_LIST
        first = cache.encoder.message({"metadata": meta}, api_version, list_kind)
        return envelope(api_version, list_kind, b"".join((first, *messages)))

    def _shown(self, obj: Object) -> Mapping[str, Any]:
        """Convert an object or a list to JSON values in the negotiated form. A Status is returned unchanged."""
        kind, api_version = str(obj.get("kind", "")), str(obj.get("apiVersion", ""))
        if kind == "Status" or not self._form.kind:
            return obj
        if isinstance(obj.get("items"), list):
            kind = kind.removesuffix("List")
            return self._list([self._part(item, api_version, kind) for item in obj["items"]], metadata(obj))
        return self._converted(obj, api_version, kind, {"resourceVersion": metadata(obj).get("resourceVersion", "")})

    def _converted(self, obj: Object, api_version: str, kind: str, meta: Mapping[str, Any]) -> dict[str, Any]:
        if self._form.kind != "Table":
            return partial_metadata(obj, self._form.version)
        return self._table([self._row(obj, api_version, kind)], meta)

    def _part(self, obj: Object, api_version: str, kind: str) -> dict[str, Any]:
        """Return the entry for one object of a list: a table row or its metadata."""
        if self._form.kind == "Table":
            return self._row(obj, api_version, kind)
        return partial_metadata(obj, self._form.version)

    def _list(self, parts: Sequence[Any], meta: Mapping[str, Any]) -> dict[str, Any]:
        if self._form.kind == "Table":
            return self._table(parts, meta)
        return {
            "kind": METADATA_LIST,
            "apiVersion": f"{META_GROUP}/{self._form.version}",
            "metadata": meta,
            "items": parts or None,  # upstream encodes an empty list as null
        }

    def _row(self, obj: Object, api_version: str, kind: str) -> dict[str, Any]:
        # Objects in a list may lack kind and apiVersion; the object in a row has both.
        whole = {"kind": kind, "apiVersion": api_version, **obj}
        return table_row(self._printer, whole, now=self._now(), include=self._include, version=self._form.version)

    def _table(self, rows: Sequence[Mapping[str, Any]], meta: Mapping[str, Any]) -> dict[str, Any]:
        shown = table(self._printer, rows, meta, version=self._form.version, with_columns=self._with_columns)
        self._with_columns = False
        return shown


def built_in_list_body(response: ListResponse) -> bytes:
    """Return the body of a list whose objects have no kind and apiVersion, as upstream encodes lists of built-in kinds.

    Each stored object begins with both fields, so the body is joined from slices of the stored bytes. It is joined only
    once: copying a body of a megabyte costs more than all other steps, as the process must first map its pages.
    """
    head, items = response.head, response.items
    kind = {"kind": head["kind"].removesuffix("List"), "apiVersion": head["apiVersion"]}
    start = orjson.dumps(kind)[:-1] + b","
    if not items or not all(map(methodcaller("startswith", start), items)):
        return response.body
    views: Iterator[memoryview] = map(memoryview, items)
    pieces: list[bytes | memoryview] = [*map(itemgetter(slice(len(start), None)), views)]
    pieces[0] = b"".join((orjson.dumps(head)[:-1], b',"items":[{', pieces[0]))
    pieces[-1] = b"".join((pieces[-1], b"]}"))
    return b",{".join(pieces)


def list_parts(response: ListResponse, *, is_custom: bool) -> Iterator[bytes]:
    """Yield the body of a list as JSON, in parts: each is one item, or what is around them.

    is_custom: whether objects in the list keep kind and apiVersion, see built_in_list_body
    """
    head, items = response.head, response.items
    kind = {"kind": head["kind"].removesuffix("List"), "apiVersion": head["apiVersion"]}
    start = orjson.dumps(kind)[:-1] + b","
    left_out = 0 if is_custom or not all(map(methodcaller("startswith", start), items)) else len(start)
    yield orjson.dumps(head)[:-1] + b',"items":['
    separator = b""
    for item in items:
        yield separator + (b"{" + item[left_out:] if left_out else item)
        separator = b","
    yield b"]}\n"
