"""When a request goes out again by itself, and how long after: pure.

Follows kubernetes v1.36 client-go/rest/with_retry.go, but for one thing: there a 500 or 504 with Retry-After repeats a
write too. Such a write may have been carried out (504 is how a slow one ends), so the error goes back to its sender.
"""

from __future__ import annotations

MAX_RETRIES = 10
NOT_CARRIED_OUT = frozenset({429, 503})  # sent before the server handles the request
READS = frozenset({"GET", "HEAD"})


def is_read(method: str) -> bool:
    """True where sending it twice is the same as sending it once. A PUT or DELETE is not: the second one would be
    return Conflict or NotFound, and hide that the first one did it."""
    return method in READS


def retry_delay(*, method: str, status: int, retry_after: float, retries: int, remaining: float) -> float | None:
    """Seconds to wait before this request goes out again; None: it does not, and the response stands.

    status, retry_after: of the response. retries: how many there were already. remaining: seconds until the request's
    timeout; a retry that would be cut off by it is not begun.
    """
    if retry_after <= 0 or retries >= MAX_RETRIES or retry_after >= remaining:
        return None
    if status in NOT_CARRIED_OUT or (status >= 500 and is_read(method)):
        return retry_after
    return None
