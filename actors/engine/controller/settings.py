"""Settings of a controller actor, derived from its spec and the options."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from msgspec import Struct, field

from kcm.actors.reconciliation import Running, Watch
from kcm.actors.reconciliation.actor_names import RECORDER
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.specs import call_reconcile
from kcm.protocols.messages.outcomes import Outcome
from kcm.runtime.calls.listeners import SourceRunner
from kcm.runtime.metrics.meters import ReconcileMeter
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.work_queue import PER_KEY, QueueMeter
from kcm.runtime.tables.tables import Tables


class QueueSettings(Struct, frozen=True, kw_only=True):
    """Settings of one work queue of a controller; see Queue in actors/reconciliation/specs.py."""

    name: str  # in logs and metrics
    watches: tuple[Watch[Any], ...] = ()
    reconcile: Callable[[Any, Any], Running] = call_reconcile
    concurrency: int = 5  # keys that are reconciled at once
    max_retries: int | None = None  # successive failures after which a key waits for its next event; None: unlimited
    terminal: tuple[type[Outcome], ...] = ()  # outcomes after which a key waits for its next event at once
    backoff: Backoff = PER_KEY  # of one key
    retry_qps: float = 10.0  # limits of the retries of all keys together
    retry_burst: int = 100
    events_first: bool = False  # see EventsFirst
    priority_of: Callable[[Any, Tables], float] | None = None  # see PriorityQueue
    turn_of: Callable[[Any], Hashable] | None = None  # see RoundRobinQueue
    timeout: float = 0.0  # maximum seconds of a reconciliation of one key; 0: no limit
    meter: QueueMeter = field(default_factory=QueueMeter)


class PassSettings(Struct, frozen=True, kw_only=True):
    """Settings of a periodic pass; see Pass in actors/reconciliation/specs.py."""

    name: str
    every: float  # seconds
    run: Callable[[Any], Running]
    meter: QueueMeter = field(default_factory=QueueMeter)


class ControllerSettings(Struct, frozen=True, kw_only=True):
    """Names, queues and limits that a controller actor runs with."""

    name: str  # canonical, as in --controllers
    client: str  # name of the API client, which has rate limits and possibly an account of its own
    component: str  # source of its events
    recorder: str = RECORDER  # actor that writes its events
    queues: tuple[QueueSettings, ...] = ()
    passes: tuple[PassSettings, ...] = ()
    discovers: Discovered[Any] | None = None
    stale_after: float = 300.0  # age of a table in seconds after which deletions that depend on it wait
    resync: float = 0.0  # seconds between two resyncs; 0: never
    calls: int | None = None  # outside calls at a time; None: no limit of the controller's own
    sources: tuple[tuple[SourceRunner, str], ...] = ()  # with the name of the queue
    meter: ReconcileMeter = field(default_factory=lambda: ReconcileMeter(Metrics(), ""))

    @property
    def has_timeouts(self) -> bool:
        return any(queue.timeout for queue in self.queues)
