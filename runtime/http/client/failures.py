"""Why there was no response, in one line for people."""

from __future__ import annotations

import os
import re
from http import HTTPStatus
from urllib.parse import urlsplit

import pycurl

from kcm.protocols.late_methods import dataclass

TOO_LATE = "not sent: it may not begin any more"
# What libcurl puts before the reason.
BEFORE_REASON = re.compile(r"(SSL certificate problem|SSL certificate OpenSSL verify result|SSL): ")
CLOSED = frozenset({pycurl.E_GOT_NOTHING, pycurl.E_ABORTED_BY_CALLBACK})
BROKEN = CLOSED | {pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR}
NO_HTTP = frozenset({pycurl.E_UNSUPPORTED_PROTOCOL, pycurl.E_FTP_WEIRD_SERVER_REPLY})
END_OF_TLS = "unexpected eof"  # OpenSSL's words: the connection was closed without TLS's own farewell
UNTRUSTED = frozenset({pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_ISSUER_ERROR})


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """libcurl's description of an attempt without a complete response."""

    code: int
    text: str = ""
    # Of the operating system; 0 for none.
    errno: int = 0
    # Status of a proxy's response to CONNECT; 0 for none.
    proxy_status: int = 0
    # OpenSSL's result of verifying the server's certificate (X509_V_ERR_*); 0 for none.
    verify_result: int = 0
