"""State that actors publish: vitals and descriptions.

…Vitals: published after each change, and read by health checks without a message (runtime/system/vitals.py).
…Description: reply to Describe, for people and tests; encoded as a JSON object with these fields.

Times are monotonic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import NamedTuple, Protocol

import orjson
from msgspec import Struct, field
from msgspec.structs import asdict

from kcm.protocols.codec import encode
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.lifecycle import Description
from kcm.runtime.scheduling.limiters import TokenBucket
from kcm.runtime.scheduling.work_queue import Pending


def description(name: str, facts: object) -> bytes:
    """Return the encoded reply to Describe. facts: a Struct that can be encoded as JSON."""
    return encode(Description(name, orjson.dumps(facts, default=asdict)))


# The webhook server.


class WebhookServerVitals(Struct, frozen=True, kw_only=True):
    """State of the webhook server. problem: why it does not serve, or not with the certificates of the Secret."""

    is_serving: bool
    problem: str


# The manager.


class ChildVitals(Struct, frozen=True, kw_only=True):
    """State of one child of the manager."""

    alive: bool
    incarnation: int
    failures: int  # recent failures
    last_error: str
    gave_up: bool
    started_at: float | None  # None: not started yet
    owner: str = ""  # controller that requested this child; "": the manager started it by itself
    # Since when it has been handling the same message, as seen by two supervision ticks; None: it makes progress.
    busy_since: float | None = None


class ManagerDescription(Struct, frozen=True, kw_only=True):
    """State of the manager."""

    leading: bool
    leader: str  # holder of the lease as last seen
    draining: bool
    children: Mapping[str, ChildVitals]  # by actor name


class ManagerVitals(NamedTuple):
    """State of the manager."""

    leading: bool
    leader: str  # holder of the lease as last seen
    draining: bool
    children: Mapping[str, ChildVitals]  # by actor name, as of the last supervision tick
    at: float  # when this was published
    wanted: frozenset[str] = frozenset()  # names of the enabled controllers
    paused: frozenset[str] = frozenset()  # names of the controllers that an operator has paused
    leads: frozenset[str] = frozenset()  # electors whose leases are held; without leader election, all


# The elector.


class ElectorVitals(Struct, frozen=True, kw_only=True):
    """State of the leader election."""

    leading: bool
    # When the last successful renewal was sent.
    renewed_at: float
    # Identity in the Lease as last seen; "" if no process holds it.
    holder: str = ""
    # When the Lease expires unless its holder renews it.
    free_at: float = 0.0
    # Verb, resource and reason of the request that failed in the latest try; "" if it did not fail.
    failure: str = ""
    # Since when every try has failed.
    failing_since: float = 0.0


class CoordinatorVitals(Struct, frozen=True, kw_only=True):
    """State of the coordinator of groups of controllers."""

    # Living replicas with the same groups, including this one.
    replicas: int = 0
    # Identities of the holders of the Leases of groups; "" without a holder.
    holders: Mapping[str, str] = field(default_factory=dict)
    # Request that failed in the latest round, and why; "" if none failed.
    failure: str = ""
    # Since when every round has failed.
    failing_since: float = 0.0


# Discovery.


class StalledDiscovery(Struct, frozen=True, kw_only=True):
    """Part of the API whose discovery fails."""

    what: str  # a group version, or "/api" or "/apis" for everything below
    why: str
    since: float  # when its discovery first failed


class DiscoveryVitals(Struct, frozen=True, kw_only=True):
    """State of the discovery."""

    resources: int  # number of known resources
    stalled: tuple[StalledDiscovery, ...]  # failures of the last round
    at: float  # end of the last round


# The zones of nodes.


class ZoneVitals(NamedTuple):
    """State of a zone, as of the last pass over the nodes. rate: that its state requires, in nodes per second.

    spared: no node is evicted.
    """

    state: str
    ready: int
    not_ready: int
    rate: float
    spared: bool


class ZonesVitals(NamedTuple):
    """States of the zones, by name. Published by node-lifecycle."""

    zones: Mapping[str, ZoneVitals]


class ZoneQueueVitals(NamedTuple):
    """State of the eviction queue of a zone.

    waiting: number of nodes. next_nodes: the first of them.
    qps: effective rate; None before there is one. override: rate that an operator has set.
    due: monotonic time at which the next node may be released; None without a rate.
    """

    waiting: int
    next_nodes: tuple[str, ...]
    qps: float | None
    override: float | None
    burst: int
    paused: bool
    released: int
    due: float | None


# The event recorder.


class RefusedEvents(NamedTuple):
    """Events of one client that the API server refused in a row.

    verb: of the last refused request, create or patch.
    times: number of refusals in a row.
    since, last: monotonic times of the first and the last refusal.
    message: the server's text.
    """

    verb: str
    times: int
    since: float
    last: float
    message: str


class RecorderVitals(NamedTuple):
    """State of the event recorder. refused: by client."""

    refused: Mapping[str, RefusedEvents]


# The dispatcher.


class DispatcherVitals(NamedTuple):
    """State of the dispatcher, by client. The values change after it was published, and any thread reads them."""

    buckets: Mapping[str, TokenBucket]  # rate limit
    queues: Mapping[str, Sized]  # commands that wait
    throttled: Mapping[str, int]  # number of commands that had to wait for the rate limit


# Controllers.


class InWork(NamedTuple):
    """Key that is being reconciled, or a pass, whose key is empty. since: when it was taken from its queue."""

    queue: str
    key: str
    since: float


class PendingKey(NamedTuple):
    """Queued or running key of a controller. awaited: commands whose outcomes it waits for."""

    queue: str
    key: str
    state: Pending
    awaited: Sequence[Command]


class HeldKey(Struct, frozen=True, kw_only=True):
    """Key (or pass) that is held back because its reconciliation hung. hangs: its thread still hangs."""

    queue: str
    key: str
    since: float
    hangs: bool


class KeyProgress(Struct, frozen=True):
    """State of one key of a controller, or of a pass. Times are monotonic; None if the key is not in that state.

    queued: since when it is ready to be reconciled.
    due: end of its delay.
    taken: since when it is being reconciled.
    failures: failed reconciliations in a row.
    """

    queued: float | None
    due: float | None
    taken: float | None
    failures: int


class SyncHistory:
    """Latest results of one work queue or pass, with the failures in a row since its last success.

    Written by the controller's thread and read by health checks on any thread.

    succeeded_at: end of the last successful sync; None without a success of this incarnation.
    failures: failed syncs since then. Requested retries, and keys that wait for a table, do not count.
    failing_since: first of these failures.
    failed_keys: some of the keys that failed, at most FAILED_KEYS.
    last_error: key and error of the last failure, in one line.
    """

    __slots__ = ("failed_keys", "failing_since", "failures", "last_error", "succeeded_at")

    def __init__(self) -> None:
        self.succeeded_at: float | None = None
        self.failures, self.failing_since = 0, 0.0
        self.failed_keys: frozenset[str] = frozenset()
        self.last_error = ""

    def succeed(self, now: float) -> None:
        self.succeeded_at = now
        if self.failures:
            self.failures, self.failed_keys = 0, frozenset()

    def fail(self, key: str, error: str, now: float) -> None:
        if not self.failures:
            self.failing_since = now
        if len(self.failed_keys) < FAILED_KEYS:
            self.failed_keys |= {key}
        self.last_error = f"{key}: {error}" if key else error
        self.failures += 1


FAILED_KEYS = 5  # keys that SyncHistory remembers


class SourceLoad(NamedTuple):
    """Numbers of keys of a work queue; of a pass, whether it waits or runs.

    delayed: keys that wait for their time.
    in_work: keys that are being reconciled.
    longest: the one of them that was taken first.
    due: of a pass, the monotonic time at which it is due; None while it runs, and for a queue.
    """

    queued: int
    delayed: int
    in_work: int
    longest: InWork | None
    due: float | None = None


class SourceVitals(Protocol):
    """State of one work queue or pass of a controller. Read from any thread, also while the controller hangs."""

    @property
    def name(self) -> str: ...

    @property
    def is_pass(self) -> bool: ...

    @property
    def history(self) -> SyncHistory: ...

    def oldest_waiting(self) -> InWork | None:
        """Return the key that has been ready for longest. Its `since` is when it became ready."""

    def pending(self) -> int:
        """Return the number of keys that are queued, delayed or being reconciled."""

    def counted(self) -> SourceLoad:
        """Return the numbers of keys in each state."""

    def known_keys(self) -> int | None:
        """Return the number of keys that exist, one per object; None if keys do not name objects of one table."""

    def state_of(self, key: str) -> KeyProgress | None:
        """Return the state of a key, "" for a pass; None if it is neither queued, delayed nor being reconciled."""


class DeniedRight(NamedTuple):
    """Right that the API server denies to a controller, as an access review confirmed.

    resource: its name, "replicasets.apps" or "replicasets.apps/status".
    namespace: "" for cluster-scoped objects.
    times, since: number of refusals in a row, and the first of them.
    message: the server's text.
    """

    verb: str
    resource: str
    namespace: str
    times: int
    since: float
    message: str


class Misread(NamedTuple):
    """Object that the model of a controller could not read. resource: the name of its resource."""

    resource: str
    key: str
    why: str


class WorkVitals(Protocol):
    """Progress of a controller's reconciliations. Read from any thread, also while the controller hangs."""

    @property
    def moved(self) -> float:
        """Return when a reconciliation was last started or an outcome received."""

    @property
    def reconciled(self) -> int:
        """Return the number of reconciliations that succeeded."""

    @property
    def failed(self) -> int:
        """Return the number of reconciliations that failed."""


