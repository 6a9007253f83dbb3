"""Long work runs in slices, so that other tasks take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kcm.runtime.apiserver.server.event_loop.round_robin import TIME_SLICE, RoundRobin


class Turns:
    """Works whose steps each take a third of a slice."""

    def __init__(self) -> None:
        self.time, self.taken = 0.0, list[str]()
        self._next: list[Callable[[], None]] = []
        self.round_robin = RoundRobin(now=lambda: self.time, soon=self._next.append)

    def steps(self, name: str, count: int) -> Iterator[None]:
        for _ in range(count):
            self.time += TIME_SLICE / 2.9
            self.taken.append(name)
            yield

    def take(self) -> str:
        """Run one turn, and return its steps."""
        self.taken.clear()
        due, self._next[:] = [*self._next], []
        for callback in due:
            callback()
        return "".join(self.taken)

    @property
    def are_wanted(self) -> bool:
        return bool(self._next)


def test_short_work_is_done_immediately() -> None:
    turns = Turns()
    turns.round_robin.run(turns.steps("a", 2))
    assert (turns.taken, turns.are_wanted) == (["a", "a"], False)


def test_long_works_take_turns_of_one_slice() -> None:
    turns = Turns()
    turns.round_robin.run(turns.steps("a", 8))
    turns.round_robin.run(turns.steps("b", 5))
    assert "".join(turns.taken) == "aaabbb"
    assert [turns.take() for _ in range(4)] == ["aaa", "bb", "aa", ""]
    assert not turns.are_wanted
    turns.round_robin.run(turns.steps("c", 4))
    assert [turns.take(), turns.are_wanted] == ["c", False]
