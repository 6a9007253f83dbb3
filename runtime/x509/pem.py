"""PEM parsing as in Go's encoding/pem: text between blocks and malformed blocks are skipped."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(rb"^-----(?P<what>BEGIN|END) (?P<type>[^\r\n]*?)-----[ \t]*\r?$\n?", re.MULTILINE)
_HEADER = re.compile(rb"[^\r\n]*:[^\r\n]*\r?\n")


class Block(NamedTuple):
    """One block of PEM."""

    # Such as "CERTIFICATE".
    type: str
    has_headers: bool
    # DER.
    data: bytes
    # The block as in the file.
    pem: bytes


def blocks(pem: bytes) -> Iterator[Block]:
    """Yield the blocks, in linear time: clients that request certificates choose these bytes."""
    begin = None
    for line in _LINE.finditer(pem):
        if line["what"] == b"BEGIN":
            begin = line  # the previous block has no end
            continue
        if begin is not None and begin["type"] == line["type"]:
            block = _block(begin["type"], pem[begin.end() : line.start()], pem[begin.start() : line.end()].rstrip())
            if block is not None:
                yield block
        begin = None


def _block(kind: bytes, body: bytes, pem: bytes) -> Block | None:
    start = 0
    while header := _HEADER.match(body, start):
        start = header.end()
    try:
        data = base64.b64decode(b"".join(body[start:].split()), validate=True)
    except ValueError:
        return None
    return Block(kind.decode(errors="replace"), start > 0, data, pem)


def first_block(pem: bytes) -> Block | None:
    return next(blocks(pem), None)
