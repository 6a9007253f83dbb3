"""TTL-after-finished controller: deletes Jobs spec.ttlSecondsAfterFinished after they have finished.

Input: Jobs. Output: deletions with propagation Foreground. Key: "namespace/name".

Source: kubernetes v1.36 pkg/controller/ttlafterfinished. Differences:
- The resourceVersion that was read from the server is a precondition of the deletion, so that a TTL that is extended at
  the last moment has effect. Upstream's only precondition is the uid.
- A Job without the time when it finished is synced at its next change; upstream retries it without end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from kcm.actors.options import ControllerOptions
from kcm.actors.reconciliation import (
    Because,
    Interest,
    Reconciliation,
    RequeueAfter,
    TerminalError,
    Watch,
    delete,
    get_live,
    itself,
    must,
)
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Index, Queue
from kcm.protocols.field_types import COUNT, TEXT, TIME, check
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import Key, Object, decode_object, is_deleting, key_of
from kcm.protocols.resources import JOBS
from kcm.protocols.times import describe_time, parse_time
from kcm.runtime.flags.declaration import flag
from kcm.runtime.metrics.registry import Family
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

FINISHED = ("Complete", "Failed")  # conditions
EXPIRES = "expires"
YES = "true"

DELETION_DURATION = Family(
    name="ttl_after_finished_controller_job_deletion_duration_seconds",
    kind="histogram",
    help="The time it took to delete the job since it became eligible for deletion",
    buckets=tuple(0.1 * 2**power for power in range(14)),
)


class TtlAfterFinishedOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "TTLAfterFinishedController"

    concurrent_syncs: int = flag(
        5,
        "Number of finished Jobs that are synced concurrently.",
        name="concurrent-ttl-after-finished-syncs",
        config="ConcurrentTTLSyncs",
    )


_CONDITIONS = [{"type": TEXT, "status": TEXT, "lastTransitionTime": TIME}]
_SPEC, _STATUS = {"ttlSecondsAfterFinished": COUNT}, {"conditions": _CONDITIONS}


class Times(NamedTuple):
    """Times of a finished Job, in Unix seconds."""

    finished: float
    expires: float


def times_of(job: Object) -> Times | None:
    """Return the times of a finished Job; None if it is unfinished, is being deleted, or has no TTL.

    Raises ValueError if the Job is malformed, or the time when it finished is missing.
    """
    check(job, {"spec": _SPEC})
    seconds = (job.get("spec") or {}).get("ttlSecondsAfterFinished")
    if seconds is None or is_deleting(job):
        return None
    check(job, {"status": _STATUS})
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in FINISHED and condition.get("status") == "True":
            at = condition.get("lastTransitionTime")
            if not at:
                raise ValueError(f"unable to find the time when the Job {key_of(job)} finished")
            finished = parse_time(at)
            return Times(finished, finished + seconds)
    return None


def expiring(job: Object) -> Iterable[str]:
    """Return the values of the index EXPIRES: YES for finished Jobs with a TTL."""
    try:
        return () if times_of(job) is None else (YES,)
    except ValueError:
        return (YES,)


class TtlAfterFinished:
    def __init__(
        self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, deleted: Callable[[float], None]
    ) -> None:
        """Take the table of Jobs. deleted: observes the seconds between the expiry of a Job and its deletion."""
        self._jobs, self._clock, self._log, self._deleted = tables[JOBS], clock, log, deleted

    def reconcile(self, key: Key) -> Reconciliation:
        """Delete an expired Job, or requeue it until it expires. Source: processJob."""
        self._jobs.require(key)
        job = self._jobs.get(key)
        left = None if job is None else self._left(key, job)
        if left is None or left > 0:
            if left is None:
                return None
            yield Because(f"is deleted at {describe_time(self._clock.now() + left)} (ttlSecondsAfterFinished)")
            return RequeueAfter(left)
        # The TTL may have been extended, and the table may be stale.
        found = yield from must(get_live(JOBS, key), but=(NotFound,))
        if not isinstance(found, Done):
            return None
        job = decode_object(found.body)
        left = self._left(key, job)
        if left is None or left > 0:
            return None if left is None else RequeueAfter(left)
        yield Because(f"expired {-left:.0f} s ago: ttlSecondsAfterFinished have passed since it finished")
        command = delete(JOBS, job, unchanged=True, propagation="Foreground", depends_on=())
        outcome = yield from must(command, but=(NotFound,))
        if isinstance(outcome, Done):
            self._deleted(-left)
            self._log.info("finished job deleted", key=key)
        return None

    def _left(self, key: Key, job: Object) -> float | None:
        """Return the seconds until the Job expires, negative after that; None if it does not expire."""
        try:
            times = times_of(job)
        except ValueError as err:
            raise TerminalError(str(err)) from err
        if times is None:
            return None
        now = self._clock.now()
        if times.finished > now:
            self._log.info(
                "Warning: Found Job finished in the future. This is likely due to time skew in the cluster. "
                "Job cleanup will be deferred.",
                key=key,
            )
        # At most the TTL: a delay computed from a wrong clock would not become shorter when the clock is corrected.
        return min(times.expires - now, max(times.expires - times.finished, 1.0))


def _build(context: ControllerContext) -> TtlAfterFinished:
    duration = context.metrics.histogram(DELETION_DURATION)
    return TtlAfterFinished(tables=context.tables, clock=context.clock, log=context.log, deleted=duration.observe)


SPEC = ControllerSpec(
    name="ttl-after-finished-controller",
    aliases=("ttl-after-finished",),
    never_blocks=True,
    component="ttl-after-finished-controller",
    queues=(
        Queue(
            "ttl_jobs_to_delete",
            watches=(Watch(JOBS, to=itself, interest=Interest(indexed=((EXPIRES, YES),))),),
            concurrency=lambda options: options[TtlAfterFinishedOptions].concurrent_syncs,
            terminal=(),
        ),
    ),
    indexes=(Index(JOBS, EXPIRES, expiring),),
    build=_build,
    options=TtlAfterFinishedOptions,
)
