"""HTTP client for webhooks, with the error texts of Go's HTTP client, which users see.

Source: apiserver pkg/util/webhook/{client,authentication}.go, client-go rest/request.go (v1.36).
"""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from urllib.parse import urlsplit

import pycurl

from kcm.protocols.bounded_cache import bounded_cache
from kcm.runtime.apiserver.core.questions import Answer, Post
from kcm.runtime.http.client.attempts import HttpAttempt
from kcm.runtime.http.client.connections import Connections
from kcm.runtime.http.client.failures import CLOSED, UNTRUSTED, Breakdown
from kcm.runtime.http.client.tls import TlsMaterial
from kcm.runtime.scheduling.permits import Permit

MOST_OPEN = 256  # maximum number of open connections
# Minimum limit of a decompressed response, in bytes. The limit is higher for a large request.
LARGEST_RESPONSE = 8 * 1024 * 1024
HEADERS = (
    b"Accept: application/json",
    b"Accept-Encoding: gzip",  # as Go's client
    b"Content-Type: application/json",
    b"Expect:",
    b"User-Agent: kube-apiserver-admission",
)
_GZIP = 16 + zlib.MAX_WBITS
# OpenSSL's results of verifying a certificate.
_UNKNOWN_AUTHORITY = {18, 19, 20, 21}
_EXPIRED = 10
# libcurl compares names before it reads OpenSSL's result, which is then 1 (unspecified).
_OTHER_NAME = {0, 1, 62, 64}


class WebhookClient:
    """HTTP client for webhooks. Created and used on the event loop's thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._connections = Connections(now=self._loop.time, most_open=MOST_OPEN)

    async def post(self, question: Post) -> Answer:
        """Send a request, and return the response, or an error if there is none."""
        try:
            return await self._post(question)
        except (ValueError, ssl.SSLError) as err:
            return _failed(question, str(err))

    def close(self) -> None:
        self._connections.close()

    async def _post(self, question: Post) -> Answer:
        permit = Permit(self._loop.time() + question.seconds)
        attempt = await self._attempt(question, permit, fresh=False)
        if _found_closed(attempt) and not permit.is_over(self._loop.time()):
            # Other kept connections may be closed as well, after a restart of the webhook's server.
            attempt = await self._attempt(question, permit, fresh=True)
        if attempt.is_too_large:
            raise _too_large(attempt.largest)
        if attempt.breakdown is not None:
            parts = urlsplit(question.url)
            host, port = question.address or (parts.hostname or "", parts.port or 443)
            return _failed(question, _error(attempt.breakdown, host, port))
        return Answer(attempt.status, _decompressed(attempt, attempt.largest))

    async def _attempt(self, question: Post, permit: Permit, *, fresh: bool) -> HttpAttempt:
        """Send the request once, and return the attempt when it has ended. fresh: over a new connection."""
        now, done = self._loop.time(), self._loop.create_future()

        def end(_attempt: HttpAttempt) -> None:
            if not done.done():  # not cancelled
                done.set_result(None)

        parts = urlsplit(question.url)
        attempt = HttpAttempt(
            "POST",
            question.url,
            headers=[*HEADERS, f"Host: {parts.netloc}".encode()],
            body=question.body,
            tls=_tls_material(question.authority),
            permit=permit,
            on_end=end,
            fresh=fresh,
            connect_to=_connect_to(question, parts.hostname or "", parts.port or 443),
            # A conversion webhook returns about as many bytes as it receives.
            largest=max(LARGEST_RESPONSE, 4 * len(question.body)),
        )
        self._connections.begin(attempt, now)
        try:
            await done
        except asyncio.CancelledError:
            self._connections.cut(attempt)
            raise
        return attempt


def _found_closed(attempt: HttpAttempt) -> bool:
    """Report whether the request was sent over a kept connection that the server had closed: nothing was received.

    libcurl then begins to send the request again, and the attempt does not permit that. As Go's client, which sees such
    an end earlier: it reads from idle connections. A server that closes a new connection has its request once.
    """
    breakdown = attempt.breakdown
    return (
        breakdown is not None
        and breakdown.code == pycurl.E_ABORTED_BY_CALLBACK
        and attempt.sent
        and attempt.status == 0
    )


def _failed(question: Post, why: str) -> Answer:
    return Answer(error=f'Post "{question.url}": {why}')


def _connect_to(question: Post, host: str, port: int) -> str:
    """Return libcurl's option CONNECT_TO for a webhook behind a Service; "" for other URLs.

    The host in the URL of such a webhook is only used to verify its certificate.
    """
    if question.address is None:
        return ""
    address, other_port = question.address
    return f"{host}:{port}:{f'[{address}]' if ':' in address else address}:{other_port}"


@bounded_cache(64, longest=512 * 1024)
def _tls_material(authority: bytes) -> TlsMaterial:
    """Return the TLS options for a caBundle; b"" for the system's CAs.

    Raises ValueError or ssl.SSLError if the bundle is malformed.
    """
    if authority:
        # libcurl would only report that the bundle is malformed, not why.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authority.decode("ascii"))
    return TlsMaterial(verify=True, authority=authority)


def _decompressed(attempt: HttpAttempt, largest: int) -> bytes:
    """Return the decompressed body of a response. Raises ValueError if its gzip is malformed, or if it is too large.

    largest: maximum number of bytes
    """
    if not _is_gzip(attempt.head):
        return attempt.received
    unpacker = zlib.decompressobj(wbits=_GZIP)
    try:
        body = unpacker.decompress(attempt.received, largest + 1)
    except zlib.error as err:
        raise ValueError(f"gzip: {err}") from err
    if len(body) > largest:
        raise _too_large(largest)
    if not unpacker.eof:
        raise ValueError("unexpected EOF")
    return body


def _is_gzip(head: tuple[bytes, ...]) -> bool:
    fields = (line.partition(b":") for line in head)
    return any(name.lower() == b"content-encoding" and value.strip().lower() == b"gzip" for name, _, value in fields)


def _too_large(largest: int) -> ValueError:
    return ValueError(f"the response is larger than {largest} bytes")


def _error(breakdown: Breakdown, host: str, port: int) -> str:
    """Return the error text of Go's client for a failed request. host, port: address of the connection."""
    code = breakdown.code
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return "context deadline exceeded"
    if code in UNTRUSTED:
        return f"tls: failed to verify certificate: x509: {_certificate_error(breakdown)}"
    if code == pycurl.E_COULDNT_RESOLVE_HOST:
        return f"dial tcp: lookup {host}: no such host"
    if code == pycurl.E_COULDNT_CONNECT:
        why = os.strerror(breakdown.errno) if breakdown.errno else breakdown.text
        return f"dial tcp {host}:{port}: connect: {why.lower()}"
    if code in CLOSED:
        return "EOF"
    return " ".join(breakdown.text.split()) or f"libcurl's error {code}"


def _certificate_error(breakdown: Breakdown) -> str:
    result = breakdown.verify_result
    if result in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if result == _EXPIRED:
        return "certificate has expired or is not yet valid"
    if result in _OTHER_NAME:
        return "certificate is not valid for the requested host name"
    return " ".join(breakdown.text.split())
