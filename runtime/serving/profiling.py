"""/debug/pprof/: profiles of the process, for `go tool pprof`, Pyroscope and Parca, and as text.

Names, sample types and parameters are those of Go's net/http/pprof, as far as Python has a counterpart.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import traceback
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.pprof import Profile, SampleType, StackFrame, StackSample

INTERVAL = 0.01  # seconds between two samples, as Go
LONGEST = 300.0  # seconds that one profile may take
DEEPEST = 64  # frames of an allocation that are recorded
CPU, WALL = SampleType("cpu", "nanoseconds"), SampleType("wall", "nanoseconds")
SAMPLES = SampleType("samples", "count")
OBJECTS, SPACE = SampleType("inuse_objects", "count"), SampleType("inuse_space", "bytes")
CONTENTIONS, DELAY = SampleType("contentions", "count"), SampleType("delay", "nanoseconds")
GOROUTINES = SampleType("goroutine", "count")
THREAD, TASK = "thread", "task"  # labels

INDEX = """/debug/pprof/

Profiles are in the format of pprof; with ?debug=1 they are text.

cmdline    command line of the process
profile    CPU and wall-clock time of all threads during ?seconds=30, sampled 100 times a second;
           ?debug=1 has a line for each stack (frames from the outermost, and the number of samples) for flame graphs
heap       objects by type, except those of imported modules; with ?seconds=N the allocations of N seconds that are
           still in use, by stack. Recording them slows down the process
