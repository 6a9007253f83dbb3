"""How one controller is driven."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from typing import Any

from kcm.actors.reconciliation import Running, Watch
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.specs import call_reconcile
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.outcomes import Outcome
from kcm.runtime.calls.listeners import SourceRunner
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.work_queue import PER_KEY, QueueMeter


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """One work queue of a controller; see Queue in actors/reconciliation/specs.py.

    name: in logs and metrics. concurrency: keys in work at once. max_retries: after so many failures in a row a key is
    dropped until its next event; None never. terminal: outcomes that are not tried again before its next event.
    backoff, retry_qps, retry_burst: how soon a key that failed is tried again. events_first: see EventsFirst.
    turn_of: see Turns.
    """

    name: str
    watches: tuple[Watch[Any], ...] = ()
    reconcile: Callable[[Any, Any], Running] = call_reconcile
    concurrency: int = 5
    max_retries: int | None = None
    terminal: tuple[type[Outcome], ...] = ()
    backoff: Backoff = PER_KEY
    retry_qps: float = 10.0
    retry_burst: int = 100
    events_first: bool = False
    turn_of: Callable[[Any], Hashable] | None = None
    meter: QueueMeter = field(default_factory=QueueMeter)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSettings:
    """A periodic pass of a controller; see Pass in actors/reconciliation/specs.py. every: seconds."""

    name: str
    every: float
    run: Callable[[Any], Running]
    meter: QueueMeter = field(default_factory=QueueMeter)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """name: canonical, as --controllers has it. client: whose API client it uses; component: its events' source.

    stale_after: seconds without a sign of life of a table after which nothing is deleted. resync: seconds after which
    everything is enqueued again; 0 never. calls: of functions outside, at a time; None: no bound of its own.
    sources: each with its queue.
    """

    name: str
    client: str
    component: str
    queues: tuple[QueueSettings, ...] = ()
    passes: tuple[PassSettings, ...] = ()
    discovers: Discovered[Any] | None = None
    stale_after: float = 300.0
    resync: float = 0.0
    calls: int | None = None
    sources: tuple[tuple[SourceRunner, str], ...] = ()
