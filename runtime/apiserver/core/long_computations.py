"""Computations that may take seconds: CEL expressions of policies, match conditions and schemas.

An expression within upstream's cost budget may take about ten seconds here, and one thread serves all requests. A
request therefore computes only up to an allowance. Beyond it, the request is suspended (suspended_requests.py), and the
computation is carried out in slices between other requests. Then the request is handled again from the beginning and
finds the result. Results are stored by a digest of their inputs, so a computation is repeated if an object has changed
in the meantime.

The simulator and `ApiServer.handle` compute everything at once, as no other request waits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.questions import Computation, Unanswered, unanswered
from kcm.runtime.cel import effort

T = TypeVar("T")
AT_ONCE = 10_000  # units of cost, about microseconds, that one attempt to handle a request may compute


class Allowance:
    """Remaining allowance for computations, in units of cost. The server resets it before each attempt at a request."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left: float = AT_ONCE


def key_of(*parts: Any) -> bytes:
    """Return a digest of JSON values and other objects. Other objects count by their identity (`id`)."""
    raw = orjson.dumps(parts, default=_as_json, option=orjson.OPT_NON_STR_KEYS)
    return hashlib.blake2b(raw, digest_size=16).digest()


def _as_json(part: Any) -> Any:
    if isinstance(part, tuple):  # a NamedTuple
        return list(part)
    if isinstance(part, Struct):
        return asdict(part)
    return dict(part) if isinstance(part, Mapping) else id(part)


def carried_out(cluster: Cluster, key: Callable[[], bytes], act: Callable[[], T]) -> T:
    """Call `act`, a computation that may take long, and return its result.

    key: returns a digest of all inputs of `act`; called only if `act` exceeds the allowance.
    act: changes nothing; its result must not be changed.

    Raises the exceptions of `act`, and Unanswered if the allowance is exceeded and the result is not yet known.
    """
    allowance = cluster.allowance
    if allowance is None:
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
        with effort.allowance(allowance.left) as left:
            try:
                return act()
            finally:
                allowance.left = left()
    except effort.TooLongError:
        raise Unanswered((Computation(key() + bytes((generation,)), act, cluster.outside),)) from None
