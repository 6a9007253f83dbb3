"""Objects, lists and watch events in another form: in protobuf, as a Table, or as their metadata alone.

Source: apiserver pkg/endpoints/handlers/response.go, watch.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from protocols.objects import Object, metadata
from runtime.apiserver.http.encodings import Encodings
from runtime.apiserver.http.negotiation import PROTOBUF, Form
from runtime.apiserver.http.tables import partial_metadata, table, table_row
from runtime.apiserver.registry.printers import Printer
from runtime.apiserver.schema.protobuf_encoding import envelope, list_item, watch_event
from runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED
from runtime.apiserver.storage.watches import parts_of_line
from runtime.apiserver.verbs.read import ListResponse
from runtime.client.api import Response

INCLUDES = ("None", "Metadata", "Object")
_OF_OBJECTS = {ADDED, MODIFIED, DELETED}


class Representation:
    """The form that one request asked for."""

    def __init__(
        self, form: Form, *, include: str, now: Callable[[], float], printer: Printer, encodings: Encodings
    ) -> None:
        """form: not of discovery. include: a table's ?includeObject, one of INCLUDES. now: Unix seconds. printer: of
        the kind that the request reads.
        """
        self._form, self._include, self._now, self._printer = form, include, now, printer
        self._encodings = encodings
        self._with_columns = True

    @property
    def _is_protobuf(self) -> bool:
        return self._form.media_type == PROTOBUF

    def body(self, response: Response) -> bytes:
        """An object or a list in this form."""
        if self._is_protobuf and not self._form.kind:
            if isinstance(response, ListResponse):
                return self._encoded_list(response)
            return self._encodings.of(response.body).in_envelope()
        shown = self._shown(orjson.loads(response.body))
        return self._encodings.encoder.encode(shown) if self._is_protobuf else orjson.dumps(shown)

    def lines(self, raw: bytes) -> bytes:
        """Watch events, one a line. Only the first table of a watch names its columns."""
        event = self._frame if self._is_protobuf else self._line
        return b"".join(event(line) for line in raw.splitlines() if line)

    def _line(self, line: bytes) -> bytes:
        event = orjson.loads(line)
        return orjson.dumps({"type": event["type"], "object": self._shown(event["object"])}) + b"\n"

    def _frame(self, line: bytes) -> bytes:
        type_, raw = parts_of_line(line)
        if type_ in _OF_OBJECTS and not self._form.kind:
            return watch_event(type_, self._encodings.of(raw).in_envelope())
        return watch_event(type_, self._encodings.encoder.encode(self._shown(orjson.loads(raw))))

    def _encoded_list(self, response: ListResponse) -> bytes:
        head, of = response.head, self._encodings.of
        api_version, kind = head["apiVersion"], head["kind"]
        message = self._encodings.encoder.message(head, api_version, kind)
        return envelope(api_version, kind, b"".join((message, *(list_item(of(raw).message) for raw in response.items))))

    def _shown(self, obj: Object) -> Mapping[str, Any]:
        """A Status stays one."""
        kind, api_version = str(obj.get("kind", "")), str(obj.get("apiVersion", ""))
        if kind == "Status" or not self._form.kind:
            return obj
        if isinstance(obj.get("items"), list):
            return self._list(obj["items"], api_version, kind.removesuffix("List"), metadata(obj))
        return self._one(obj, api_version, kind, {"resourceVersion": metadata(obj).get("resourceVersion", "")})

    def _one(self, obj: Object, api_version: str, kind: str, meta: Mapping[str, Any]) -> dict[str, Any]:
        if self._form.kind != "Table":
            return partial_metadata(obj, self._form.version)
        return self._table([self._row(obj, api_version, kind)], meta)

    def _list(self, items: Sequence[Object], api_version: str, kind: str, meta: Mapping[str, Any]) -> dict[str, Any]:
        if self._form.kind == "Table":
            return self._table([self._row(item, api_version, kind) for item in items], meta)
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{self._form.version}",
            "metadata": meta,
            "items": [partial_metadata(item, self._form.version) for item in items],
        }

    def _row(self, obj: Object, api_version: str, kind: str) -> dict[str, Any]:
        # Objects in a list may lack these two; an object in a row may not.
        whole = {"kind": kind, "apiVersion": api_version, **obj}
        return table_row(self._printer, whole, now=self._now(), include=self._include, version=self._form.version)

    def _table(self, rows: Sequence[Mapping[str, Any]], meta: Mapping[str, Any]) -> dict[str, Any]:
        shown = table(self._printer, rows, meta, version=self._form.version, with_columns=self._with_columns)
        self._with_columns = False
        return shown
