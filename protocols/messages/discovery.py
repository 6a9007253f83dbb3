"""The conversation about which resources there are: server → discovery → manager → controllers."""

from __future__ import annotations

from msgspec import Struct

from kcm.protocols.resources import Resource


class ServedResource(Struct, frozen=True, kw_only=True):
    """A resource that the API server serves, in the version that it prefers. verbs: those of its collection.

    scale: the apiVersion of the Scale that its subresource `scale` returns, "" if it has none.
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
        return Resource(
            group=self.group, version=self.version, plural=self.plural, kind=self.kind, namespaced=self.namespaced
        )


class DiscoveryAnswer(Struct, frozen=True):
    """Response to a discovery request. Transport → discovery. number: of the discovery round. status: as in Listed."""

    number: int
    path: str
    status: int
    body: bytes
    error: str = ""


class Discover(Struct, frozen=True):
    """Send ResourcesDiscovered again, as soon as anything is known. Manager → discovery."""


class ResourcesDiscovered(Struct, frozen=True):
    """All resources that there are. Discovery → manager, whenever that changes.

    stalled: by group version, or "/api" or "/apis", why it could not be discovered; of these, `resources` has what was
    known before. others: what is served besides: further versions, and what cannot be watched.
    """

    resources: tuple[ServedResource, ...]
    stalled: dict[str, str]
    others: tuple[ServedResource, ...] = ()


class RequestTables(Struct, frozen=True):
    """Send me TablesChanged. Controller, when it starts → manager."""

    controller: str


class TablesChanged(Struct, frozen=True):
    """All tables of discovered resources that there are for a controller. Manager → controller, whenever that changes.

    resources: those that its spec selects. metadata_only: the Resource.ids among them whose tables hold metadata only.
    served: everything that the server serves, in all versions, those that it prefers first.
    """

    resources: tuple[ServedResource, ...]
    metadata_only: tuple[str, ...] = ()
    served: tuple[ServedResource, ...] = ()
