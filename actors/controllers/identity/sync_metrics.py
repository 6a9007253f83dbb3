"""Metrics of the two controllers that publish root certificates: number and duration of syncs by HTTP status code.

Source: kubernetes v1.36 pkg/controller/certificates/{rootcacertpublisher,clustertrustbundlepublisher}/metrics.go.
"""

from __future__ import annotations

from kcm.actors.reconciliation import Step
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Failure,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerFailure,
    Throttled,
)
from kcm.runtime.metrics.registry import Family, Metrics
from kcm.runtime.scheduling.clock import Clock

_BUCKETS = tuple(0.001 * 2**number for number in range(15))
_CODES = {NotFound: 404, AlreadyExists: 409, Conflict: 409, Gone: 410, Throttled: 429}


def families(subsystem: str, *, help: str, duration_help: str = "") -> tuple[Family, Family]:
    """Return the definitions of a controller's sync counter and sync duration histogram.

    subsystem: prefix of the metric names.
    duration_help: help text of the histogram; "" for that of the counter.
    """
    total = Family(name=f"{subsystem}_sync_total", kind="counter", help=help, labels=("code",))
    duration = Family(
        name=f"{subsystem}_sync_duration_seconds",
        kind="histogram",
        help=duration_help or help,
        labels=("code",),
        buckets=_BUCKETS,
    )
    return total, duration


class SyncMetrics:
    def __init__(self, metrics: Metrics, clock: Clock, *, total: Family, duration: Family) -> None:
        self._metrics, self._clock = metrics, clock
        self._total, self._duration = total, duration

    def measure(self, sync: Step[None]) -> Step[None]:
        """Run a sync, and record its count and duration under its HTTP status code.

        The code is 200 for success, the API server's code for a CommandError, and 500 for other exceptions.
        """
        began, code = self._clock.monotonic(), 500
        try:
            yield from sync
            code = 200
        except CommandError as err:
            code = code_of(err.failure)
            raise
        except GeneratorExit:
            code = 0  # the sync is abandoned, for example because the actor is replaced: not counted
            raise
        finally:
            if code:
                self._metrics.counter(self._total, str(code)).inc()
                self._metrics.histogram(self._duration, str(code)).observe(self._clock.monotonic() - began)


def code_of(failure: Failure) -> int:
    if isinstance(failure, Forbidden | Invalid | ServerFailure):
        return failure.code
    return _CODES.get(type(failure), 500)
