"""Patches that the server accepts without changing the object, so that a controller does not repeat them.

A misspelt field, one that the schema does not have, or one that a webhook sets back differs from what is wanted at
every sync. Each time the server answers 200 with the same resourceVersion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from kcm.protocols.objects import Key, Object, key_of, resource_version_of
from kcm.protocols.resources import Resource

MOST_REMEMBERED = 1024  # patches of one controller
MOST_FIELDS = 10  # of one patch, that are reported


class IneffectivePatch(NamedTuple):
    """fields: paths of what the patch set, as "spec.image"; at most MOST_FIELDS of them."""

    resource: Resource
    key: Key
    fields: tuple[str, ...]


class _Known(NamedTuple):
    version: str
    changes: Object
    patch: IneffectivePatch


class IneffectivePatches:
    """The ineffective patches of one controller, by object and subresource. Used on its thread only.

    A patch is held back while the object has the same version and the same changes are wanted. The oldest is forgotten
    first, all of them at a resync, as a schema may change without a change of the object.

    unreported: for the log. The driver of the reconciler reports these, and empties the list.
    """

    __slots__ = ("_known", "unreported")

    def __init__(self) -> None:
        self.unreported: list[IneffectivePatch] = []
        self._known: dict[tuple[str, Key, str], _Known] = {}

    def holds_back(self, resource: Resource, present: Object, changes: Object, *, subresource: str = "") -> bool:
        """Return whether this patch of the object, as it is now, was found to change nothing."""
        if not self._known:
            return False
        known = self._known.get((resource.id, key_of(present), subresource))
        return known is not None and known.version == resource_version_of(present) and known.changes == changes

    def patched(
        self, resource: Resource, before: Object, after: Object, changes: Object, *, subresource: str = ""
    ) -> None:
        """Remember a patch after which the object has the same version as before. Its fields are reported once."""
        place = resource.id, key_of(before), subresource
        version = resource_version_of(before)
        if version != resource_version_of(after):
            return
        of_object = {subresource: changes} if subresource else changes
        patch = IneffectivePatch(resource, key_of(before), tuple(islice(_paths(of_object, ""), MOST_FIELDS)))
        known = self._known.pop(place, None)
        if known is None and len(self._known) >= MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[place] = _Known(version, changes, patch)
        if known is None or known.patch != patch:
            self.unreported.append(patch)

    def forget(self) -> None:
        self._known.clear()


def _paths(changes: Mapping[str, Any], above: str) -> Iterator[str]:
    for name, value in changes.items():
        path = f"{above}[{name}]" if "." in name or "/" in name else f"{above}.{name}" if above else name
        if isinstance(value, Mapping) and value:
            yield from _paths(value, path)
        else:
            yield path
