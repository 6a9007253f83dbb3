"""Caches of functions whose arguments a client chooses, bounded by the size of the entries and by their number.

functools.lru_cache only counts its entries. If a client chooses the arguments, a thousand entries may be a thousand
requests of a megabyte each. Arguments that occur repeatedly are short, so results for long ones need not be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONGEST = 512  # maximum size of a cached argument: bytes, characters or items


def first_size(first: Any, *_: Any) -> int:
    """Return the size of the first argument, for functions whose other arguments are small. All must be positional."""
    return len(first)


def bounded_cache(
    maxsize: int, *, longest: int = LONGEST, size: Callable[..., int] = len
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a pure function to cache its results for short arguments. With longer arguments it is called each time.

    maxsize: maximum number of cached results.
    longest: maximum size of the arguments whose result is cached.
    size: called with the arguments, returns their size; by default the length of the only argument.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kept = lru_cache(maxsize)(function)

        as_any: Any = function

        def find_by_one(key: Any) -> Any:
            return kept(key) if len(key) <= longest else as_any(key)

        def find_by_first(first: Any, *others: Any) -> Any:
            return kept(first, *others) if len(first) <= longest else as_any(first, *others)

        def find(*arguments: Any, **named: Any) -> Any:
            is_short = size(*arguments, *named.values()) <= longest
            return (kept if is_short else as_any)(*arguments, **named)

        fast: Any = {len: find_by_one, first_size: find_by_first}
        found: Any = wraps(function)(fast.get(size, find))
        found.cache_clear = kept.cache_clear
        found.cache_info = kept.cache_info
        result: Callable[P, T] = found
        return result

    return decorate


def total_size(*parts: Any) -> int:
    """Return the size of several arguments: the length of strings and bytes, also inside tuples. Numbers count as 0."""
    size = 0
    for part in parts:
        if isinstance(part, str | bytes):
            size += len(part)
        elif isinstance(part, tuple | frozenset | list):
            size += len(part) + total_size(*part)
    return size
