"""Selection of the connections to cut when all of them together buffer too many bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from kcm.runtime.http.server.buffered_bytes import GRACE, LOG_EVERY, BufferedBytes

MOST = 1000


class Connection:
    def __init__(self, name: str, *, is_known: bool = True) -> None:
        self.peer, self.is_known, self.is_cut = name, is_known, False

    def abort(self) -> None:
        self.is_cut = True


class Rig:
    def __init__(self) -> None:
        self.time, self.logged = 100.0, LogCapture()
        log: Any = structlog.wrap_logger(None, processors=[self.logged])
        self.buffered = BufferedBytes(now=lambda: self.time, later=self.later, log=log, most=MOST)
        self.due: list[Callable[[], None]] = []
        self.connections: dict[str, Connection] = {}

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        assert seconds == GRACE
        self.due.append(do)

    def hold(self, name: str, size: int, *, is_known: bool = True, later: float = 1.0) -> None:
        """Buffer bytes on a connection.

        later: seconds since the previous call.
        """
        self.time += later
        connection = self.connections.setdefault(name, Connection(name, is_known=is_known))
        self.buffered.hold(connection, size)

    @property
    def cut(self) -> list[str]:
        return [name for name, connection in self.connections.items() if connection.is_cut]


def test_connections_within_the_bound_are_left_alone() -> None:
    rig = Rig()
    for name in "abcd":
        rig.hold(name, 250, later=100.0)
    assert (rig.cut, rig.buffered.total) == ([], 1000)
    for name in "abcd":
        rig.hold(name, 0)
    assert rig.buffered.total == 0


def test_the_connection_that_began_first_is_cut_off() -> None:
    rig = Rig()
    for name in "abcd":
        rig.hold(name, 200)
    rig.hold("e", 300, later=GRACE)
    assert (rig.cut, rig.buffered.total) == (["a"], 900)


def test_client_that_has_read_everything_counts_as_new() -> None:
    rig = Rig()
    rig.hold("a", 400)
    rig.hold("b", 400)
    rig.hold("a", 0)
    rig.hold("a", 400)
    rig.hold("c", 400, later=GRACE)
    assert rig.cut == ["b"]


def test_unknown_users_are_cut_off_first() -> None:
    rig = Rig()
    rig.hold("known", 400)
    rig.hold("unknown", 400, is_known=False)
    rig.hold("c", 400, later=GRACE)
    assert rig.cut == ["unknown"]


def test_a_single_large_response_is_not_cut_off() -> None:
    rig = Rig()
    rig.hold("list", 10 * MOST)
    rig.hold("list", 9 * MOST, later=100.0)
    assert rig.cut == []


@pytest.mark.parametrize(("size", "cut"), [(1200, []), (1600, ["a"])])
def test_new_connections_are_spared_up_to_twice_the_bound(size: int, cut: list[str]) -> None:
    rig = Rig()
    rig.hold("a", 600)
    rig.hold("b", size)
    assert rig.cut == cut


def test_spared_connections_are_cut_off_if_they_do_not_read() -> None:
    rig = Rig()
    rig.hold("a", 600)
    rig.hold("b", 600)
    rig.hold("c", 600)
    assert (rig.cut, len(rig.due)) == ([], 1)
    rig.time += GRACE
    rig.due.pop()()
    assert rig.cut == ["a", "b"]


def test_spared_connections_stay_open_if_they_read() -> None:
    rig = Rig()
    rig.hold("a", 600)
    rig.hold("b", 600)
    rig.hold("a", 0)
    rig.time += GRACE
    rig.due.pop()()
    assert (rig.cut, rig.due) == ([], [])


def test_small_buffers_are_spared() -> None:
    rig = Rig()
    rig.hold("small", 1)
    rig.hold("large", 800)
    rig.hold("c", 400, later=GRACE)
    assert rig.cut == ["large"]


def test_a_warning_is_logged_at_intervals_with_the_number_of_connections() -> None:
    rig = Rig()
    for number in range(10):
        rig.hold(f"{number}", 900, later=GRACE)
    expected = {"bytes": 900, "buffered": 1800, "most": MOST, "log_level": "warning"}
    (first, *_, last) = rig.logged.entries
    assert {name: first[name] for name in expected} == expected
    assert first["event"].startswith("connection cut off, too many bytes are buffered")
    assert (first["peer"], first["cut"], last["cut"]) == ("0", 1, 2)
    assert len(rig.logged.entries) == int(9 * GRACE / LOG_EVERY) + 1
