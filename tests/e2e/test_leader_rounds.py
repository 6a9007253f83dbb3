"""Loss of the leader among three managers: no write without the lease, and a quick takeover."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.leader_rounds import KINDS, SHORT, Write, judge, play

FEW = "replicaset-controller,deployment-controller"


def lease(user: str, at: float, *, released: bool = False) -> Write:
    return Write(user, at, at + 0.01, "update lease", 200, "" if released else f"{user}-identity")


def write(user: str, at: float) -> Write:
    return Write(user, at, at + 0.01, f"create pods by {user}", 201)


def test_write_after_another_acquired_the_lease_is_found() -> None:
    found = judge([lease("a", 0.0), write("a", 1.0), lease("b", 5.0), write("a", 5.1), write("b", 5.2)], duration=4.0)
    assert (found.writes, [late.received for late in found.deposed], found.expired) == (3, [5.1], [])
    assert [user for _, user in found.acquired] == ["a", "b"]


def test_write_after_the_lease_expired_or_was_released_is_found() -> None:
    found = judge(
        [lease("a", 0.0), write("a", 5.0), lease("a", 6.0), lease("a", 7.0, released=True), write("a", 7.5)],
        duration=4.0,
    )
    assert ([late.received for late in found.expired], found.deposed) == ([5.0, 7.5], [])


def test_rejected_acquisition_changes_no_holder() -> None:
    rejected = Write("b", 1.0, 1.01, "update lease", 409, "b-identity")
    found = judge([lease("a", 0.0), rejected, write("a", 1.5)], duration=4.0)
    assert not found.deposed
    assert not found.expired


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_manager_writes_without_the_lease(tmp_path: Path) -> None:
    result = play(tmp_path, count=2 * len(KINDS), seed=3, say=print, controllers=FEW)
    assert result.verdict.writes > 100
    assert not result.verdict.deposed
    assert not result.verdict.expired
    for played in result.rounds:
        assert played.leading <= (2.0 if played.kind == "stop" else SHORT + 2.0), played
        assert played.ended is None or played.ended <= 2.0, played  # 1 s, and some for a busy machine
