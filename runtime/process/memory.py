"""Memory in processes of which most objects live long: few of those that die are in cycles, and many die early."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

M_ARENA_MAX = -8  # of glibc's malloc.h
COLLECT_AFTER = (50_000, 20, 50)  # more objects than that, of those that may be in cycles


def keep_one_heap() -> None:
    """Have all threads take memory from one heap. To be called before there are threads.

    glibc gives a thread a heap of its own, up to eight for each core: what one thread frees no other uses, and messages
    are made by one thread and freed by another. The interpreter's lock lets one of them run at a time anyway.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def collect_rarely() -> None:
    """To be called once everything is imported: that is never looked at again, and the rest seldom."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(*COLLECT_AFTER)


@contextlib.contextmanager
def collect_afterwards() -> Iterator[None]:
    """What is there already is not looked at while this lasts; what was left in cycles meanwhile is freed at the end.

    For work that begins and ends with all it made, as a simulated run does, in a process that may have other work.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.collect()
        gc.unfreeze()


def give_back_freed() -> None:
    """Return to the system what was freed amid what is kept, as first lists leave it behind. Any thread may go on.

    glibc gives back by itself only what lies at the end of a heap. Other C libraries have no such call, and need none.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
