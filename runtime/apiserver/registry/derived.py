"""Resources that are not stored: their objects are made of others, each time that they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Key, Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One request. now: Unix seconds. objects: all of a resource, decoded; find: one of them, not to be changed; both
    by ResourceDefinition.storage. warn: what to tell who reads.
    """

    now: float
    objects: Callable[[str], Iterator[Object]]
    find: Callable[[str, Key], Object | None]
    warn: Callable[[str], None]


class Derived(NamedTuple):
    """source: ResourceDefinition.storage of what they are made of, whose names, namespaces and labels they have.

    make: those of these objects, at most one of each, in their order. name: what an error calls the resource.
    """

    source: str
    make: Callable[[Iterable[Object], Reading], Iterator[Object]]
    name: str


def _none(_sources: Iterable[Object], _reading: Reading) -> Iterator[Object]:
    return iter(())


COMPONENTS = Derived("", _none, "componentstatus")  # ComponentStatuses, which are made of no objects at all
