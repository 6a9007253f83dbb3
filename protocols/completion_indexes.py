"""Sets of completion indexes of an Indexed Job, and the text form that its status has: "0-3,5,8,9".

Source: kubernetes v1.36 pkg/controller/job/indexed_job_utils.go (orderedIntervals, parseIndexesFromString),
pkg/apis/batch/validation/validation.go (validateIndexesFormat, parseIndexInterval).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kcm.protocols.integers import parse_int


class Interval(NamedTuple):
    """Consecutive indexes, both ends included."""

    first: int
    last: int


class Indexes(tuple[Interval, ...]):
    """Set of indexes as intervals in ascending order, with a gap between each two."""

    __slots__ = ()

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Indexes:
        return cls(_joined(Interval(number, number) for number in sorted(set(numbers))))

    @classmethod
    def parse(cls, text: str, *, completions: int) -> Indexes:
        """Return the indexes below `completions`. Malformed intervals are ignored, as upstream's controller does."""
        found: list[Interval] = []
        for part in _parts(text):
            ends = part.split("-")
            first = parse_int(ends[0])
            last = parse_int(ends[1]) if len(ends) > 1 else first
            if first is None or last is None:
                continue
            if first >= completions:
                break
            last = min(last, completions - 1)
            if found and found[-1].last == first - 1:
                found[-1] = Interval(found[-1].first, last)
            else:
                found.append(Interval(first, last))
        return cls(found)

    @property
    def total(self) -> int:
        return sum(last - first + 1 for first, last in self)

    def has(self, index: int) -> bool:
        at = bisect_left(self, index, key=lambda interval: interval.last)
        return at < len(self) and self[at].first <= index

    def merged(self, other: Indexes) -> Indexes:
        if not other:
            return self
        return Indexes(_joined(sorted([*self, *other])))

    def first_missing(self, count: int, *, completions: int) -> list[int]:
        """Return the lowest indexes below `completions` that are not in this set, at most `count`."""
        missing: list[int] = []
        candidate = 0
        for first, last in (*self, Interval(completions, completions)):
            until = min(first, completions, candidate + count - len(missing))
            missing += range(candidate, until)
            candidate = max(candidate, last + 1)
        return missing

    def overlap(self, other: Indexes) -> int:
        """Return the number of indexes that are in both sets."""
        common, i, j = 0, 0, 0
        while i < len(self) and j < len(other):
            mine, theirs = self[i], other[j]
            common += max(0, min(mine.last, theirs.last) - max(mine.first, theirs.first) + 1)
            i, j = (i + 1, j) if mine.last < theirs.last else (i, j + 1)
        return common

    def __str__(self) -> str:
        return ",".join(_text(interval) for interval in self)


def _joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Merge intervals that overlap or touch. intervals: sorted by their first index."""
    joined: list[Interval] = []
    for interval in intervals:
        if joined and interval.first <= joined[-1].last + 1:
            if interval.last > joined[-1].last:
                joined[-1] = Interval(joined[-1].first, interval.last)
        else:
            joined.append(interval)
    return joined


def _text(interval: Interval) -> str:
    first, last = interval
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def _parts(text: str) -> list[str]:
    return text.split(",") if text else []


def validate_indexes(text: str, *, completions: int) -> int:
    """Return the number of indexes. Raises ValueError with upstream's text if the format is invalid."""
    total = 0
    previous: int | None = None
    for part in _parts(text):
        first, last = _parse_interval(part, completions)
        if previous is not None and previous >= first:
            raise ValueError(f"non-increasing order, previous: {previous}, current: {first}")
        total += last - first + 1
        previous = last
    return total


def valid_intervals(text: str, *, completions: int) -> Iterator[Interval]:
    """Yield the intervals in the order of the text, without the malformed ones."""
    for part in _parts(text):
        try:
            yield _parse_interval(part, completions)
        except ValueError:
            continue


def _parse_interval(text: str, completions: int) -> Interval:
    """Raises ValueError with the text of upstream's parseIndexInterval."""
    ends = text.split("-")
    if len(ends) > 2:
        rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise ValueError(f'the fragment "{text}" {rule}')
    numbers: list[int] = []
    for end in ends:
        number = parse_int(end)
        if number is None:
            raise ValueError(f'cannot convert string to integer for index: "{end}"')
        if number >= completions:
            raise ValueError(f'too large index: "{end}"')
        numbers.append(number)
    first, last = numbers[0], numbers[-1]
    if len(ends) == 2 and first >= last:
        raise ValueError(f"non-increasing order, previous: {first}, current: {last}")
    return Interval(first, last)
