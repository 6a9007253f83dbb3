"""Simulated servers of webhooks: the API server calls the functions in its process, on virtual time and with faults.

Certificates are checked as a TLS client does, so that a rotation that goes wrong fails in the simulation as well. A
mutating function is called a second time with its own result, because the API server may do the same.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import orjson

from kcm.runtime.apiserver.core.questions import Answer, CallWebhook, Post, Question, call_no_webhook
from kcm.runtime.apiserver.schema.patches import apply_json_patch
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.serving.webhook_pages import WebhookMeter, WebhookPage, WebhookResponse, failure
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.guard import guarded
from kcm.runtime.simulation.keys import private_key
from kcm.runtime.simulation.side_threads import SideThread
from kcm.runtime.x509.key_rings import KeyRing

HOST = "webhooks.simulated"  # of the URL of all webhooks of simulated processes
URL = f"https://{HOST}"
_REFUSED = "dial tcp 192.0.2.1:443: connect: connection refused"
_LATE = "context deadline exceeded"


class NotIdempotentError(AssertionError):
    """A mutating function changes its own result again. It is a bug of the function, so the run ends."""


class SimulatedWebhooks:
    """Servers of all processes behind one address, and the API server's client.

    otherwise: calls other webhooks; by default their calls fail
    injector: injects faults; None for none
    called: (virtual time, process, path) of all calls that reached a server
    """

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.otherwise: CallWebhook = call_no_webhook
        self.injector: Injector | None = None
        self.called: list[tuple[float, str, str]] = []
        self._hosts: list[SimulatedWebhookHost] = []
        self._turn = 0
        self._late: set[Question] = set()  # calls whose response comes after their timeout
        self._numbers = itertools.count()

    def host(
        self, process: str, thread: SideThread, pages: Iterable[WebhookPage], metrics: Metrics
    ) -> SimulatedWebhookHost:
        """Return the server of one process. thread: ends with the process."""
        return SimulatedWebhookHost(self, process, thread, pages, metrics)

    def add(self, host: SimulatedWebhookHost) -> None:
        if host not in self._hosts:
            self._hosts.append(host)

    def remove(self, host: SimulatedWebhookHost) -> None:
        if host in self._hosts:
            self._hosts.remove(host)

    def new_key(self) -> Any:
        """Return a private key that is different from all earlier ones, and the same in each run of a seed."""
        return private_key(f"webhooks {next(self._numbers)}")

    def delay(self, question: Question) -> float:
        """Return the additional seconds until the response to a question, by the fault WEBHOOK_SLOW."""
        if not isinstance(question, Post) or not self._is_ours(question):
            return 0.0
        slow = self._strike(FaultKind.WEBHOOK_SLOW, question)
        if slow is None:
            return 0.0
        if slow.seconds >= question.seconds:
            self._late.add(question)
        return min(slow.seconds, question.seconds)

    def call(self, question: Question) -> Answer:
        """Return the response to a question, as the API server's client returns it."""
        if not isinstance(question, Post) or not self._is_ours(question):
            return self.otherwise(question)
        is_late = question in self._late
        self._late.discard(question)
        self._hosts = [host for host in self._hosts if host.is_alive]
        if not self._hosts or self._strike(FaultKind.WEBHOOK_DOWN, question) is not None:
            return _failed(question, _REFUSED)
        host = self._hosts[self._turn % len(self._hosts)]
        self._turn += 1
        problem = self._tls_problem(host, question)
        if problem:
            return _failed(question, f"tls: failed to verify certificate: x509: {problem}")
        answered = self._strike(FaultKind.WEBHOOK_ANSWERED, question)
        if answered is not None:
            return Answer(answered.status, b"injected by a fault")
        path = urlsplit(question.url).path
        self.called.append((self.clock.monotonic(), host.process, path))
        response = host.respond(path, question.body)
        return _failed(question, _LATE) if is_late else Answer(response.status, response.body)

    def _is_ours(self, question: Post) -> bool:
        return urlsplit(question.url).hostname == HOST

    def _tls_problem(self, host: SimulatedWebhookHost, question: Post) -> str:
        from kcm.runtime.x509.rotation import is_trusted  # heavy: cryptography

        certificate = host.ring.certificate if host.ring is not None else b""
        expired = self._strike(FaultKind.WEBHOOK_EXPIRED, question)
        if expired is not None:
            return "certificate has expired or is not yet valid"
        return is_trusted(certificate, question.authority, host=HOST, now=self.clock.now())

    def _strike(self, kind: FaultKind, question: Post) -> Fault | None:
        if self.injector is None:
            return None
        return self.injector.strike(kind, resource=urlsplit(question.url).path, at=question)


class SimulatedWebhookHost:
    """Implementation of kcm.runtime.serving.webhook_pages.WebhookHost in a simulated process."""

    def __init__(
        self,
        webhooks: SimulatedWebhooks,
        process: str,
        thread: SideThread,
        pages: Iterable[WebhookPage],
        metrics: Metrics,
    ) -> None:
        self.process, self.ring = process, None
        self._webhooks, self._thread = webhooks, thread
        self._pages = {page.path: page for page in pages}
        self._meter = WebhookMeter(metrics, self._pages, clock=thread.clock)

    ring: KeyRing | None

    @property
    def is_alive(self) -> bool:
        return not self._thread.stopped

    def serve(self, ring: KeyRing) -> None:
        self.ring = ring
        self._webhooks.add(self)

    def new_key(self) -> Any:
        return self._webhooks.new_key()

    def close(self) -> None:
        self._webhooks.remove(self)

    def respond(self, path: str, body: bytes) -> WebhookResponse:
        page = self._pages.get(path)
        if page is None:
            return failure(404, f"there is no webhook {path!r}")
        began = self._meter.begin(path)
        with guarded():
            response = page.respond(body)
        self._meter.end(path, began, response)
        if path.startswith("/mutate/"):
            _check_idempotence(page, body, response)
        return response


def _check_idempotence(page: WebhookPage, body: bytes, response: WebhookResponse) -> None:
    """Call a mutating function with its own result. Raises NotIdempotentError if it changes that again."""
    patch = _patch_in(response)
    if not patch:
        return
    review = orjson.loads(body)
    review["request"]["object"] = apply_json_patch(review["request"]["object"], patch)
    with guarded():
        again = _patch_in(page.respond(orjson.dumps(review)))
    if again:
        raise NotIdempotentError(
            f"{page.path} changes its own result again, but a mutating function must be idempotent: {again!r:.500}"
        )


def _patch_in(response: WebhookResponse) -> list[Any]:
    if response.status != 200:
        return []
    patch = orjson.loads(response.body)["response"].get("patch")
    operations: list[Any] = orjson.loads(base64.b64decode(patch)) if patch else []
    return operations


def _failed(question: Post, why: str) -> Answer:
    return Answer(error=f'Post "{question.url}": {why}')
