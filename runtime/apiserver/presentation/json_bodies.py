"""JSON response bodies as kube-apiserver writes them: HTML-escaped, and followed by a newline or indented.

Source: apimachinery pkg/runtime/serializer/json/json.go, apiserver pkg/endpoints/handlers/negotiation/negotiate.go,
isPrettyPrint (v1.36).
"""

from __future__ import annotations

import re

import orjson

# Maximum size of an indented body in bytes; indenting a larger one would block other requests.
LARGEST_INDENTED = 1024 * 1024
_PRETTY = re.compile(rb"[?&]pretty=([^&]*)")
_YES = (b"1", b"t", b"T", b"TRUE", b"true", b"True")
_INDENTED_CLIENTS = (b"curl", b"Wget", b"Mozilla/5.0")  # prefixes of User-Agent


def wants_indented(target: bytes, user_agent: bytes) -> bool:
    """Report whether to indent the body: as ?pretty requests, otherwise if the client is curl, Wget or a browser.

    target: path and query of the request
    """
    if b"pretty" in target:
        requested = _PRETTY.search(target)
        if requested is not None and requested[1]:
            return requested[1] in _YES
    return user_agent.startswith(_INDENTED_CLIENTS)


def encoded(body: bytes, target: bytes, user_agent: bytes) -> bytes:
    """Return the JSON body as it is sent: escaped, and followed by a newline, or indented if wants_indented.

    target: path and query of the request
    user_agent: value of its User-Agent header
    """
    if b"pretty" in target or user_agent.startswith(_INDENTED_CLIENTS):
        if wants_indented(target, user_agent) and len(body) <= LARGEST_INDENTED:
            return escaped(orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2))
    return (escaped(body) if b"<" in body or b">" in body or b"&" in body else body) + b"\n"


def escaped(body: bytes) -> bytes:
    """Escape <, > and & in a JSON body as Go does. In valid JSON these characters occur in strings only."""
    return body.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
