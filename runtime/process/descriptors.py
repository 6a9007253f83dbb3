"""Limit of open files and connections of this process."""

from __future__ import annotations

import sys

ENOUGH = 65_536  # more than a manager or server needs; tables of descriptors grow with the limit
FEW = 1024  # an informer for each resource and some traffic may use a large part of it


def raise_limit(most: int = ENOUGH) -> int:
    """Raise the soft limit to the hard limit, but at most to `most`, and return the resulting limit."""
    if sys.platform == "win32":
        return most
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return most if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):  # macOS has a further limit of its own
        return soft
    return wanted
