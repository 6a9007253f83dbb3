"""Stacks and profiles of the running process."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from kcm.runtime.serving import profiling
from kcm.runtime.serving.authorization import EverythingAllowed
from kcm.runtime.serving.site import Site, build_application
from tests.runtime.serving.conftest import RequestPage, client_of


def test_threads_are_shown_with_their_names_and_stacks(request_page: RequestPage) -> None:
    for path in ("/debug/pprof/goroutine?debug=2", "/debug/pprof/threads"):
        text = request_page(path).text
        assert f"[{threading.current_thread().name}]:" in text
        assert "thread_stacks" in text


def test_samples_are_collapsed_stacks() -> None:
    counts: Counter[str] = Counter()
    for _ in range(2):
        profiling.sample(counts, leave_out=None)
    mine = [line for line in profiling.collapsed(counts).splitlines() if "test_samples_are_collapsed_stacks" in line]
    stack, _, count = mine[0].rpartition(" ")
    assert stack.startswith(f"{threading.current_thread().name};")
    assert stack.endswith("profiling.sample")
    assert int(count) == 2
    profiling.sample(counts, leave_out=threading.get_ident())
    assert sum(count for stack, count in counts.items() if "test_samples" in stack) == 2


def test_profile_takes_the_requested_time(request_page: RequestPage) -> None:
    assert request_page("/debug/pprof/profile?seconds=0").text == ""
    assert request_page("/debug/pprof/profile?seconds=soon").status == 400


def test_only_one_profile_runs_at_a_time_on_all_ports(site: Site) -> None:
    async def ask_twice() -> list[int]:
        applications = [build_application(site, EverythingAllowed()) for _ in range(2)]
        async with client_of(applications[0]) as first, client_of(applications[1]) as second:
            path = "/debug/pprof/profile?seconds="
            under_way = asyncio.create_task(first.get(path + "300"))
            while not site.profiler.is_busy:
                await asyncio.sleep(0)
            refused = await second.get(path + "0")
            assert "another profile is being taken, for 300 s more" in await refused.text()
            under_way.cancel()
            await asyncio.wait([under_way])
            while site.profiler.is_busy:  # its client has disconnected
                await asyncio.sleep(0.001)
            return [refused.status, (await second.get(path + "0")).status]

    assert asyncio.run(asyncio.wait_for(ask_twice(), 20)) == [409, 200]


def test_failed_profile_does_not_block_the_next() -> None:
    profiler = profiling.Profiler()

    async def cut_short() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(profiler.profile(300), 0.01)
        await profiler.profile(0)

    asyncio.run(cut_short())
