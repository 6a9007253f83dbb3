from __future__ import annotations

import pytest

from kcm.protocols.bounded_cache import bounded_cache, total_size


def test_short_keys_are_kept_and_long_ones_are_not() -> None:
    calls: list[str] = []

    @bounded_cache(8, longest=4)
    def reverse(text: str) -> str:
        calls.append(text)
        return text[::-1]

    for text in ("abcd", "abcd", "abcde", "abcde"):
        assert reverse(text) == text[::-1]
    assert calls == ["abcd", "abcde", "abcde"]
    assert reverse.__name__ == "reverse"


def test_the_size_of_several_arguments_counts_together() -> None:
    calls: list[tuple[str, bytes, bool]] = []

    @bounded_cache(8, longest=4, size=total_size)
    def join(text: str, other: bytes, *, upper: bool = False) -> str:
        calls.append((text, other, upper))
        both = text + other.decode()
        return both.upper() if upper else both

    assert [join("ab", b"cd"), join("ab", b"cd"), join("ab", b"cd", upper=True)] == ["abcd", "abcd", "ABCD"]
    assert len(calls) == 2
    assert [join("abc", b"cd", upper=True), join("abc", b"cd", upper=True)] == ["ABCCD", "ABCCD"]
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("parts", "size"),
    [(("abc", b"de"), 5), ((1, 2.0, None, True), 0), ((("a", "bc"), frozenset(["d"])), 7), (((("a",),),), 3)],
)
def test_total_size_counts_texts_and_what_holds_them(parts: tuple[object, ...], size: int) -> None:
    assert total_size(*parts) == size
