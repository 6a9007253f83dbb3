"""Mapping from kinds to the resources that the API server serves, updated by discovery; a RESTMapper in client-go.

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

T = TypeVar("T")

DISCOVERY_RETRY = 1.0  # seconds until a lookup that came before the first discovery is retried


def _selects_nothing(_served: ServedResource) -> bool:
    return False


def _no_keys(_resource: Resource, _change: Change, _tables: Tables) -> Iterable[Key]:
    return ()


KINDS_ONLY: Discovered[Key] = Discovered(select=_selects_nothing, to=_no_keys)
"""Value of ControllerSpec.discovers for a controller that needs the served kinds, but no tables of their objects."""


class ServedKinds:
    """Mapping from kinds to served resources, and back.

    It is updated from the message TablesChanged, which a reconciler receives if its spec has `discovers`. Lookups
    before the first message raise Retry.
    """

    def __init__(self) -> None:
        self._served: Sequence[ServedResource] | None = None
        self._kinds: Mapping[tuple[str, str], ServedResource] | None = None
        self._resources: Mapping[str, Resource] | None = None
        self._groups: Mapping[tuple[str, str], Sequence[ServedResource]] | None = None
        self._ever_served: dict[tuple[str, str], Resource] = {}  # also kinds that are not served any more

    def on_message(self, message: Any) -> tuple[()]:
        """Update the mapping from a message; usable as `on_message` of a reconciler.

        Returns no keys to enqueue. Raises TypeError for messages other than TablesChanged and Restarted.
        """
        match message:
            case TablesChanged(served=served):
                self.update_served(served)
            case Restarted():
                pass
            case _:
                raise TypeError(f"a reconciler that follows served kinds cannot handle {message!r}")
        return ()

    def update_served(self, served: Iterable[ServedResource]) -> None:
        kinds: dict[tuple[str, str], ServedResource] = {}
        resources: dict[str, Resource] = {}
        groups: dict[tuple[str, str], list[ServedResource]] = {}
        self._served = tuple(served)
        for entry in self._served:
            resource = entry.resource
            resources[resource.id] = resource
            kinds.setdefault((resource.api_version, entry.kind), entry)
            of_kind = groups.setdefault((entry.group, entry.kind), [])
            if all(entry.plural != known.plural for known in of_kind):
                of_kind.append(entry)
        self._kinds, self._resources, self._groups = kinds, resources, groups
        self._ever_served.update((kind, resources[entry.resource.id]) for kind, entry in kinds.items())

    def served(self) -> Sequence[ServedResource]:
        """Return all served resources, in discovery's order."""
        return _known(self._served)

    def find(self, api_version: str, kind: str) -> ServedResource | None:
        """Return the resource with this apiVersion and kind; None if it is not served.

        If several resources have the kind, this is the first in discovery's order.
        """
        return _known(self._kinds).get((api_version, kind))

    def of_group(self, group: str, kind: str) -> Sequence[ServedResource]:
        """Return the resources of an API group that have this kind, each in the server's preferred version."""
        return _known(self._groups).get((group, kind), ())

    def find_former(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource with this apiVersion and kind, even if it is not served any more.

        None if it was never served since the start.
        """
        return self._ever_served.get((api_version, kind))

    def resource(self, resource_id: str) -> Resource | None:
        """Return the resource with this Resource.id; None if it is not served."""
        return _known(self._resources).get(resource_id)


def _known(found: T | None) -> T:
    if found is None:
        raise Retry("discovery has not completed yet", after=DISCOVERY_RETRY)
    return found
