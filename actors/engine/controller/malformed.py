"""Malformed objects: their fields are named in the errors of the reconciliations that read them.

Reconcilers read most fields without checks, so a field of another type causes an accidental error of Python. The
objects are checked only after such an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from kcm.protocols.errors import ACCIDENTS
from kcm.protocols.objects import Key, decode_object
from kcm.protocols.resources import Resource
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables
from kcm.runtime.tables.view import tables_of

MOST_REMEMBERED = 10_000  # objects
MOST_NAMED = 3  # objects in one error


class MalformedObjectError(Exception):
    """Objects that a reconciliation may have read have fields of a wrong type. `__cause__` is its own error."""


class MalformedObjects:
    """Search of one controller for malformed objects. Each version of an object is checked once."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._checked: dict[tuple[str, Key], tuple[int, str]] = {}  # by resource and key: version, description

    def explained(self, err: Exception, key: Key, resource_ids: Iterable[str]) -> Exception:
        """Return the error of a reconciliation, or a MalformedObjectError in its place.

        resource_ids: resources of which the key names an object.

        An accidental error is replaced if that object, or an object that was read lately, is malformed. A ValueError
        often describes the field itself, so the description of that object is added as a note.
        """
        if type(err) is ValueError:
            for text in self._of_key(key, resource_ids):
                err.add_note(text)
        elif type(err) in ACCIDENTS:
            found = list(islice(self._of_key(key, resource_ids), 1)) or list(islice(self._read_lately(), MOST_NAMED))
            if found:
                explained = MalformedObjectError("; ".join(found))
                explained.__cause__ = err
                return explained
        return err

    def _of_key(self, key: Key, resource_ids: Iterable[str]) -> Iterator[str]:
        for resource_id in resource_ids:
            overlay = self._tables.overlay(resource_id)
            entry = None if overlay is None else overlay.get(key)
            if overlay is not None and entry is not None:
                yield from self._malformed(overlay.table.resource, entry, metadata_only=overlay.table.metadata_only)

    def _read_lately(self) -> Iterator[str]:
        for overlay in self._tables.overlays().values():
            for table in tables_of(overlay.table):
                for entry in table.decoded_entries():
                    yield from self._malformed(table.resource, entry, metadata_only=table.metadata_only)

    def _malformed(self, resource: Resource, entry: Entry, *, metadata_only: bool) -> Iterator[str]:
        place = resource.id, entry.key
        version, text = self._checked.get(place, (-1, ""))
        if version != entry.resource_version:
            if len(self._checked) >= MOST_REMEMBERED:
                self._checked.clear()
            text = malformed_object(resource, entry.key, decode_object(entry.raw), metadata_only=metadata_only)
            self._checked[place] = entry.resource_version, text
        if text:
            yield text


def malformed_object(resource: Resource, key: Key, obj: Any, *, metadata_only: bool = False) -> str:
    """Describe the first malformed field: "Pod default/web: spec.volumes is a list, got 3"; "" if there is none."""
    from kcm.runtime.schema.field_errors import field_error  # few objects are malformed

    found = field_error(resource, obj, metadata_only=metadata_only)
    return f"{resource.kind} {key}: {found}" if found else ""
