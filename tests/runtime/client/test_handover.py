from __future__ import annotations

import asyncio
from collections.abc import Callable

from kcm.runtime.client.handover import MOST, Handover


def remembering(seen: list[int], number: int) -> Callable[[], None]:
    return lambda: seen.append(number)


def test_an_answer_after_which_none_is_expected_goes_at_once_with_those_before_it() -> None:
    async def run() -> list[list[int]]:
        handover, seen, steps = Handover(), list[int](), []
        for number, more in enumerate((True, True, False, False)):
            handover.add(remembering(seen, number), more=more)
            steps.append(list(seen))
        return steps

    assert asyncio.run(run()) == [[], [], [0, 1, 2], [0, 1, 2, 3]]


def test_no_more_than_so_many_are_held() -> None:
    async def run() -> list[int]:
        handover, seen = Handover(), list[int]()
        for number in range(2 * MOST + 1):
            handover.add(remembering(seen, number), more=True)
        return list(seen)  # as it is now: while the loop is closed, the moment may end for which one is held

    assert asyncio.run(run()) == list(range(2 * MOST))


def test_what_is_held_goes_after_a_moment_though_nothing_follows() -> None:
    async def run() -> None:
        handover = Handover()
        for _ in range(2):
            gone = asyncio.Event()
            handover.add(gone.set, more=True)
            assert not gone.is_set()
            async with asyncio.timeout(10.0):
                await gone.wait()

    asyncio.run(run())


def test_what_an_answer_brings_about_is_held_for_itself() -> None:
    async def run() -> list[int]:
        handover, seen = Handover(), list[int]()
        handover.add(lambda: handover.add(remembering(seen, 2), more=True), more=True)
        handover.add(remembering(seen, 1), more=False)
        first = list(seen)
        handover.flush()
        return [*first, 0, *seen]

    assert asyncio.run(run()) == [1, 0, 1, 2]
