"""Patches that the server accepts without changing the object, so that a controller does not repeat them.

A misspelled field, a field that is not in the schema, or a field that a webhook resets differs from the desired value
at every sync. Each time the server responds with 200 and the same resourceVersion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from kcm.protocols.objects import Key, Object, key_of, resource_version_of
from kcm.protocols.resources import Resource

MOST_REMEMBERED = 1024  # patches of one controller
MOST_FIELDS = 10  # reported per patch


class IneffectivePatch(NamedTuple):
    """Patch without effect. fields: paths that the patch set, such as "spec.image"; at most MOST_FIELDS."""

    resource: Resource
    key: Key
    fields: tuple[str, ...]


class _Known(NamedTuple):
    version: str
    changes: Object
    patch: IneffectivePatch


class IneffectivePatches:
    """The ineffective patches of one controller, by object and subresource. Used on its thread only.

    A patch is suppressed as long as the object has the same version and the patch is the same. The oldest is evicted
    first; a resync clears them all, because a schema may change without a change of the object.

    unreported: the driver of the reconciler logs these patches and empties the list.
    """

    __slots__ = ("_known", "unreported")

    def __init__(self) -> None:
        self.unreported: list[IneffectivePatch] = []
        self._known: dict[tuple[str, Key, str], _Known] = {}

    def holds_back(self, resource: Resource, present: Object, changes: Object, *, subresource: str = "") -> bool:
        """Report whether this patch is known to have no effect on this version of the object."""
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
