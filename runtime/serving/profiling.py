"""/debug/pprof/: stacks of all threads, now and sampled over a period, as text and for flame graphs."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections import Counter
from types import FrameType

INTERVAL = 0.01  # seconds between two samples
LONGEST = 300.0  # seconds that one profile may take

INDEX = """/debug/pprof/

cmdline    the command line
profile    stacks sampled over ?seconds=30, one line each: frames from the outermost on, then how often it was seen
goroutine  the stack of every thread
threads    the same
"""


def thread_stacks() -> str:
    """Return the stack of every thread, outermost frame first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sorted(sys._current_frames().items()):
        stack = "".join(traceback.format_stack(frame))
        parts.append(f"thread {ident} [{names.get(ident, 'unknown')}]:\n{stack}")
    return "\n".join(parts)


def sample(counts: Counter[str], *, leave_out: int | None) -> None:
    """Add one sample of all threads to the counts. leave_out: ident of a thread, such as the sampling one."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        if ident != leave_out:
            counts[";".join([names.get(ident, "unknown"), *_frames(frame)])] += 1


def collapsed(counts: Counter[str]) -> str:
    """Return the collapsed stacks that flamegraph.pl, inferno and speedscope read; the most frequent first."""
    return "".join(f"{stack} {count}\n" for stack, count in counts.most_common())


class ProfileUnderWayError(Exception):
    """Another profile is being taken; the text contains for how long."""


class Profiler:
    """Takes profiles, one at a time, because a profile slows down all threads. Used on one event loop."""

    def __init__(self) -> None:
        self._until: float | None = None  # end of the running profile, by the loop's clock

    @property
    def is_busy(self) -> bool:
        return self._until is not None

    async def profile(self, seconds: float) -> str:
        """Sample all threads except the caller's, from the caller's loop. Raises ProfileUnderWayError."""
        loop = asyncio.get_running_loop()
        if self._until is not None:
            left = max(self._until - loop.time(), 0.0)
            raise ProfileUnderWayError(f"another profile is being taken, for {left:.0f} s more")
        self._until = loop.time() + min(seconds, LONGEST)
        counts: Counter[str] = Counter()
        try:
            while loop.time() < self._until:
                sample(counts, leave_out=threading.get_ident())
                await asyncio.sleep(INTERVAL)
        finally:
            self._until = None
        return collapsed(counts)


def _frames(frame: FrameType | None) -> list[str]:
    frames = []
    while frame is not None:
        module = frame.f_globals.get("__name__", "?")
        frames.append(f"{module}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return frames[::-1]
