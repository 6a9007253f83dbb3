"""Why there was no response, in one line for people."""

from __future__ import annotations

import asyncio
import os
import ssl

import aiohttp
from aiohttp.http import HttpProcessingError

from runtime.client.api import Response
from runtime.client.tls import reason

TOO_LATE = "not sent: it may not begin any more"


class TooLateError(Exception):
    """Its permit was over before the request went out."""


class Failure(Exception):
    """An exchange without a response. sent: whether the server may have seen the request."""

    def __init__(self, text: str, *, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent

    def response(self) -> Response:
        return Response(status=0, error=str(self), sent=self.sent)


def is_broken(err: BaseException) -> bool:
    """Whether the connection broke under the request: as a kept one does that the server has closed meanwhile."""
    return isinstance(err, aiohttp.ServerDisconnectedError | ConnectionError) or (
        isinstance(err, aiohttp.ClientOSError) and not isinstance(err, aiohttp.ClientConnectorError)
    )


def describe(err: BaseException, *, server: str) -> str:
    """server: the URL that was asked."""
    match err:
        case aiohttp.ClientHttpProxyError():
            return f"cannot connect to {server}: the proxy returned {err.status} {err.message}"
        case aiohttp.ClientProxyConnectionError():
            return f"cannot connect to the proxy {err.host}:{err.port}: {_os_reason(err.os_error)}"
        case aiohttp.ClientConnectorCertificateError():
            return f"cannot connect to {server}: {_os_reason(err.certificate_error)}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect to {server}: {_os_reason(err.os_error)}"
        case aiohttp.ConnectionTimeoutError():
            return f"cannot connect to {server}: timed out"
        case asyncio.TimeoutError():
            return f"no response from {server} in time"
        case aiohttp.ServerDisconnectedError():
            return f"{server} closed the connection before it responded"
        case aiohttp.ClientPayloadError():
            return f"the response of {server} was cut off"
        case OSError():
            return f"the connection to {server} broke: {_os_reason(err)}"
        case HttpProcessingError():
            return f"{server} does not speak HTTP: {_one_line(err.message)}"
    return f"{server}: {type(err).__name__}: {_one_line(str(err))}"


def _os_reason(err: BaseException) -> str:
    if isinstance(err, ssl.SSLError):
        return reason(err)
    if isinstance(err, OSError) and err.errno and err.errno > 0:
        return os.strerror(err.errno).lower()
    return _one_line(str(err)) or type(err).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())
