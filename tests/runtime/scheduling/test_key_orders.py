"""Queues of keys in which groups take turns, or which are in the order of priorities.

Source of the latter: upstream's TestLess of queuesort/priority_sort_test.go.
"""

from __future__ import annotations

import pytest

from kcm.runtime.scheduling.key_orders import PriorityQueue, RoundRobinQueue
from kcm.runtime.scheduling.work_queue import WorkQueue

LOW, HIGH = 10.0, 100.0


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


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (LOW, HIGH, ["second", "first"]),
        (HIGH, LOW, ["first", "second"]),
        (HIGH, HIGH, ["first", "second"]),  # equal priorities: by time
    ],
)
def test_highest_priority_and_then_earliest_addition_is_first(first: float, second: float, expected: list[str]) -> None:
    keys = PriorityQueue({"first": first, "second": second}.__getitem__)
    keys.append("first")
    keys.append("second")
    assert [len(keys), keys.popleft(), keys.popleft(), len(keys)] == [2, *expected, 0]


def test_empty_queue_raises_index_error() -> None:
    keys: PriorityQueue[str] = PriorityQueue(len)
    with pytest.raises(IndexError):
        keys.popleft()


def test_priority_counts_when_the_key_is_added() -> None:
    priorities = {"a": LOW, "b": LOW}
    keys = PriorityQueue(priorities.__getitem__)
    keys.append("a")
    priorities["b"] = HIGH
    keys.append("b")
    priorities["a"] = 2 * HIGH
    assert [keys.popleft(), keys.popleft()] == ["b", "a"]


def test_work_queue_hands_out_keys_by_priority_also_after_delays() -> None:
    queue: WorkQueue[str] = WorkQueue(now=0.0, priority_of=lambda key: float(key[1:]))
    queue.add_after("a9", 5.0, 0.0)
    for key in ("a1", "b3", "c3", "d2"):
        queue.add(key, 0.0)
    assert [queue.take(0.0), queue.take(0.0)] == ["b3", "c3"]
    queue.add("b3", 0.0)
    queue.done("b3", 0.0)
    assert [queue.take(6.0) for _ in range(5)] == ["a9", "b3", "d2", "a1", None]
