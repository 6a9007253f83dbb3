"""Truncation of Endpoints at 1,000 addresses; ready addresses are kept first.

Source: kubernetes v1.36 pkg/controller/endpoint/endpoints_controller.go, truncateEndpoints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object

CAPACITY = 1000  # addresses in one object
TRUNCATED = "truncated"
READY, NOT_READY = "addresses", "notReadyAddresses"


def truncated(subsets: Sequence[Mapping[str, Any]], capacity: int = CAPACITY) -> list[Object] | None:
    """Return the subsets of Endpoints truncated to the capacity; None if all addresses fit.

    Addresses are removed from each subset in proportion to its size. Addresses that are not ready are removed first.

    capacity: maximum number of addresses in all subsets together.
    """
    ready, not_ready = _count(subsets, READY), _count(subsets, NOT_READY)
    if ready + not_ready <= capacity:
        return None
    field, total, most = (READY, ready, capacity) if ready > capacity else (NOT_READY, not_ready, capacity - ready)
    left = most
    found = []
    for subset in subsets:
        addresses = subset.get(field) or ()
        kept = list(addresses[: min(left, math.ceil(len(addresses) / total * most))])
        left -= len(kept)
        changed = {**subset, field: kept}
        if field == READY:
            changed[NOT_READY] = []
        found.append({name: value for name, value in changed.items() if value})
    return found


def _count(subsets: Iterable[Mapping[str, Any]], field: str) -> int:
    return sum(len(subset.get(field) or ()) for subset in subsets)
