"""The collector of cycles, in processes of which most objects live long: few of the objects that die are in cycles."""

from __future__ import annotations

import gc

COLLECT_AFTER = (50_000, 20, 50)  # more objects than that, of those that may be in cycles


def collect_rarely() -> None:
    """To be called once everything is imported: that is never looked at again, and the rest seldom."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(*COLLECT_AFTER)
