"""Which resource an owner reference names: what client-go calls a RESTMapper, kept by discovery.

Source: apimachinery pkg/api/meta/restmapper.go (RESTMapping).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kcm.actors.reconciliation import Change, Retry
from kcm.actors.reconciliation.discovered import Discovered
from kcm.protocols.messages.discovery import ServedResource, TablesChanged
from kcm.protocols.messages.lifecycle import Restarted
from kcm.protocols.objects import Key
from kcm.protocols.resources import Resource
from kcm.runtime.tables.tables import Tables

K = TypeVar("K")
V = TypeVar("V")

FIRST_LOOK = 1.0  # seconds until kinds may be known, after a start


def _none(_served: ServedResource) -> bool:
    return False


def _nobody(_resource: Resource, _change: Change, _tables: Tables) -> Iterable[Key]:
    return ()


KINDS_ALONE: Discovered[Key] = Discovered(select=_none, to=_nobody)
"""For a spec's `discovers`: to know which kinds are served. No table is kept of any of them."""


class ServedKinds:
    """A reconciler with `discovers` in its spec hands it what each TablesChanged says is served.

    Before the first one nothing is known: Retry is raised.
    """

    def __init__(self) -> None:
        self._kinds: Mapping[tuple[str, str], ServedResource] | None = None
        self._resources: Mapping[str, Resource] | None = None
        self._groups: Mapping[tuple[str, str], Sequence[ServedResource]] | None = None
        self._ever: dict[tuple[str, str], Resource] = {}

    def hear(self, message: Any) -> tuple[()]:
        """What on_message is told of a reconciler that discovers nothing else. Raises TypeError on other messages."""
        match message:
            case TablesChanged(served=served):
                self.follow(served)
            case Restarted():
                pass
            case _:
                raise TypeError(f"a reconciler that knows what is served cannot handle {message!r}")
        return ()

    def follow(self, served: Iterable[ServedResource]) -> None:
        kinds: dict[tuple[str, str], ServedResource] = {}
        resources: dict[str, Resource] = {}
        groups: dict[tuple[str, str], list[ServedResource]] = {}
        for one in served:
            resource = one.resource
            resources[resource.id] = resource
            kinds.setdefault((resource.api_version, one.kind), one)
            of_kind = groups.setdefault((one.group, one.kind), [])
            if all(one.plural != each.plural for each in of_kind):
                of_kind.append(one)
        self._kinds, self._resources, self._groups = kinds, resources, groups
        self._ever.update((kind, resources[one.resource.id]) for kind, one in kinds.items())

    def find(self, api_version: str, kind: str) -> ServedResource | None:
        """None if this version of the kind is not served. Where two resources are of one kind, the one served first."""
        return _known(self._kinds).get((api_version, kind))

    def of_group(self, group: str, kind: str) -> Sequence[ServedResource]:
        """The resources of this kind, each in the version that the server prefers."""
        return _known(self._groups).get((group, kind), ())

    def find_former(self, api_version: str, kind: str) -> Resource | None:
        """What was of this kind when it was served for the last time, which may be now."""
        return self._ever.get((api_version, kind))

    def resource(self, resource_id: str) -> Resource | None:
        """By Resource.id; None if it is not served."""
        return _known(self._resources).get(resource_id)


def _known(found: Mapping[K, V] | None) -> Mapping[K, V]:
    if found is None:
        raise Retry("what is served is not known yet", after=FIRST_LOOK)
    return found