allocs     same as heap
goroutine  stacks of all threads, and of the tasks of this server
threads    stacks of all threads, as text
mutex      time that messages waited for actors, with --contention-profiling
block      same as mutex
"""

# Labels of what a thread is doing now, by the thread's ident: {"actor": "controller:job-controller", …}.
Activities = Callable[[], Mapping[int, Mapping[str, str]]]
# Number of messages that an actor has received, and seconds that they waited in its mailbox, by its labels.
Waits = Callable[[], Sequence[tuple[Mapping[str, str], int, float]]]


class ProfileUnderWayError(Exception):
    """Another profile is being taken. The text contains for how many seconds."""


class _Stack(NamedTuple):
    """Stack of a thread with its labels, as a key of counts."""

    frames: tuple[StackFrame, ...]  # the innermost first
    labels: tuple[tuple[str, str], ...]


class Profiler:
    """Takes profiles. Those that last some time are taken one at a time, as each slows down all threads.

    Used on one event loop.

    activities: labels for the samples of threads.
    waits: content of the profile of contention.
    """

    def __init__(self, *, clock: Clock, activities: Activities = dict, waits: Waits = tuple) -> None:
        self._clock, self._activities, self._waits = clock, activities, waits
        self._until: float | None = None  # end of the running profile, by the loop's clock

    @property
    def is_busy(self) -> bool:
        return self._until is not None

    async def cpu(self, seconds: float) -> Profile:
        """Sample all threads except the caller's, from the caller's loop. Raises ProfileUnderWayError."""
        began = self._clock.now()
        sampler = ThreadSampler(self._activities, now=self._clock.monotonic)
        with self._reserved(seconds):
            loop = asyncio.get_running_loop()
            end = loop.time() + min(seconds, LONGEST)
            while loop.time() < end:
                sampler.sample(leave_out=threading.get_ident())
                await asyncio.sleep(INTERVAL)
        return sampler.profile(began=began)

    async def heap(self, seconds: float) -> Profile:
        """Return the objects in use by type, or, for seconds > 0, the allocations of that time by stack.

        Raises ProfileUnderWayError.
        """
        if tracemalloc.is_tracing() and not self.is_busy:  # PYTHONTRACEMALLOC is set: allocations since the start
            return await asyncio.to_thread(allocations, began=self._clock.now(), duration=0.0)
        began = self._clock.now()
        with self._reserved(seconds):
            if seconds <= 0:
                return await asyncio.to_thread(objects_by_type, began=began)
            tracemalloc.start(DEEPEST)
            try:
                await asyncio.sleep(min(seconds, LONGEST))
                return await asyncio.to_thread(allocations, began=began, duration=min(seconds, LONGEST))
            finally:
                tracemalloc.stop()

    def goroutine(self) -> Profile:
        """Return the stacks of all threads, and of the tasks of the running event loop."""
        activities = self._activities()
        stacks = Counter(_stacks_of_threads(activities, leave_out=None))
        with contextlib.suppress(RuntimeError):  # no event loop runs on this thread
            for task in asyncio.all_tasks():
                frames = tuple(_frame(frame) for frame in reversed(task.get_stack()))
                stacks[_Stack(frames, ((TASK, task.get_coro().__qualname__),))] += 1  # type: ignore[union-attr]
        samples = [StackSample(stack.frames, (count,), dict(stack.labels)) for stack, count in stacks.items()]
        return Profile((GOROUTINES,), samples, self._clock.now(), period_type=GOROUTINES, period=1)

    def contention(self) -> Profile:
        """Return the time that messages waited for each actor since the start; empty if this is not measured."""
        samples = [
            StackSample(
                (StackFrame(labels.get("actor", "")), StackFrame("mailbox")), (count, round(seconds * 1e9)), labels
            )
            for labels, count, seconds in self._waits()
            if count
        ]
        return Profile((CONTENTIONS, DELAY), samples, self._clock.now(), period_type=CONTENTIONS, period=1)

    @contextlib.contextmanager
    def _reserved(self, seconds: float) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        if self._until is not None:
            left = max(self._until - loop.time(), 0.0)
            raise ProfileUnderWayError(f"another profile is being taken, for {left:.0f} s more")
        self._until = loop.time() + min(seconds, LONGEST)
        try:
            yield
        finally:
            self._until = None


class ThreadSampler:
    """Counts samples, CPU time and wall-clock time by stack.

    The CPU time of a thread since the previous sample is attributed to its stack at the time of the sample. Where the
    platform does not report it for single threads (only Linux does), the profile has only wall-clock time.
    """

    def __init__(self, activities: Activities = dict, *, now: Callable[[], float]) -> None:
        self._activities, self._now = activities, now
        self._samples: Counter[_Stack] = Counter()
        self._cpu: Counter[_Stack] = Counter()  # nanoseconds
        self._wall: Counter[_Stack] = Counter()
        self._cpu_before = cpu_times()
        self._began = self._before = now()

    def sample(self, *, leave_out: int | None) -> None:
        """Take a sample of all threads. leave_out: ident of a thread, such as the sampling one."""
        now, cpu = self._now(), cpu_times()
        elapsed, self._before = round((now - self._before) * 1e9), now
        natives = {thread.ident: thread.native_id for thread in threading.enumerate()}
        for ident, stack in _stacks_by_thread(self._activities(), leave_out=leave_out):
            self._samples[stack] += 1
            self._wall[stack] += elapsed
            native = natives.get(ident)
            if native in cpu:
                self._cpu[stack] += cpu[native] - self._cpu_before.get(native, cpu[native])
        self._cpu_before = cpu

    def profile(self, *, began: float) -> Profile:
        """Return the profile. began: Unix time of its start."""
        has_cpu = bool(self._cpu_before)
        kinds = (SAMPLES, CPU, WALL) if has_cpu else (SAMPLES, WALL)
        samples = [
            StackSample(
                stack.frames,
                (count, self._cpu[stack], self._wall[stack]) if has_cpu else (count, self._wall[stack]),
                dict(stack.labels),
            )
            for stack, count in self._samples.most_common()
        ]
        return Profile(
            kinds,
            samples,
            began,
            duration=self._before - self._began,
            period_type=CPU if has_cpu else WALL,
            period=round(INTERVAL * 1e9),
            default_type=(CPU if has_cpu else WALL).type,
        )


def cpu_times(tasks: Path = Path("/proc/self/task")) -> dict[int, int]:
    """Return the CPU time of each thread of this process in nanoseconds, by its native id; empty if unknown."""
    times = {}
    with contextlib.suppress(OSError):
        for task in tasks.iterdir():
            with contextlib.suppress(OSError, ValueError):  # the thread has ended
                times[int(task.name)] = int((task / "schedstat").read_bytes().split(b" ", 1)[0])
    return times


def allocations(*, began: float, duration: float) -> Profile:
    """Return what tracemalloc has recorded and is still in use. began: Unix time. duration: in seconds."""
    samples = []
    for found in tracemalloc.take_snapshot().statistics("traceback"):
        # tracemalloc records files and lines alone, the outermost first.
        stack = [
            StackFrame(f"{_short(at.filename)}:{at.lineno}", at.filename, line=at.lineno)
            for at in reversed(found.traceback)
        ]
        samples.append(StackSample(stack, (found.count, found.size), {}))
    return Profile((OBJECTS, SPACE), samples, began, duration, period_type=SPACE, period=1, default_type=SPACE.type)


def objects_by_type(*, began: float) -> Profile:
    """Return number and size of the objects in use by type, from the garbage collector's list.

    Strings, bytes and numbers are not in that list. They are found through the objects that refer to them, and count as
    a share for each reference; so interned and shared ones are not counted several times. began: Unix time.
    """
    counts: defaultdict[type, float] = defaultdict(float)
    sizes: defaultdict[type, float] = defaultdict(float)
    for found in gc.get_objects():
        kind = type(found)
        counts[kind] += 1
        sizes[kind] += sys.getsizeof(found, 0)
        for leaf in gc.get_referents(found):
            if not gc.is_tracked(leaf):
                # Three of its references are ours: the list of referents, the variable and the argument.
                share = 1 / max(1, sys.getrefcount(leaf) - 3)
                counts[type(leaf)] += share
                sizes[type(leaf)] += share * sys.getsizeof(leaf, 0)
    samples = [
        StackSample([StackFrame(f"{kind.__module__}.{kind.__qualname__}")], (round(counts[kind]), round(size)), {})
        for kind, size in sorted(sizes.items(), key=lambda item: -item[1])
    ]
    return Profile((OBJECTS, SPACE), samples, began, period_type=SPACE, period=1, default_type=SPACE.type)


def thread_stacks() -> str:
    """Return the stack of every thread as text, outermost frame first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sorted(sys._current_frames().items()):
        stack = "".join(traceback.format_stack(frame))
        parts.append(f"thread {ident} [{names.get(ident, 'unknown')}]:\n{stack}")
    return "\n".join(parts)


