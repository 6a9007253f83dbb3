"""Failed attempts, and their description in one line."""

from __future__ import annotations

import os
import re
from http import HTTPStatus
from urllib.parse import urlsplit

import pycurl
from msgspec import Struct

TOO_LATE = "not sent: it may not begin any more"
# Prefixes of the reason in texts of libcurl.
BEFORE_REASON = re.compile(r"(SSL certificate problem|SSL certificate OpenSSL verify result|SSL): ")
CLOSED = frozenset({pycurl.E_GOT_NOTHING, pycurl.E_ABORTED_BY_CALLBACK})
BROKEN = CLOSED | {pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR}
NO_HTTP = frozenset({pycurl.E_UNSUPPORTED_PROTOCOL, pycurl.E_FTP_WEIRD_SERVER_REPLY})
END_OF_TLS = "unexpected eof"  # OpenSSL's text for a connection that is closed without TLS's close_notify
UNTRUSTED = frozenset({pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_ISSUER_ERROR})


class Breakdown(Struct, frozen=True, kw_only=True):
    """Reason that libcurl reports for an attempt without a complete response."""

    code: int
    text: str = ""
    # Of the operating system; 0 for none.
    errno: int = 0
    # Status of a proxy's response to CONNECT; 0 for none.
    proxy_status: int = 0
    # OpenSSL's result of verifying the server's certificate (X509_V_ERR_*); 0 for none.
    verify_result: int = 0


def is_broken(breakdown: Breakdown) -> bool:
    """Report whether the connection broke during the request, such as a kept connection that the server had closed."""
    return breakdown.code in BROKEN


def describe(breakdown: Breakdown, *, server: str, proxy: str, sent: bool, status: int) -> str:
    """Describe a failed attempt in one line.

    server, proxy: URLs; "" for no proxy.
    sent: whether the request was sent.
    status: status of the response whose head arrived; 0 for none.
    """
    code = breakdown.code
    if not sent:
        return _no_connection(breakdown, server=server, proxy=proxy)
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return f"no response from {server} in time"
    if code in NO_HTTP:
        return f"{server} does not speak HTTP: {_one_line(breakdown.text)}"
    is_closed = code in CLOSED or END_OF_TLS in breakdown.text
    if is_closed and not status:
        return f"{server} closed the connection before it responded"
    if is_closed or code == pycurl.E_PARTIAL_FILE:
        return f"the response of {server} was cut off"
    if code == pycurl.E_RECV_ERROR and status and not breakdown.errno:
        return f"{server} does not speak HTTP: {_one_line(breakdown.text)}"
    return f"the connection to {server} broke: {_reason(breakdown)}"


def _no_connection(breakdown: Breakdown, *, server: str, proxy: str) -> str:
    code = breakdown.code
    if breakdown.proxy_status >= 300:
        return f"cannot connect to {server}: the proxy returned {_with_phrase(breakdown.proxy_status)}"
    if proxy and code in (pycurl.E_COULDNT_CONNECT, pycurl.E_COULDNT_RESOLVE_PROXY):
        return f"cannot connect to the proxy {urlsplit(proxy).netloc.rpartition('@')[2]}: {_reason(breakdown)}"
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return f"cannot connect to {server}: timed out"
    if code in UNTRUSTED:
        reason = BEFORE_REASON.sub("", _one_line(breakdown.text), count=1)
        return f"cannot connect to {server}: certificate verify failed: {reason}"
    return f"cannot connect to {server}: {_reason(breakdown)}"


def _with_phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _reason(breakdown: Breakdown) -> str:
    if breakdown.errno > 0:
        return os.strerror(breakdown.errno).lower()
    return _one_line(breakdown.text) or f"libcurl's error {breakdown.code}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
