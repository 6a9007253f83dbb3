"""Which resource an owner reference names: what client-go calls a RESTMapper, kept by discovery.

Source: apimachinery pkg/api/meta/restmapper.go (RESTMapping).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.reconciliation import Retry
from protocols.messages.discovery import ServedResource

FIRST_LOOK = 1.0  # seconds until kinds may be known, after a start


class ServedKinds:
    """A reconciler with `discovers` in its spec hands it what each TablesChanged says is served."""

    def __init__(self) -> None:
        self._kinds: Mapping[tuple[str, str], ServedResource] | None = None

    def follow(self, served: Iterable[ServedResource]) -> None:
        kinds: dict[tuple[str, str], ServedResource] = {}
        for one in served:
            kinds.setdefault((one.resource.api_version, one.kind), one)
        self._kinds = kinds

    def find(self, api_version: str, kind: str) -> ServedResource | None:
        """None if this version of the kind is not served. Raises Retry before anything is known."""
        if self._kinds is None:
            raise Retry("what is served is not known yet", after=FIRST_LOOK)
        return self._kinds.get((api_version, kind))
