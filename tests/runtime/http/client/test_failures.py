from __future__ import annotations

import errno

import pycurl
import pytest

from kcm.runtime.http.client.failures import Breakdown, describe, is_broken

SERVER = "https://api:6443"
EOF = "OpenSSL SSL_read: OpenSSL/3.6.5: error:0A000126:SSL routines::unexpected eof while reading, errno 0"


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        (pycurl.E_GOT_NOTHING, True),
        (pycurl.E_RECV_ERROR, True),
        (pycurl.E_SEND_ERROR, True),
        (pycurl.E_ABORTED_BY_CALLBACK, True),
        (pycurl.E_OPERATION_TIMEDOUT, False),
        (pycurl.E_PARTIAL_FILE, False),
        (pycurl.E_COULDNT_CONNECT, False),
        (pycurl.E_FTP_WEIRD_SERVER_REPLY, False),
    ],
)
def test_a_broken_connection_is_distinguished_from_a_slow_one(code: int, broken: bool) -> None:
    assert is_broken(Breakdown(code=code)) is broken


@pytest.mark.parametrize(
    ("breakdown", "status", "text"),
    [
        (Breakdown(code=pycurl.E_OPERATION_TIMEDOUT), 0, "no response from https://api:6443 in time"),
        (Breakdown(code=pycurl.E_GOT_NOTHING), 0, "https://api:6443 closed the connection before it responded"),
        (Breakdown(code=pycurl.E_ABORTED_BY_CALLBACK), 0, "https://api:6443 closed the connection before it responded"),
        (Breakdown(code=pycurl.E_PARTIAL_FILE), 200, "the response of https://api:6443 was cut off"),
        (Breakdown(code=pycurl.E_RECV_ERROR, text=EOF), 200, "the response of https://api:6443 was cut off"),
        (
            Breakdown(code=pycurl.E_RECV_ERROR, text=EOF),
            0,
            "https://api:6443 closed the connection before it responded",
        ),
        (
            Breakdown(code=pycurl.E_RECV_ERROR, errno=errno.ECONNRESET),
            0,
            "the connection to https://api:6443 broke: connection reset by peer",
        ),
        (
            Breakdown(code=pycurl.E_SEND_ERROR, text="odd\nthing"),
            0,
            "the connection to https://api:6443 broke: odd thing",
        ),
        (Breakdown(code=pycurl.E_SEND_ERROR), 0, "the connection to https://api:6443 broke: libcurl's error 55"),
        (
            Breakdown(code=pycurl.E_UNSUPPORTED_PROTOCOL, text="Received HTTP/0.9 when not allowed"),
            0,
            "https://api:6443 does not speak HTTP: Received HTTP/0.9 when not allowed",
        ),
    ],
)
def test_failure_of_a_sent_request_is_one_line_that_names_the_server(
    breakdown: Breakdown, status: int, text: str
) -> None:
    assert describe(breakdown, server=SERVER, proxy="", sent=True, status=status) == text


@pytest.mark.parametrize(
    ("breakdown", "proxy", "text"),
    [
        (Breakdown(code=pycurl.E_OPERATION_TIMEDOUT), "", "cannot connect to https://api:6443: timed out"),
        (
            Breakdown(code=pycurl.E_COULDNT_CONNECT, errno=errno.ECONNREFUSED),
            "",
            "cannot connect to https://api:6443: connection refused",
        ),
        (
            Breakdown(code=pycurl.E_COULDNT_CONNECT, errno=errno.ECONNREFUSED),
            "http://user:secret@proxy:3128",
            "cannot connect to the proxy proxy:3128: connection refused",
        ),
        (
            Breakdown(code=pycurl.E_COULDNT_CONNECT, proxy_status=407),
            "http://proxy:3128",
            "cannot connect to https://api:6443: the proxy returned 407 Proxy Authentication Required",
        ),
        (
            Breakdown(code=pycurl.E_RECV_ERROR, proxy_status=499),
            "http://proxy:3128",
            "cannot connect to https://api:6443: the proxy returned 499",
        ),
        (
            Breakdown(code=pycurl.E_PEER_FAILED_VERIFICATION, text="SSL certificate problem: certificate has expired"),
            "",
            "cannot connect to https://api:6443: certificate verify failed: certificate has expired",
        ),
    ],
)
def test_failed_connection_is_described_with_its_reason(breakdown: Breakdown, proxy: str, text: str) -> None:
    assert describe(breakdown, server=SERVER, proxy=proxy, sent=False, status=0) == text
