"""HTTPS server of webhooks: its bounds, errors, metrics, and a new certificate without a closed connection."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kcm.runtime.logs.standard_log import standard_log
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.serving import webhook_host
from kcm.runtime.serving.server import ServingError
from kcm.runtime.serving.webhook_host import HttpsWebhookHost
from kcm.runtime.serving.webhook_pages import REQUESTS, WebhookPage, WebhookResponse
from kcm.runtime.x509.certificates import new_key
from kcm.runtime.x509.key_rings import CertificateLives, KeyRing
from kcm.runtime.x509.rotation import next_ring


def ring() -> KeyRing:
    now = SystemClock().now()
    lives = CertificateLives()
    return next_ring(None, names=("127.0.0.1",), lives=lives, now=now, is_published=True, new_key=new_key).ring


RING = ring()


def echo(body: bytes) -> WebhookResponse:
    return WebhookResponse(200, body, "allowed")


class Served:
    def __init__(self) -> None:
        self.clock, self.metrics, self.gate = SystemClock(), Metrics(), threading.Event()
        pages = (WebhookPage("/echo", echo, 5.0), WebhookPage("/wait", self.wait, 0.2))
        self.host = HttpsWebhookHost(
            pages, address="127.0.0.1", port=0, clock=self.clock, log=standard_log("test"), metrics=self.metrics
        )
        self.host.serve(RING)

    def wait(self, body: bytes) -> WebhookResponse:
        self.gate.wait(30)
        return echo(body)

    def connect(self, authorities: bytes = RING.authorities) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cadata=authorities.decode())
        host, _, port = self.host.url.removeprefix("https://").partition(":")
        return http.client.HTTPSConnection(host, int(port), context=context, timeout=20)

    def post(self, path: str, body: bytes = b"{}", method: str = "POST") -> tuple[int, bytes]:
        connection = self.connect()
        try:
            return ask(connection, path, body, method)
        finally:
            connection.close()

    def close(self) -> None:
        self.gate.set()
        self.host.close()
        self.clock.close()


def ask(
    connection: http.client.HTTPConnection, path: str, body: bytes = b"{}", method: str = "POST"
) -> tuple[int, bytes]:
    connection.request(method, path, body)
    response = connection.getresponse()
    return response.status, response.read()


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    yield found
    found.close()


def test_a_review_is_passed_to_its_page(served: Served) -> None:
    assert served.post("/echo?timeout=5s", b'{"a":1}') == (200, b'{"a":1}')
    assert served.metrics.counter(REQUESTS, "/echo", "200").value == 1


@pytest.mark.parametrize(
    ("path", "method", "status", "reason"),
    [("/other", "POST", 404, "NotFound"), ("/echo", "GET", 405, "MethodNotAllowed")],
)
def test_other_requests_are_refused_with_a_status(
    served: Served, path: str, method: str, status: int, reason: str
) -> None:
    code, body = served.post(path, method=method)
    failure: dict[str, Any] = json.loads(body)
    assert (code, failure["kind"], failure["reason"], failure["code"]) == (status, "Status", reason, status)


def test_a_function_that_takes_too_long_is_a_504_and_delays_no_other(served: Served) -> None:
    code, body = served.post("/wait")
    assert code == 504
    assert "/wait did not return within 0.2 s" in json.loads(body)["message"]
    assert served.post("/echo")[0] == 200


def test_requests_beyond_the_limit_receive_a_429(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_host, "MOST_IN_FLIGHT", 0)
    assert served.post("/echo")[0] == 429


def test_a_body_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_host, "LARGEST_REVIEW", 1000)
    served = Served()
    try:
        code, body = served.post("/echo", b"x" * 1001)
        assert (code, json.loads(body)["reason"]) == (413, "RequestEntityTooLarge")
        assert served.post("/echo", b"x" * 1000)[0] == 200
    finally:
        served.close()


def test_a_new_certificate_is_used_by_new_connections_and_open_ones_continue(served: Served) -> None:
    before = served.connect()
    assert ask(before, "/echo")[0] == 200
    replacement = ring()
    served.host.serve(replacement)
    after = served.connect(replacement.authorities)
    assert ask(after, "/echo")[0] == 200
    assert ask(before, "/echo")[0] == 200
    before.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        served.post("/echo")
    after.close()


def test_a_taken_port_is_an_error_and_a_later_attempt_succeeds(served: Served) -> None:
    port = int(served.host.url.rpartition(":")[2])
    other = HttpsWebhookHost(
        (), address="127.0.0.1", port=port, clock=served.clock, log=standard_log("test"), metrics=Metrics()
    )
    with pytest.raises(ServingError, match=r"--webhook-port names another"):
        other.serve(RING)
    assert other.ring is None
    served.host.close()
    other.serve(RING)
    other.close()
