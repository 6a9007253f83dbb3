"""Write storms: objects that a controller writes again and again.

A reconciler whose status differs at each sync is woken by its own write, without end. Two writers that undo each
other's changes do the same to each other. Rate limits hide both from the API server, but not from the other keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kcm.protocols.messages.commands import Command, Delete, Patch, Update

STORM_RATE = 1.0  # writes of one object per second, as a mean of the time between two looks
STORM_LOOKS = 3  # successive looks, so that the busy minutes of a rollout are no storm
COUNTED = (Update, Patch, Delete)  # created objects have new names
MOST_OBJECTS = 10_000  # further objects are not counted until the next look


class WriteStorm(NamedTuple):
    """Object that the controller writes again and again. rate: writes per second since the last look."""

    resource: str
    key: str
    rate: float


class WriteStorms:
    """Counters of a controller's successful writes, by object.

    storms: those that the last look found.
    """

    def __init__(self, now: float) -> None:
        self.storms: tuple[WriteStorm, ...] = ()
        self._since = now
        self._writes: dict[tuple[str, str], int] = {}
        self._looks: dict[tuple[str, str], int] = {}  # number of successive looks with a high rate

    def wrote(self, command: Command) -> None:
        if isinstance(command, COUNTED):
            written, counts = (command.resource, command.key), self._writes
            if written in counts or len(counts) < MOST_OBJECTS:
                counts[written] = counts.get(written, 0) + 1

    def look(self, now: float) -> Iterator[WriteStorm]:
        """Yield the storms that have begun since the last look, and begin to count again."""
        seconds, before = max(now - self._since, 1.0), {(storm.resource, storm.key) for storm in self.storms}
        rates = {written: count / seconds for written, count in self._writes.items() if count / seconds >= STORM_RATE}
        self._looks = {written: self._looks.get(written, 0) + 1 for written in rates}
        self._writes, self._since = {}, now
        self.storms = tuple(
            WriteStorm(*written, rates[written]) for written, looks in self._looks.items() if looks >= STORM_LOOKS
        )
        return (storm for storm in self.storms if (storm.resource, storm.key) not in before)
