"""The mapping from kinds to served resources, kept up to date by discovery; a RESTMapper in client-go.

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

FIRST_RETRY = 1.0  # seconds after a start until the kinds may be discovered


def _none(_served: ServedResource) -> bool:
    return False


def _no_keys(_resource: Resource, _change: Change, _tables: Tables) -> Iterable[Key]:
    return ()


KINDS_ALONE: Discovered[Key] = Discovered(select=_none, to=_no_keys)
"""A `discovers` of a spec that follows the served kinds without a table of any of them."""


class ServedKinds:
    """The served kinds and their resources. A reconciler with `discovers` in its spec forwards TablesChanged to it.

    Before the first TablesChanged, lookups raise Retry.
    """

    def __init__(self) -> None:
        self._kinds: Mapping[tuple[str, str], ServedResource] | None = None
        self._resources: Mapping[str, Resource] | None = None
        self._groups: Mapping[tuple[str, str], Sequence[ServedResource]] | None = None
        self._ever: dict[tuple[str, str], Resource] = {}

    def hear(self, message: Any) -> tuple[()]:
        """Handle a message as the on_message of a reconciler that discovers nothing else.

        Raises TypeError on other messages.
        """
        match message:
            case TablesChanged(served=served):
                self.follow(served)
            case Restarted():
                pass
            case _:
                raise TypeError(f"a reconciler that follows served kinds cannot handle {message!r}")
        return ()

    def follow(self, served: Iterable[ServedResource]) -> None:
        kinds: dict[tuple[str, str], ServedResource] = {}
        resources: dict[str, Resource] = {}
        groups: dict[tuple[str, str], list[ServedResource]] = {}
        for entry in served:
            resource = entry.resource
            resources[resource.id] = resource
            kinds.setdefault((resource.api_version, entry.kind), entry)
            of_kind = groups.setdefault((entry.group, entry.kind), [])
            if all(entry.plural != known.plural for known in of_kind):
                of_kind.append(entry)
        self._kinds, self._resources, self._groups = kinds, resources, groups
        self._ever.update((kind, resources[entry.resource.id]) for kind, entry in kinds.items())

    def find(self, api_version: str, kind: str) -> ServedResource | None:
        """Return the first resource of this kind; None if this version of the kind is not served."""
        return _known(self._kinds).get((api_version, kind))

    def of_group(self, group: str, kind: str) -> Sequence[ServedResource]:
        """Return the resources of this kind, each in the server's preferred version."""
        return _known(self._groups).get((group, kind), ())

    def find_former(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource that this kind has now, or had when it was last served."""
        return self._ever.get((api_version, kind))

    def resource(self, resource_id: str) -> Resource | None:
        """Return the resource with this Resource.id; None if it is not served."""
        return _known(self._resources).get(resource_id)


def _known(found: Mapping[K, V] | None) -> Mapping[K, V]:
    if found is None:
        raise Retry("discovery has not completed yet", after=FIRST_RETRY)
    return found
