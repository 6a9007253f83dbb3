"""Queues of keys in which groups take turns."""

from __future__ import annotations

import pytest

from kcm.runtime.scheduling.round_robin import RoundRobinQueue


def test_empty_line_raises_index_error() -> None:
    turns: RoundRobinQueue[str] = RoundRobinQueue(len)
    with pytest.raises(IndexError):
        turns.popleft()


def test_readded_group_goes_to_the_end() -> None:
    turns: RoundRobinQueue[str] = RoundRobinQueue(lambda key: key[0])
    for key in ("a1", "b1"):
        turns.append(key)
    assert turns.popleft() == "a1"
    turns.append("a2")
    assert [turns.popleft(), turns.popleft(), len(turns)] == ["b1", "a2", 0]
