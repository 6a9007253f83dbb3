"""Transport of a program that works on several clusters: one transport for each, chosen by the path of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from kcm.protocols.resources import split_path
from kcm.runtime.client.api import Breakable, Request, Response, Stream, Transport


class ClusterTransports:
    """Transports by the name of their cluster. A request for `/clusters/edge/api` goes to `edge` as `/api`.

    Nothing is shared between the clusters: a server that does not respond delays no request to another one. The
    dispatcher refuses commands for unknown clusters; informers use the transport of their cluster.
    """

    def __init__(self, transports: Mapping[str, Transport]) -> None:
        self._transports = dict(transports)

    @property
    def trouble(self) -> str | None:
        """Return why a transport is broken, see Breakable."""
        for cluster, transport in self._transports.items():
            trouble = transport.trouble if isinstance(transport, Breakable) else None
            if trouble is not None:
                return f"{cluster}: {trouble}"
        return None

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        transport, request = self._routed(request)
        transport.send(request, client=client, on_response=on_response)

    def watch(
        self,
        request: Request,
        *,
        client: str,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> Stream:
        transport, request = self._routed(request)
        return transport.watch(request, client=client, on_lines=on_lines, on_end=on_end)

    def _routed(self, request: Request) -> tuple[Transport, Request]:
        """Return the transport of a request, and the request as its server knows it. Raises KeyError."""
        cluster, path = split_path(request.path)
        return self._transports[cluster], replace(request, path=path)
