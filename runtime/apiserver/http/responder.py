"""Error responses, and the metrics of all responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcm.protocols.errors import clear_frames
from kcm.runtime.apiserver.access.refusals import NotAuthorizedError
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.http.api_request import ApiRequest
from kcm.runtime.apiserver.http.metrics import RequestMetrics
from kcm.runtime.apiserver.presentation.response_converter import ResponseConverter
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.client.api import Response
from kcm.runtime.http.server.request import NO_SNIFFING
from kcm.runtime.scheduling.clock import WallClock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class Responder:
    """Sender of error responses, and counter of all responses."""

    def __init__(
        self,
        api: ApiServer,
        responses: ResponseConverter,
        metrics: RequestMetrics,
        *,
        clock: WallClock,
        log: FilteringBoundLogger,
    ) -> None:
        self._api, self._responses, self._metrics, self._clock, self._log = api, responses, metrics, clock, log

    def count(self, request: ApiRequest, status: int) -> None:
        info = request.info
        # A path that is not served must not become a label: there can be any number of them. Routes are cached.
        if status >= 400 and (request.user is None or self._api.route(info) is None):
            info = RequestInfo(info.verb, is_resource_request=False)
        self._metrics.responded(
            info,
            dry_run="dryRun" in request.info.query,
            code=status,
            seconds=max(self._clock.now() - request.began, 0.0),
        )

    def refuse(self, request: ApiRequest, error: Exception) -> None:
        """Send an error response, and count it. Errors other than StatusError are logged, and sent as 500."""
        refusal = self.refusal(request, error)
        request.respond(self._responses.error(accept_of(request), refusal), whole=refusal, lines=refusal_lines(error))
        clear_frames(error)

    def refusal(self, request: ApiRequest, error: Exception) -> Response:
        """Return the error response to a request, and count it. Errors other than StatusError are logged."""
        if not isinstance(error, StatusError):
            path = request.target.decode(errors="replace")
            self._log.error("request failed", method=request.method, path=path, exc_info=error)
            error = status_errors.internal("see the server's log")
        refusal = error.response()
        self.count(request, refusal.status)
        return refusal


def refusal_lines(error: Exception) -> bytes:
    """Return header lines that only some error responses have: `X-Content-Type-Options: nosniff` for a 403."""
    return NO_SNIFFING if isinstance(error, NotAuthorizedError) else b""


def accept_of(request: ApiRequest) -> bytes:
    """Return the Accept header; b"" if the request has none."""
    return request.headers.get(b"accept", b"")
