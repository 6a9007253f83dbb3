"""Pages of a webhook server, and the interface of the server that actors use; webhook_host.py is the HTTPS server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import orjson
from msgspec import Struct

from kcm.runtime.metrics.registry import Family, Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.x509.key_rings import KeyRing

# Names and texts of controller-runtime (pkg/webhook/internal/metrics), whose dashboards and alerts then work.
REQUESTS = Family(
    name="controller_runtime_webhook_requests_total",
    kind="counter",
    help="Total number of admission requests by HTTP status code.",
    labels=("webhook", "code"),
)
LATENCY = Family(
    name="controller_runtime_webhook_latency_seconds",
    kind="histogram",
    help="Histogram of the latency of processing admission requests",
    labels=("webhook",),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
IN_FLIGHT = Family(
    name="controller_runtime_webhook_requests_in_flight",
    kind="gauge",
    help="Current number of admission requests being served.",
    labels=("webhook",),
)
RESULTS = Family(
    name="kcm_webhook_results_total",
    kind="counter",
    help="Number of requests to webhooks by result: allowed, denied, converted, error or refused.",
    labels=("webhook", "result"),
)
CERTIFICATE_END = Family(
    name="kcm_webhook_certificate_expiration_timestamp_seconds",
    kind="gauge",
    help="Unix time at which the serving certificate of the webhooks expires.",
)
ALLOWED, DENIED, CONVERTED, ERROR, REFUSED = "allowed", "denied", "converted", "error", "refused"
_REASONS = {400: "BadRequest", 404: "NotFound", 405: "MethodNotAllowed", 413: "RequestEntityTooLarge"}
_REASONS |= {429: "TooManyRequests", 504: "Timeout"}


class WebhookResponse(Struct, frozen=True):
    """HTTP response to a review. result: for metrics."""

    status: int
    body: bytes
    result: str


Respond = Callable[[bytes], WebhookResponse]
"""Returns the response to the body of a review. Called on any thread, and raises no Exception."""


class WebhookPage(Struct, frozen=True):
    """Page of a webhook. seconds: after which the response is an error, as the API server no longer waits for it."""

    path: str
    respond: Respond
    seconds: float


class WebhookHost(Protocol):
    """Server of the pages of this process. It outlives the actor that gives it certificates."""

    @property
    def ring(self) -> KeyRing | None:
        """Return the certificates that are served; None before the first."""

    def serve(self, ring: KeyRing) -> None:
        """Serve with these certificates: start, or use them for new connections.

        Raises ServingError if the port cannot be opened, TlsError for invalid certificates.
        """

    def new_key(self) -> Any:
        """Return a new private key of cryptography's."""

    def close(self) -> None:
        """Stop serving."""


def failure(status: int, message: str) -> WebhookResponse:
    """Return an HTTP error, whose message the API server shows to the user. With it the failurePolicy applies."""
    reason = _REASONS.get(status, "InternalError" if status >= 500 else "BadRequest")
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason}
    return WebhookResponse(status, orjson.dumps({**body, "code": status}), ERROR if status >= 500 else REFUSED)


class WebhookMeter:
    """Metrics of the requests to webhooks. Used on one thread."""

    def __init__(self, metrics: Metrics, pages: Mapping[str, WebhookPage], *, clock: Clock) -> None:
        """Prepare the series of all pages, by path."""
        self._metrics, self._clock = metrics, clock
        self._latency = {path: metrics.histogram(LATENCY, path) for path in pages}
        self._in_flight = {path: metrics.gauge(IN_FLIGHT, path) for path in pages}

    def begin(self, path: str) -> float:
        """Count a request that begins, and return the time."""
        self._in_flight[path].inc()
        return self._clock.monotonic()

    def end(self, path: str, began: float, response: WebhookResponse) -> None:
        self._in_flight[path].inc(-1.0)
        self._latency[path].observe(self._clock.monotonic() - began)
        self.count(path, response)

    def count(self, path: str, response: WebhookResponse) -> None:
        """Count a response to a request that was not passed on to its page."""
        self._metrics.counter(REQUESTS, path, str(response.status)).inc()
        self._metrics.counter(RESULTS, path, response.result).inc()
