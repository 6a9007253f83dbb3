"""Retry policy of requests.

Follows kubernetes v1.36 client-go/rest/with_retry.go, with one difference: client-go also repeats a write after a 500
or 504 with Retry-After. Such a write may have been carried out (a slow write ends with 504), so here its sender
receives the error.
"""

from __future__ import annotations

MAX_RETRIES = 10
NOT_CARRIED_OUT = frozenset({429, 503})  # statuses that are sent before the server handles the request
READS = frozenset({"GET", "HEAD"})


def is_read(method: str) -> bool:
    """Report whether a request may be sent twice.

    A PUT or DELETE may not: the second would return Conflict or NotFound, and hide that the first succeeded.
    """
    return method in READS


def retry_delay(*, method: str, status: int, retry_after: float, retries: int, remaining: float) -> float | None:
    """Return the seconds after which a request is retried; None if it is not.

    status, retry_after: of the response.
    retries: number of retries before.
    remaining: seconds until the request's timeout, within which a retry must begin.
    """
    if retry_after <= 0 or retries >= MAX_RETRIES or retry_after >= remaining:
        return None
    if status in NOT_CARRIED_OUT or (status >= 500 and is_read(method)):
        return retry_after
    return None
