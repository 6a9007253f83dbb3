from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kcm.runtime.client.queues import MOST, FairQueue, Handover


def test_idle_client_is_admitted_even_if_the_queue_is_full() -> None:
    queue: FairQueue[str] = FairQueue(1)
    assert queue.admit("replicaset-controller", "create")
    assert not queue.admit("replicaset-controller", "another create")
    assert queue.admit("leader-election", "renew")


def test_waiting_item_is_admitted_when_one_of_its_client_finishes() -> None:
    queue: FairQueue[str] = FairQueue(1)
    queue.admit("a", "a1")
    queue.admit("b", "b1")  # above the limit, because it had no request under way
    queue.admit("b", "b2")
    assert queue.finished("b") == "b2"
    assert queue.finished("b") is None


def test_clients_take_turns() -> None:
    queue: FairQueue[str] = FairQueue(2)
    for item in ("a1", "a2", "a3", "a4", "a5"):
        queue.admit("a", item)
    for item in ("b1", "b2", "b3"):
        queue.admit("b", item)
    # a1, a2 and b1 are under way: one above the limit, so the first to finish admits no other.
    assert queue.finished("a") is None
    assert [queue.finished("a"), queue.finished("a"), queue.finished("b")] == ["a3", "a4", "b2"]


def test_clear_returns_the_waiting_items() -> None:
    queue: FairQueue[str] = FairQueue(1)
    for item in ("one", "two", "three"):
        queue.admit("a", item)
    assert queue.clear() == ["two", "three"]
    assert queue.finished("a") is None


@given(most=st.integers(1, 3), steps=st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=60))
def test_every_item_is_admitted_once_in_order_within_the_limit(most: int, steps: list[tuple[bool, str]]) -> None:
    queue: FairQueue[int] = FairQueue(most)
    under_way: Counter[str] = Counter()
    waiting: dict[str, deque[int]] = {"a": deque(), "b": deque(), "c": deque()}
    owner: dict[int, str] = {}
    for number, (arrives, client) in enumerate(steps):
        if arrives:
            owner[number] = client
            if queue.admit(client, number):
                under_way[client] += 1
            else:
                waiting[client].append(number)
        elif under_way[client]:
            under_way[client] -= 1
            went = queue.finished(client)
            if went is not None:
                assert waiting[owner[went]].popleft() == went
                under_way[owner[went]] += 1
        assert under_way.total() <= most + 3
        assert all(under_way[client] for client in "abc" if waiting[client])
        assert under_way.total() >= most or not any(waiting.values())


def recorder(seen: list[int], number: int) -> Callable[[], None]:
    return lambda: seen.append(number)


def test_last_expected_response_is_passed_on_at_once_with_those_before_it() -> None:
    async def run() -> list[list[int]]:
        handover, seen, steps = Handover(), list[int](), []
        for number, more in enumerate((True, True, False, False)):
            handover.add(recorder(seen, number), more=more)
            steps.append(list(seen))
        return steps

    assert asyncio.run(run()) == [[], [], [0, 1, 2], [0, 1, 2, 3]]


def test_number_of_kept_back_responses_is_limited() -> None:
    async def run() -> list[int]:
        handover, seen = Handover(), list[int]()
        for number in range(2 * MOST + 1):
            handover.add(recorder(seen, number), more=True)
        return list(seen)  # a copy: the delay of the kept back response may end while the loop is closed

    assert asyncio.run(run()) == list(range(2 * MOST))


def test_kept_back_response_is_passed_on_after_two_milliseconds() -> None:
    async def run() -> None:
        handover = Handover()
        for _ in range(2):
            gone = asyncio.Event()
            handover.add(gone.set, more=True)
            assert not gone.is_set()
            async with asyncio.timeout(10.0):
                await gone.wait()

    asyncio.run(run())


def test_response_added_by_a_callback_is_kept_back_separately() -> None:
    async def run() -> list[int]:
        handover, seen = Handover(), list[int]()
        handover.add(lambda: handover.add(recorder(seen, 2), more=True), more=True)
        handover.add(recorder(seen, 1), more=False)
        first = list(seen)
        handover.flush()
        return [*first, 0, *seen]

    assert asyncio.run(run()) == [1, 0, 1, 2]
