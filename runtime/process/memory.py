"""Memory in processes of which most objects live long: few of those that die are in cycles, and many die early."""

from __future__ import annotations

import contextlib
import gc

COLLECT_AFTER = (50_000, 20, 50)  # more objects than that, of those that may be in cycles


def collect_rarely() -> None:
    """To be called once everything is imported: that is never looked at again, and the rest seldom."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(*COLLECT_AFTER)


def give_back_freed() -> None:
    """Return to the system what was freed amid what is kept, as first lists leave it behind. Any thread may go on.

    glibc gives back by itself only what lies at the end of a heap. Other C libraries have no such call, and need none.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
