"""Sets of completion indexes as ordered intervals, as a Job's status has them: "0-3,5,8,9".

Source: kubernetes v1.36 pkg/controller/job/indexed_job_utils.go (orderedIntervals, parseIndexesFromString).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

_INTERVAL = re.compile(r"[+-]?[0-9]{1,19}")  # of 64 bits


class Interval(NamedTuple):
    """Both ends are part of it."""

    first: int
    last: int


class Indexes(tuple[Interval, ...]):
    """In order, and with a gap between each two."""

    __slots__ = ()

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Indexes:
        return cls(_joined(Interval(number, number) for number in sorted(set(numbers))))

    @classmethod
    def parse(cls, text: str, *, completions: int) -> Indexes:
        """Those below `completions`. What is no interval is left out."""
        found: list[Interval] = []
        for part in text.split(",") if text else ():
            ends = part.split("-")
            if not _INTERVAL.fullmatch(ends[0]) or (len(ends) > 1 and not _INTERVAL.fullmatch(ends[1])):
                continue
            first = int(ends[0])
            if first >= completions:
                break
            last = min(int(ends[1]), completions - 1) if len(ends) > 1 else first
            if found and found[-1].last == first - 1:
                found[-1] = Interval(found[-1].first, last)
            else:
                found.append(Interval(first, last))
        return cls(found)

    @property
    def total(self) -> int:
        return sum(one.last - one.first + 1 for one in self)

    def has(self, index: int) -> bool:
        at = bisect_left(self, index, key=lambda one: one.last)
        return at < len(self) and self[at].first <= index

    def merged(self, other: Indexes) -> Indexes:
        if not other:
            return self
        return Indexes(_joined(sorted([*self, *other])))

    def first_missing(self, count: int, *, completions: int) -> list[int]:
        """So many at most, in order, that are below `completions` and not in it."""
        missing: list[int] = []
        candidate = 0
        for first, last in (*self, Interval(completions, completions)):
            until = min(first, completions, candidate + count - len(missing))
            missing += range(candidate, until)
            candidate = max(candidate, last + 1)
        return missing

    def overlap(self, other: Indexes) -> int:
        """How many indexes they have in common."""
        common, i, j = 0, 0, 0
        while i < len(self) and j < len(other):
            one, two = self[i], other[j]
            common += max(0, min(one.last, two.last) - max(one.first, two.first) + 1)
            i, j = (i + 1, j) if one.last < two.last else (i, j + 1)
        return common

    def __str__(self) -> str:
        return ",".join(_text(one) for one in self)


def _joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Of intervals by their first index."""
    joined: list[Interval] = []
    for one in intervals:
        if joined and one.first <= joined[-1].last + 1:
            if one.last > joined[-1].last:
                joined[-1] = Interval(joined[-1].first, one.last)
        else:
            joined.append(one)
    return joined


def _text(interval: Interval) -> str:
    first, last = interval
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
