"""Computations that may take seconds: expressions of policies, match conditions and schemas.

An expression within upstream's cost budget may take about ten seconds here, and one thread serves all requests. A
request therefore computes only up to an allowance. Beyond it, the request is suspended (suspended_requests.py) with a
Computation as its question, which is carried out in slices while other requests are served. The request then starts
again and finds the result. Results are keyed by their inputs, so that a computation is repeated if an object has
changed in the meantime.

The simulator and `ApiServer.handle` compute everything at once, as no other request waits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.questions import Computation, Unanswered, unanswered
from kcm.runtime.cel import effort

T = TypeVar("T")
AT_ONCE = 10_000  # units of cost, about microseconds, that an attempt at a request may take


class Allowance:
    """Patience of a server, reset at each attempt at a request."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left: float = AT_ONCE


def key_of(*parts: Any) -> bytes:
    """Return a digest of values of JSON, and of anything else by its identity."""
    raw = orjson.dumps(parts, default=_as_json, option=orjson.OPT_NON_STR_KEYS)
    return hashlib.blake2b(raw, digest_size=16).digest()


def _as_json(part: Any) -> Any:
    if isinstance(part, tuple):  # a NamedTuple
        return list(part)
    return dict(part) if isinstance(part, Mapping) else id(part)


def carried_out(cluster: Cluster, key: Callable[[], bytes], act: Callable[[], T]) -> T:
    """Return what `act` returns, or raise what it raises.

    act: reads only; its result must not be changed.
    key: returns a digest of all inputs; called only for long computations.
    Raises Unanswered if the allowance is exceeded.
    """
    patience = cluster.patience
    if patience is None:
        return act()
    generation = 0
    while cluster.outside is not unanswered:
        work = Computation(key() + bytes((generation,)), act, cluster.outside)
        try:
            (answer,) = cluster.outside((work,))
        except Unanswered:
            break
        result = answer.result
        assert result is not None
        if isinstance(result.error, Unanswered):  # a conversion webhook must be called: start again with its response
            cluster.outside(result.error.questions)
            generation += 1
            continue
        if result.error is not None:
            raise result.error
        value: T = result.value
        return value
    try:
        with effort.allowance(patience.left) as left:
            try:
                return act()
            finally:
                patience.left = left()
    except effort.TooLongError:
        raise Unanswered((Computation(key() + bytes((generation,)), act, cluster.outside),)) from None
