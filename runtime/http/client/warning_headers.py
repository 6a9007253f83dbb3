"""Warning headers of responses (RFC 7234, 5.5), by which an API server warns about a request that it carries out.

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

    head: lines as received; of several heads, such as a proxy's and the server's, the last one is used. Malformed
        values are skipped, control characters become spaces.
    """
    lines = b"".join(head)
    if (
        b"arning:" not in lines and b"ARNING:" not in lines
    ):  # true of most responses: this check is cheaper than parsing
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