class ControllerVitals(NamedTuple):
    """State of a controller.

    `work` and `sources` change after they were published. The rest changes rarely, so it is published only then.
    """

    ready: bool
    paused: bool
    waiting_for_tables: tuple[str, ...]
    work: WorkVitals
    at: float
    discovered: tuple[str, ...]  # Resource.ids of discovered tables
    arriving: Mapping[str, float]  # discovered tables that cannot be read yet, and since when
    held: tuple[HeldKey, ...] = ()
    misread: tuple[Misread, ...] = ()
    denied: tuple[DeniedRight, ...] = ()
    sources: tuple[SourceVitals, ...] = ()
    may_begin_since: float = 0.0  # when it last became ready or was resumed


class QueueDescription(Struct, frozen=True, kw_only=True):
    """State of one queue of a controller."""

    queued: int  # keys that are ready to be reconciled
    delayed: int  # keys that wait for their time
    in_work: int  # keys that are being reconciled
    oldest: str | None  # longest running key
    longest_running_seconds: float
    oldest_waiting: str | None  # key that has been ready to be reconciled for longest
    longest_waiting_seconds: float
    failures_in_a_row: int  # failed reconciliations since the last success
    since_success_seconds: float | None  # None without a success of this incarnation


class PassDescription(Struct, frozen=True, kw_only=True):
    """State of one pass of a controller."""

    running_seconds: float
    due_in_seconds: float | None  # None while it runs, before the controller is ready, and if it never runs again
    failures: int


class ControllerDescription(Struct, frozen=True, kw_only=True):
    """State of a controller. Numbers without a queue are the sum of all queues."""

    ready: bool
    paused: bool
    draining: bool
    waiting_for_tables: tuple[str, ...]
    waiting_for_versions: Mapping[str, int]  # versions that its tables must reach after earlier writes, by Resource.id
    queued: int
    delayed: int
    in_work: int
    longest_running_seconds: float
    reconciled: int
    failed: int
    own_writes_unseen: Mapping[str, int]  # number of own writes that no watch has shown yet, by Resource.id
    queues: Mapping[str, QueueDescription]  # by name
    passes: Mapping[str, PassDescription]  # by name
