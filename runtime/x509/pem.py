"""PEM, as Go's encoding/pem reads it: blocks with anything between them; what is no block is passed over."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import NamedTuple

_BLOCK = re.compile(
    rb"^-----BEGIN (?P<type>[^\r\n]*?)-----[ \t]*\r?\n(?P<body>.*?)^-----END (?P=type)-----[ \t]*\r?$",
    re.DOTALL | re.MULTILINE,
)
_HEADER = re.compile(rb"[^\r\n]*:[^\r\n]*\r?\n")


class Block(NamedTuple):
    """type: as in "CERTIFICATE". data: DER. pem: the block as it stands in its file."""

    type: str
    has_headers: bool
    data: bytes
    pem: bytes


def blocks(pem: bytes) -> Iterator[Block]:
    for found in _BLOCK.finditer(pem):
        body, start = found["body"], 0
        while header := _HEADER.match(body, start):
            start = header.end()
        try:
            data = base64.b64decode(b"".join(body[start:].split()), validate=True)
        except ValueError:
            continue
        yield Block(found["type"].decode(errors="replace"), start > 0, data, found[0])


def first_block(pem: bytes) -> Block | None:
    return next(blocks(pem), None)