def collapsed(profile: Profile) -> str:
    """Return a line for each stack, as flamegraph.pl, inferno and speedscope read them: the first value comes last.

    A stack begins with the name of its thread.
    """
    lines = []
    for sample in profile.samples:
        names = [frame.function for frame in reversed(sample.stack)]
        thread = sample.labels.get(THREAD)
        lines.append(";".join([thread, *names] if thread else names) + f" {sample.values[0]}\n")
    return "".join(lines)


def _stacks_of_threads(activities: Mapping[int, Mapping[str, str]], *, leave_out: int | None) -> Iterator[_Stack]:
    return (stack for _ident, stack in _stacks_by_thread(activities, leave_out=leave_out))


def _stacks_by_thread(
    activities: Mapping[int, Mapping[str, str]], *, leave_out: int | None
) -> Iterator[tuple[int, _Stack]]:
    """Yield each thread's ident and stack."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, innermost in sys._current_frames().items():
        if ident != leave_out:
            labels = {THREAD: names.get(ident, "unknown"), **activities.get(ident, {})}
            yield ident, _Stack(tuple(_frames(innermost)), tuple(labels.items()))


def _frames(frame: FrameType | None) -> Iterator[StackFrame]:
    while frame is not None:
        yield _frame(frame)
        frame = frame.f_back


def _frame(frame: FrameType) -> StackFrame:
    code = frame.f_code
    module = frame.f_globals.get("__name__", "?")
    return StackFrame(f"{module}.{code.co_qualname}", code.co_filename, code.co_firstlineno, frame.f_lineno or 0)


def _short(path: str) -> str:
    """Return the last two parts of a path."""
    return "/".join(Path(path).parts[-2:])
