"""What actors say of themselves, as values.

…Vitals: said whenever something has changed, and read by health checks without asking (runtime/system/vitals.py).
…Description: the reply to Describe, for people and tests; on the wire a JSON object with these fields.
Times are of the monotonic clock. What is said with each message, or several times a second, is a named tuple: it is
made in a third of a frozen dataclass's time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson

from kcm.protocols.codec import encode
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.lifecycle import Description
from kcm.runtime.scheduling.work_queue import Pending


def description(name: str, facts: object) -> bytes:
    """The reply to Describe, encoded. facts: a dataclass of what JSON can say."""
    return encode(Description(name, orjson.dumps(facts)))


# The manager.


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildVitals:
    """One child of the manager. failures: those that are remembered. started_at: None if its turn has not come."""

    alive: bool
    incarnation: int
    failures: int
    last_error: str
    gave_up: bool
    started_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerDescription:
    """leader: who holds the lease, as last seen. children: by actor name."""

    leading: bool
    leader: str
    draining: bool
    children: Mapping[str, ChildVitals]


class ManagerVitals(NamedTuple):
    """children: by actor name, as the manager knows them. at: when this was said."""

    leading: bool
    leader: str
    draining: bool
    children: Mapping[str, ChildVitals]
    at: float


# The elector.


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectorVitals:
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


# Discovery.


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledDiscovery:
    """what: a group version, or "/api" or "/apis" for all under it. since: when its discovery first failed."""

    what: str
    why: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryVitals:
    """resources: how many are known. stalled: what the last round could not discover. at: when that ended."""

    resources: int
    stalled: tuple[StalledDiscovery, ...]
    at: float


# Controllers.


class InWork(NamedTuple):
    """A key in work, or a pass, whose key is empty. since: when it was taken from its queue."""

    queue: str
    key: str
    since: float


class PendingKey(NamedTuple):
    """A key that a controller has still to sync, or syncs. awaited: the commands whose outcomes it waits for."""

    queue: str
    key: str
    state: Pending
    awaited: Sequence[Command]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldKey:
    """A key that is held back since its reconciliation hung, as InWork has it. hangs: whether its thread does still."""

    queue: str
    key: str
    since: float
    hangs: bool


class Misread(NamedTuple):
    """An object that the model of a controller could not read. resource: its name."""

    resource: str
    key: str
    why: str


class ControllerVitals(NamedTuple):
    """queued: keys that could be begun, and passes that are due. moved: when something was last begun or settled.

    longest: what has been in work for longest. discovered: the Resource.ids of tables that it found by discovery.
    arriving: those of them that it cannot read yet, and since when. held: what hung. misread: what its models cannot
    read.
    """

    ready: bool
    paused: bool
    waiting_for_tables: tuple[str, ...]
    queued: int
    longest: InWork | None
    moved: float
    reconciled: int
    failed: int
    at: float
    discovered: tuple[str, ...]
    arriving: Mapping[str, float]
    held: tuple[HeldKey, ...] = ()
    misread: tuple[Misread, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDescription:
    """How many keys could be begun, wait for their time, and are in work; oldest: the key in work for longest."""

    queued: int
    delayed: int
    in_work: int
    oldest: str | None
    longest_running_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PassDescription:
    """due_in_seconds: None while it runs, before the controller is ready, and if it never runs again."""

    running_seconds: float
    due_in_seconds: float | None
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDescription:
    """queued to longest_running_seconds: of all queues together; queues, passes: by name.

    waiting_for_versions: what the controller's earlier writes require of its tables, by Resource.id.
    own_writes_unseen: how many of its writes no watch has shown yet, by Resource.id.
    """

    ready: bool
    paused: bool
    draining: bool
    waiting_for_tables: tuple[str, ...]
    waiting_for_versions: Mapping[str, int]
    queued: int
    delayed: int
    in_work: int
    longest_running_seconds: float
    reconciled: int
    failed: int
    own_writes_unseen: Mapping[str, int]
    queues: Mapping[str, QueueDescription]
    passes: Mapping[str, PassDescription]
