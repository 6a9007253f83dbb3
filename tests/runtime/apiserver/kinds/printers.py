"""Mapping from apiVersion and kind to the printer of each built-in kind."""

from __future__ import annotations

from typing import Any

from kcm.runtime.apiserver.kinds.bodies import BODIES
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.off_by_default import OFF_BY_DEFAULT
from kcm.runtime.apiserver.registry.printers import Printer

NOW = 1_767_322_800.0  # 2026-01-02T03:00:00Z
META = {"name": "x", "creationTimestamp": "2026-01-02T02:00:00Z"}

PRINTERS: dict[tuple[str, str], Printer] = {
    (definition.api_version, definition.kind): definition.printer
    for definition in (*BUILT_IN, *OFF_BY_DEFAULT, *BODIES.values())
}


def printer_for(api_version: str, kind: str) -> Printer:
    return PRINTERS[api_version, kind]


def cells(api_version: str, kind: str, **fields: Any) -> list[Any]:
    """Return the table cells of an object of this kind, created one hour before NOW."""
    meta = {**META, **fields.pop("metadata", {})}
    return printer_for(api_version, kind).cells({"metadata": meta, **fields}, NOW)
