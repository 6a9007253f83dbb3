"""Computations that may take seconds: expressions of policies, match conditions and schemas.

An expression within upstream's cost budget takes up to some ten seconds here, and one thread serves all. So a request
carries out what it needs up to an allowance. Beyond that it is suspended (outside.py): the computation is a question,
Work, which whoever carries out the request has carried out in slices, while others are served; then the request begins
again, and finds the result. A result is known by what it was computed from, so that a computation on an object that has
changed meanwhile is another one.

The simulator, and `ApiServer.handle`, carry out all at once: their runs are exact, and nobody else waits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.questions import Unanswered, Work, unanswered
from kcm.runtime.cel import effort

T = TypeVar("T")
AT_ONCE = 10_000  # units of cost, about microseconds, that an attempt at a request may take


class Allowance:
    """The patience of a server: set anew with each attempt at a request."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left: float = AT_ONCE


def key_of(*parts: Any) -> bytes:
    """Return a digest of values of JSON, and of anything else by its identity."""
    raw = orjson.dumps(parts, default=_as_json, option=orjson.OPT_NON_STR_KEYS)
    return hashlib.blake2b(raw, digest_size=16).digest()


def _as_json(part: Any) -> Any:
    if isinstance(part, tuple):  # a named one
        return list(part)
    return dict(part) if isinstance(part, Mapping) else id(part)


def carried_out(cluster: Cluster, key: Callable[[], bytes], act: Callable[[], T]) -> T:
    """Return what `act` returns, or raise what it raises.

    act: may read, but changes nothing that others see; its result must not be changed.
    key: of all that it is computed from; is only called where it takes long.
    Raises Unanswered where that is too much for the moment.
    """
    patience = cluster.patience
    if patience is None:
        return act()
    generation = 0
    while cluster.outside is not unanswered:
        work = Work(key() + bytes((generation,)), act, cluster.outside)
        try:
            (answer,) = cluster.outside((work,))
        except Unanswered:
            break
        result = answer.result
        assert result is not None
        if isinstance(result.error, Unanswered):  # of a webhook that converts: it begins again with the answer
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
        raise Unanswered((Work(key() + bytes((generation,)), act, cluster.outside),)) from None
