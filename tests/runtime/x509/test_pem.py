"""PEM blocks, compared with the results of Go's encoding/pem."""

from __future__ import annotations

import base64

import pytest

from kcm.runtime.x509.pem import blocks, first_block


def block(kind: str, data: bytes = b"der", headers: str = "") -> str:
    return f"-----BEGIN {kind}-----\n{headers}{base64.b64encode(data).decode()}\n-----END {kind}-----\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("no block", []),
        (block("A"), [("A", False, b"der")]),
        (f"before\n{block('A')}between\n{block('B', b'x')}after", [("A", False, b"der"), ("B", False, b"x")]),
        (block("A", headers="Proc-Type: 4,ENCRYPTED\nDEK-Info: x\n\n"), [("A", True, b"der")]),
        (block("A").replace("\n", "\r\n"), [("A", False, b"der")]),
        ("-----BEGIN A-----\n%%%\n-----END A-----\n" + block("B"), [("B", False, b"der")]),
        ("-----BEGIN A-----\nZGVy\n-----END B-----\n", []),
        ("-----BEGIN A-----\nZGVy\n-----END B-----\nZGVy\n-----END A-----\n", []),
        ("-----BEGIN A-----\nZGVy\n" + block("A", b"x"), [("A", False, b"x")]),
        ("-----END A-----\n" + block("A"), [("A", False, b"der")]),
        ("-----BEGIN A-----\n-----END A-----", [("A", False, b"")]),
    ],
)
def test_blocks_are_found_between_other_text(text: str, found: list[tuple[str, bool, bytes]]) -> None:
    assert [(block.type, block.has_headers, block.data) for block in blocks(text.encode())] == found


def test_first_block_of_a_kind_is_returned() -> None:
    found = first_block(block("A").encode())
    assert found is not None
    assert found.pem == block("A").strip().encode()
    assert first_block(b"") is None


@pytest.mark.timeout(20)
def test_million_bytes_of_unfinished_blocks_parse_in_linear_time() -> None:
    many = b"-----BEGIN CERTIFICATE REQUEST-----\n" * 30_000
    found = list(blocks(many + block("A").encode()))
    assert [block.type for block in found] == ["A"]
