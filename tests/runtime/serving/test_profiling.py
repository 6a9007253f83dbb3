"""Stacks and profiles of the running process."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kcm.runtime.serving import profiling
from kcm.runtime.serving.authorization import EverythingAllowed
from kcm.runtime.serving.pprof import Profile, SampleType, StackFrame, StackSample, encoded
from kcm.runtime.serving.profiling import Profiler, ThreadSampler
from kcm.runtime.serving.site import Site, build_application
from tests.runtime.serving.conftest import FixedClock, RequestPage, client_of


class Decoded(NamedTuple):
    """Profile as a reader of the format sees it."""

    types: list[tuple[str, str]]
    samples: list[tuple[list[tuple[str, str, int]], list[int], dict[str, str]]]  # (function, file, line) …
    period_type: tuple[str, str]
    period: int
    duration: int
    default_type: str


def fields_of(message: bytes) -> dict[int, list[Any]]:
    """Decode one level of a protobuf message: numbers of varints, bytes of everything else, by field number."""
    found: dict[int, list[Any]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        tag = varint()
        value: Any = varint()
        if tag & 7 == 2:
            value, at = message[at : at + value], at + value
        found.setdefault(tag >> 3, []).append(value)
    return found


def numbers(packed: bytes) -> list[int]:
    fields = []
    number = shift = 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            fields.append(number)
            number = shift = 0
    return fields


def decoded(data: bytes) -> Decoded:
    profile = fields_of(gzip.decompress(data))
    strings = [text.decode() for text in profile[6]]
    assert strings[0] == ""

    def value_type(message: bytes) -> tuple[str, str]:
        fields = fields_of(message)
        return strings[fields[1][0]], strings[fields[2][0]]

    functions = {}
    for message in profile.get(5, []):
        fields = fields_of(message)
        functions[fields[1][0]] = strings[fields[2][0]], strings[fields.get(4, [0])[0]]
    locations = {}
    for message in profile.get(4, []):
        fields = fields_of(message)
        line = fields_of(fields[4][0])
        locations[fields[1][0]] = (*functions[line[1][0]], line.get(2, [0])[0])
    samples = []
    for message in profile.get(2, []):
        fields = fields_of(message)
        labels = [fields_of(label) for label in fields.get(3, [])]
        samples.append(
            (
                [locations[number] for number in numbers(fields[1][0])],
                numbers(fields[2][0]),
                {strings[label[1][0]]: strings[label[2][0]] for label in labels},
            )
        )
    return Decoded(
        types=[value_type(message) for message in profile[1]],
        samples=samples,
        period_type=value_type(profile[11][0]),
        period=profile[12][0],
        duration=profile.get(10, [0])[0],
        default_type=strings[profile.get(14, [0])[0]],
    )


@contextmanager
def working_thread(name: str) -> Iterator[threading.Thread]:
    """Keep a thread busy in the function `work`."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            sum(range(1000))

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        ended.set()
        thread.join()


def test_encoded_profile_is_decoded_to_the_same_content() -> None:
    inner, outer = StackFrame("shop.sell", "/shop.py", 10, 12), StackFrame("shop.main", "/shop.py", 1, 300)
    profile = Profile(
        (SampleType("samples", "count"), SampleType("cpu", "nanoseconds")),
        [StackSample((inner, outer), (3, 30_000_000), {"thread": "main"}), StackSample((outer,), (1, 0), {})],
        time=1_763_726_400.0,
        duration=1.5,
        period_type=SampleType("cpu", "nanoseconds"),
        period=10_000_000,
        default_type="cpu",
    )
    assert decoded(encoded(profile)) == Decoded(
        types=[("samples", "count"), ("cpu", "nanoseconds")],
        samples=[
            ([("shop.sell", "/shop.py", 12), ("shop.main", "/shop.py", 300)], [3, 30_000_000], {"thread": "main"}),
            ([("shop.main", "/shop.py", 300)], [1, 0], {}),
        ],
        period_type=("cpu", "nanoseconds"),
        period=10_000_000,
        duration=1_500_000_000,
        default_type="cpu",
    )


@pytest.mark.skipif(not profiling.cpu_times(), reason="this platform does not report the CPU time of threads")
def test_cpu_time_is_attributed_to_the_stack_of_the_working_thread() -> None:
    with working_thread("worker") as worker:
        sampler = ThreadSampler(lambda: {worker.ident or 0: {"controller": "job-controller"}}, now=time.monotonic)
        before = time.thread_time()
        while not (profile := sampler.profile(began=0.0)).samples or _cpu_of(profile, "worker") == 0:
            sampler.sample(leave_out=None)
            assert time.thread_time() - before < 5.0
    assert [kind.type for kind in profile.sample_types] == ["samples", "cpu", "wall"]
    found = [sample for sample in profile.samples if sample.labels["thread"] == "worker"]
    assert {sample.labels["controller"] for sample in found} == {"job-controller"}
    assert any(frame.function.endswith("working_thread.<locals>.work") for frame in found[0].stack)


def _cpu_of(profile: Profile, thread: str) -> int:
    return sum(sample.values[1] for sample in profile.samples if sample.labels["thread"] == thread)


def test_profile_without_cpu_times_has_wall_clock_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "cpu_times", dict)
    sampler = ThreadSampler(now=time.monotonic)
    sampler.sample(leave_out=None)
    profile = sampler.profile(began=0.0)
    assert [kind.type for kind in profile.sample_types] == ["samples", "wall"]
    assert profile.default_type == "wall"


