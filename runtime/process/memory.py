"""Memory of processes with many long-lived objects and few reference cycles: settings, and the release of garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # of glibc's malloc.h
LARGE = 256 * 1024  # bytes; the size of uvloop's buffer for each TLS connection
COLLECT_AFTER = (50_000, 20, 50)  # thresholds of gc
COLLECT_WITHIN = (1_000_000, 20, 50)  # the same for a block of work, within which a collection finds almost nothing
SETTLING = 5.0  # seconds from the last replacement of an actor to the collection, in which its threads end
COLLECT_EVERY = 600.0  # longest time in seconds between two full collections
# Seconds from the start to the first one: connections that were opened ahead and not used are closed after 30.
COLLECT_FIRST = 60.0


def keep_one_heap() -> None:
    """Make all threads allocate from one heap. Call this before threads are started.

    By default glibc gives threads their own heaps, up to eight per core. Memory that is freed in one heap is not used
    by the others, and messages are allocated by one thread and freed by another. Under the GIL, several heaps give no
    advantage.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def keep_large_blocks_outside_the_heap() -> None:
    """Allocate blocks of LARGE bytes and more as mappings of their own. Call this before connections are accepted.

    By default glibc stops doing so after such a block was freed. The buffers of later connections are then parts of the
    heap, where the pages that a connection does not use occupy memory, and closed connections leave holes.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)


def collect_rarely() -> None:
    """Exclude all current objects from garbage collection, and collect the others rarely. Call this after imports."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(*COLLECT_AFTER)


@contextlib.contextmanager
def collect_afterwards() -> Iterator[None]:
    """Collect garbage rarely within the block, and once at its end, without the objects that existed before.

    For work whose objects are all garbage at its end, such as a simulated run, in a process with other work. The
    objects of the block are in the younger generations, as almost no collection has moved them to the oldest one.
    """
    before = gc.get_threshold()
    gc.set_threshold(*COLLECT_WITHIN)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.collect(1)


class RareGarbage:
    """Collects garbage after actors have been replaced, soon after the start, and every COLLECT_EVERY seconds.

    A replaced actor consists of reference cycles: after a lost lease, the informers and controllers of a whole term.
    Cycles of other origin are few, but with the thresholds of collect_rarely they would stay for days.
    """

    def __init__(self, now: float) -> None:
        self._known = 0  # replacements at the last call
        self._due = now + COLLECT_FIRST

    def look(self, replaced: int, now: float) -> None:
        """Collect garbage if it is due, and return the memory to the system.

        replaced: number of actors that have been replaced since the start. A collection is due SETTLING seconds after
            the last replacement.
        now: monotonic time.
        """
        if replaced != self._known:
            self._known, self._due = replaced, now + SETTLING
        elif now >= self._due:
            self._due = now + COLLECT_EVERY
            gc.collect()
            give_back_freed()


def give_back_freed() -> None:
    """Return freed memory to the operating system, for example after the first lists. Other threads may run.

    By itself glibc returns only memory at the end of a heap. Other C libraries neither have nor need this call.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
