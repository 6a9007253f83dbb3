"""Warning headers of responses (RFC 7234, 5.5): what an API server remarks about a request that it carries out.

Source: k8s.io/apimachinery/pkg/util/net/http.go, ParseWarningHeaders (v1.36): only code 299 is shown to people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_WARNINGS = 32  # of one response
MOST_BYTES = 8192  # of one header
MOST_CHARACTERS = 1000  # of one warning; kube-apiserver sends 256 at most where it sends several

_STATUS_LINE = re.compile(rb"^HTTP/", re.MULTILINE)
_HEADER = re.compile(rb"^warning:(.*)$", re.IGNORECASE | re.MULTILINE)
_VALUE = re.compile(r'\s*(\d{3}) +[^\s"]+ +"((?:[^"\\]|\\.)*)"(?: +"[^"]*")?\s*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")


def warnings_of(head: Iterable[bytes]) -> tuple[str, ...]:
    """Return the texts of all warnings with code 299, in order, without repetitions.

    head: lines as they came; of several heads, as with a proxy in between, the last one counts. Malformed values are
    skipped, control characters become spaces.
    """
    lines = b"".join(head)
    if b"arning:" not in lines and b"ARNING:" not in lines:  # as nearly all: no call, since every response comes here
        return ()
    heads = [start.start() for start in _STATUS_LINE.finditer(lines)]
    found: dict[str, None] = {}
    for value in _HEADER.findall(lines, heads[-1] if heads else 0):
        for code, quoted in _VALUE.findall(value[:MOST_BYTES].decode("utf-8", "replace")):
            text = _ESCAPED.sub(r"\1", quoted)[:MOST_CHARACTERS]
            text = "".join(character if character.isprintable() else " " for character in text).strip()
            if code == "299" and text:
                found[text] = None
            if len(found) == MOST_WARNINGS:
                return tuple(found)
    return tuple(found)