def test_cpu_times_are_read_per_thread(tmp_path: Path) -> None:
    for thread, text in (("10", b"1500 20 3\n"), ("11", b""), ("12", b"7 0 0\n")):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_bytes(text)
    (tmp_path / "13").mkdir()  # a thread that ended meanwhile
    assert profiling.cpu_times(tmp_path) == {10: 1500, 12: 7}
    assert profiling.cpu_times(tmp_path / "missing") == {}


def test_samples_are_shown_as_collapsed_stacks() -> None:
    sampler = ThreadSampler(now=time.monotonic)
    for _ in range(2):
        sampler.sample(leave_out=None)
    text = profiling.collapsed(sampler.profile(began=0.0))
    mine = [line for line in text.splitlines() if "test_samples_are_shown_as_collapsed_stacks" in line]
    stack, _, count = mine[0].rpartition(" ")
    assert stack.startswith(f"{threading.current_thread().name};")
    assert stack.split(";")[-1].startswith("kcm.runtime.serving.profiling.")
    assert int(count) == 2
    sampler.sample(leave_out=threading.get_ident())
    text = profiling.collapsed(sampler.profile(began=0.0))
    assert sum(int(line.rpartition(" ")[2]) for line in text.splitlines() if "test_samples_are" in line) == 2


def test_threads_are_shown_with_their_names_and_stacks(request_page: RequestPage) -> None:
    for path in ("/debug/pprof/goroutine?debug=2", "/debug/pprof/threads"):
        text = request_page(path).text
        assert f"[{threading.current_thread().name}]:" in text
        assert "thread_stacks" in text


def test_goroutine_profile_has_threads_and_tasks() -> None:
    async def waits_forever() -> None:
        await asyncio.Event().wait()

    async def take() -> Profile:
        waiting = asyncio.create_task(waits_forever())
        await asyncio.sleep(0)
        try:
            return Profiler(clock=FixedClock()).goroutine()
        finally:
            waiting.cancel()

    profile = decoded(encoded(asyncio.run(take())))
    assert profile.types == [("goroutine", "count")]
    labels = [labels for _, _, labels in profile.samples]
    assert {"thread": threading.current_thread().name} in labels
    assert [names[0][0] for names, _, label in profile.samples if label.get("task", "").endswith("waits_forever")] == [
        f"{__name__}.test_goroutine_profile_has_threads_and_tasks.<locals>.waits_forever"
    ]


class Brick:
    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text


def test_heap_shows_objects_and_what_they_refer_to_by_type() -> None:
    wall = [(Brick(bytes([number]) * 100_000), []) for number in range(50)]
    profile = asyncio.run(Profiler(clock=FixedClock()).heap(0))
    by_type = {sample.stack[0].function: sample.values for sample in profile.samples}
    assert by_type[f"{Brick.__module__}.Brick"][0] == len(wall)
    assert by_type["builtins.bytes"][1] > 50 * 100_000
    assert [kind.type for kind in profile.sample_types] == ["inuse_objects", "inuse_space"]


def test_heap_of_some_time_shows_where_objects_were_allocated() -> None:
    kept: list[bytes] = []

    async def take() -> Profile:
        taking = asyncio.create_task(Profiler(clock=FixedClock()).heap(0.01))
        while not tracemalloc.is_tracing():
            await asyncio.sleep(0)
        kept.append(bytes(3_000_000))
        return await taking

    profile = asyncio.run(take())
    assert not tracemalloc.is_tracing()
    largest = profile.samples[0]  # type: ignore[index]
    assert largest.values[1] > 3_000_000
    assert any(frame.file == __file__ for frame in largest.stack)


def test_contention_is_the_time_that_messages_waited_for_an_actor() -> None:
    waits: list[tuple[Mapping[str, str], int, float]] = [
        ({"actor": "controller:job-controller", "controller": "job-controller"}, 3, 0.25),
        ({"actor": "dispatcher"}, 0, 0.0),
    ]
    profile = decoded(encoded(Profiler(clock=FixedClock(), waits=lambda: waits).contention()))
    assert profile.types == [("contentions", "count"), ("delay", "nanoseconds")]
    ((stack, values, labels),) = profile.samples
    assert [function for function, _, _ in stack] == ["controller:job-controller", "mailbox"]
    assert (values, labels["controller"]) == ([3, 250_000_000], "job-controller")
    assert decoded(encoded(Profiler(clock=FixedClock()).contention())).samples == []


@pytest.mark.parametrize("seconds", ["soon", "-1", "nan", "inf"])
def test_profile_of_an_invalid_time_is_refused(request_page: RequestPage, seconds: str) -> None:
    refused = request_page(f"/debug/pprof/profile?seconds={seconds}")
    assert (refused.status, refused.text) == (400, f"seconds must be a number of seconds, but got '{seconds}'\n")


def test_text_of_a_profile_is_shown_on_request(request_page: RequestPage) -> None:
    assert request_page("/debug/pprof/profile?seconds=0&debug=1").text == ""
    assert "builtins.dict " in request_page("/debug/pprof/heap?debug=1").text


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
            taken = await second.get(path + "0")
            assert decoded(await taken.read()).period_type == ("cpu", "nanoseconds")
            return [refused.status, taken.status]

    assert asyncio.run(asyncio.wait_for(ask_twice(), 20)) == [409, 200]


def test_failed_profile_does_not_block_the_next() -> None:
    profiler = Profiler(clock=FixedClock())

    async def cut_short() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(profiler.cpu(300), 0.01)
        await profiler.cpu(0)

    asyncio.run(cut_short())
