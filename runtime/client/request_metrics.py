"""Metrics of requests, as in client-go.

Follows kubernetes v1.36 client-go/rest/request.go (updateRequestResultMetric, the observations in request and Do).
"""

from __future__ import annotations

from kcm.runtime.metrics.families import (
    REST_CLIENT_REQUEST_DURATION,
    REST_CLIENT_REQUEST_SIZE,
    REST_CLIENT_REQUESTS,
    REST_CLIENT_RESPONSE_SIZE,
    REST_CLIENT_RETRIES,
)
from kcm.runtime.metrics.registry import Counter, Histogram, Metrics

NO_RESPONSE = "<error>"  # instead of a code, as in client-go


class ClientMetrics:
    """Metrics of requests to one server. host: as in the URL, with the port. Used on one thread."""

    def __init__(self, metrics: Metrics, *, host: str) -> None:
        self._metrics, self._host = metrics, host
        # Series by method and status, so that each request needs one lookup.
        self._attempts: dict[tuple[str, int], Counter] = {}
        self._verbs: dict[str, tuple[Histogram, Histogram, Histogram]] = {}

    def attempted(self, method: str, status: int) -> None:
        """Count an attempt. status: 0 for no response."""
        attempts = self._attempts.get((method, status))
        if attempts is None:
            attempts = self._metrics.counter(REST_CLIENT_REQUESTS, _code(status), method, self._host)
            self._attempts[method, status] = attempts
        attempts.inc()

    def retried(self, method: str, status: int) -> None:
        """Count a retry."""
        self._metrics.counter(REST_CLIENT_RETRIES, _code(status), method, self._host).inc()

    def finished(self, method: str, *, seconds: float, sent: int, received: int) -> None:
        """Observe a finished request.

        seconds: duration, including retries.
        sent, received: bytes of the bodies; 0 is not observed.
        """
        verb = self._verbs.get(method)
        if verb is None:
            families = REST_CLIENT_REQUEST_DURATION, REST_CLIENT_REQUEST_SIZE, REST_CLIENT_RESPONSE_SIZE
            durations, requests, responses = (
                self._metrics.histogram(family, method, self._host) for family in families
            )
            verb = self._verbs[method] = (durations, requests, responses)
        durations, requests, responses = verb
        durations.observe(seconds)
        if sent:
            requests.observe(sent)
        if received:
            responses.observe(received)


def _code(status: int) -> str:
    return str(status) if status else NO_RESPONSE
