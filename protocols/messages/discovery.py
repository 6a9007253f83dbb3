"""Messages about the resources of the API server: server → discovery → manager → controllers."""

from __future__ import annotations

from functools import lru_cache

from kcm.protocols.messages.message import Message
from kcm.protocols.resources import Resource


class ServedResource(Message, frozen=True, kw_only=True, tag=50):
    """A resource that the API server serves, in the version that the server prefers.

    verbs: of its collection.
    scale: the apiVersion of the Scale that its subresource `scale` returns, "" if there is no such subresource.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()
    scale: str = ""

    @property
    def resource(self) -> Resource:
        return _resource(self.group, self.version, self.plural, self.kind, self.namespaced)


@lru_cache(maxsize=1024)
def _resource(group: str, version: str, plural: str, kind: str, namespaced: bool) -> Resource:
    """Return the same Resource for each mention of it: its creation checks every field."""
    return Resource(group=group, version=version, plural=plural, kind=kind, namespaced=namespaced)


class DiscoveryAnswer(Message, frozen=True, tag=51):
    """Response to a discovery request. Transport → discovery.

    number: of the discovery round.
    status: as in Listed.
    unchanged: the body is that of the last response of this path, and is omitted here.
    """

    number: int
    path: str
    status: int
    body: bytes
    error: str = ""
    unchanged: bool = False


class Discover(Message, frozen=True, tag=52):
    """Send ResourcesDiscovered again, or as soon as the first discovery has finished. Manager → discovery."""


class ResourcesDiscovered(Message, frozen=True, tag=53):
    """All resources that the server serves. Discovery → manager, whenever they change.

    resources: each in the preferred version, if it can be watched.
    stalled: by group version, or "/api" or "/apis", the reason why it could not be discovered; `resources` contains
        what an earlier discovery found there.
    others: other versions, and resources that cannot be watched.
    """

    resources: tuple[ServedResource, ...]
    stalled: dict[str, str]
    others: tuple[ServedResource, ...] = ()


class RequestTables(Message, frozen=True, tag=54):
    """Subscribe to TablesChanged. Controller, when it starts → manager."""

    controller: str


class TablesChanged(Message, frozen=True, tag=55):
    """All tables of discovered resources for a controller. Manager → controller, whenever they change.

    resources: those that the controller's spec selects.
    metadata_only: the Resource.ids among them whose tables contain metadata only.
    served: everything that the server serves, in all versions, preferred versions first.
    """

    resources: tuple[ServedResource, ...]
    metadata_only: tuple[str, ...] = ()
    served: tuple[ServedResource, ...] = ()
