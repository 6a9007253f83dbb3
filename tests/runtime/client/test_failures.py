from __future__ import annotations

import ssl

import aiohttp
import pytest

from runtime.client.failures import describe, is_broken

SERVER = "https://api:6443"


@pytest.mark.parametrize(
    ("error", "broken"),
    [
        (aiohttp.ServerDisconnectedError(), True),
        (aiohttp.ClientOSError(104, "Connection reset by peer"), True),
        (aiohttp.ClientConnectionResetError("Cannot write to closing transport"), True),
        (ConnectionResetError(104, "Connection reset by peer"), True),
        (BrokenPipeError(32, "Broken pipe"), True),
        (aiohttp.ConnectionTimeoutError(), False),
        (aiohttp.SocketTimeoutError(), False),
        (TimeoutError(), False),
        (aiohttp.ClientPayloadError(), False),
        (aiohttp.InvalidURL("x"), False),
    ],
)
def test_a_broken_connection_is_distinguished_from_a_slow_one(error: Exception, broken: bool) -> None:
    assert is_broken(error) is broken


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (aiohttp.ConnectionTimeoutError(), "cannot connect to https://api:6443: timed out"),
        (TimeoutError(), "no response from https://api:6443 in time"),
        (aiohttp.ServerDisconnectedError(), "https://api:6443 closed the connection before it responded"),
        (aiohttp.ClientPayloadError("much\nmore"), "the response of https://api:6443 was cut off"),
        (aiohttp.ClientOSError(104, "x"), "the connection to https://api:6443 broke: connection reset by peer"),
        (OSError("no number\nat all"), "the connection to https://api:6443 broke: no number at all"),
        (
            ssl.SSLError(1, "[SSL: X] odd (_ssl.c:1)"),
            "the connection to https://api:6443 broke: [ssl: x] odd ( ssl.c:1)",
        ),
        (aiohttp.ClientError("odd\nthing"), "https://api:6443: ClientError: odd thing"),
    ],
)
def test_a_failure_is_one_line_that_names_the_server(error: Exception, text: str) -> None:
    assert describe(error, server=SERVER) == text
