"""How many files and connections this process may have open."""

from __future__ import annotations

import sys

ENOUGH = 65_536  # more than a manager or a server of ours has use for; tables of descriptors grow with the limit
FEW = 1024  # of which an informer for each resource and some traffic may use up a good part


def raise_limit(most: int = ENOUGH) -> int:
    """Raise the soft limit to the hard one, to `most` at the most, and return what holds now."""
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
