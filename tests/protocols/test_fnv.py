"""FNV hashes: the published values, and equality of the variants for texts of known length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.protocols.fnv import FixedText, fnv1_32, fnv1a_32


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"b", 0xE70C2DE5), (b"foobar", 0xBF9CF968)],
)
def test_fnv1a_returns_its_published_values(data: bytes, value: int) -> None:
    assert fnv1a_32(data) == value


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"", 0x811C9DC5), (b"a", 0x050C5D7E), (b"b", 0x050C5D7D), (b"foobar", 0x31F0B262)],
)
def test_fnv1_returns_its_published_values(data: bytes, value: int) -> None:
    assert fnv1_32(data) == value


@given(st.text(), st.lists(st.integers(0, 2**32 - 1)))
def test_fixed_text_changes_any_hash_as_its_bytes_do(text: str, hashes: list[int]) -> None:
    fixed = FixedText(text)
    for value in (*hashes, *hashes):
        assert fixed.fnv1a_32(value) == fnv1a_32(text.encode(), value)
