"""Objects, lists and watch events in another form: as a Table, or as their metadata alone.

Source: apiserver pkg/endpoints/handlers/response.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from protocols.objects import Object, metadata
from runtime.apiserver.http.negotiation import Form
from runtime.apiserver.http.tables import partial_metadata, table, table_row
from runtime.apiserver.registry.printers import Printer

INCLUDES = ("None", "Metadata", "Object")


class Representation:
    """The form that one request asked for."""

    def __init__(self, form: Form, *, include: str, now: Callable[[], float], printer: Printer) -> None:
        """form: of kind "Table", "PartialObjectMetadata" or its list. include: a table's ?includeObject, one of
        INCLUDES. now: Unix seconds. printer: of the kind that the request reads.
        """
        self._form, self._include, self._now, self._printer = form, include, now, printer
        self._with_columns = True

    def body(self, raw: bytes) -> bytes:
        """An object or a list in this form. A Status is returned as it is."""
        obj = orjson.loads(raw)
        kind, api_version = str(obj.get("kind", "")), str(obj.get("apiVersion", ""))
        if kind == "Status":
            return raw
        if isinstance(obj.get("items"), list):
            kind = kind.removesuffix("List")
            return orjson.dumps(self._list(obj["items"], api_version, kind, metadata(obj)))
        meta = {"resourceVersion": metadata(obj).get("resourceVersion", "")}
        return orjson.dumps(self._one(obj, api_version, kind, meta))

    def lines(self, raw: bytes) -> bytes:
        """Watch events, one a line. Only the first table of a watch names its columns."""
        return b"".join(self._line(line) for line in raw.splitlines() if line)

    def _line(self, line: bytes) -> bytes:
        event = orjson.loads(line)
        obj = event["object"]
        if event["type"] == "ERROR":
            return line + b"\n"
        kind, api_version = str(obj.get("kind", "")), str(obj.get("apiVersion", ""))
        meta = {"resourceVersion": metadata(obj).get("resourceVersion", "")}
        shown = self._one(obj, api_version, kind, meta)
        return orjson.dumps({"type": event["type"], "object": shown}) + b"\n"

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
