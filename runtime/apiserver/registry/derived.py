"""Resources that are not stored: their objects are computed from other objects when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from kcm.protocols.objects import Key, Object


class Reading(Struct, frozen=True, kw_only=True):
    """Access to stored objects during one request."""

    now: float  # Unix seconds
    # Both are called with a ResourceDefinition.storage. The returned objects must not be changed.
    objects: Callable[[str], Iterator[Object]]
    find: Callable[[str, Key], Object | None]
    warn: Callable[[str], None]  # adds a warning to the response


class Derived(NamedTuple):
    """Rule that computes the objects of a resource from the objects of another resource.

    source: ResourceDefinition.storage of the source objects, which provide names, namespaces and labels
    make: computes at most one object for each source object, in the same order
    name: name of the resource in errors
    """

    source: str
    make: Callable[[Iterable[Object], Reading], Iterator[Object]]
    name: str


def _none(_sources: Iterable[Object], _reading: Reading) -> Iterator[Object]:
    return iter(())


COMPONENTS = Derived("", _none, "componentstatus")  # ComponentStatuses, which are not computed from stored objects
