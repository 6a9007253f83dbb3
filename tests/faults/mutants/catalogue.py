"""Bugs that Kubernetes or its clients once had, rebuilt as small mutations of our runtime and reconcilers.

Each is a context manager that puts the bug in and takes it out again. What a mutation changes is named by where it is;
`source` says which bug it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any
from unittest.mock import patch

import actors.workloads.replicaset as replicaset
from actors.dispatcher import Dispatcher
from actors.informer import Informer
from actors.informer.contents import Contents
from actors.reconciliation import delete
from actors.setting import USUAL, Setting
from protocols.messages.watching import EventType
from protocols.objects import name_of
from protocols.resources import PODS
from runtime.actor import Actor
from runtime.backoff import Backoff
from runtime.overlay import Overlay
from runtime.simulation.faults import Fault, Kind
from runtime.simulation.plan import draw_plan, draw_stale_state, draw_unobserved_state
from runtime.table import TableWriter
from runtime.work_queue import WorkQueue

Mutation = Callable[[], Any]
EXPIRED = 5.0  # seconds; upstream's expectations expire after five minutes


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """source: the issue, or the change that mended it. setting: where it is looked for."""

    name: str
    source: str
    mutation: Mutation
    setting: Setting = USUAL


def _random_names() -> Any:
    """Pods are named anew with every try, as generateName does."""
    numbers = count()

    def names(owner: Any, wanted: int, *, taken: Any) -> list[str]:
        return [f"{name_of(owner)}-m{next(numbers)}" for _ in range(wanted)]

    return patch.object(replicaset, "pod_names", names)


@contextmanager
def expectations_expire() -> Iterator[None]:
    """Own writes that the watch has not brought after a while are taken for never made."""
    told: dict[int, float] = {}
    current = Overlay._current

    def expiring(self: Overlay, key: str) -> Any:
        own = current(self, key)
        if own is not None and self.table.heard is not None:
            first = told.setdefault(id(own), self.table.heard)
            if self.table.heard - first > EXPIRED:
                self._own.pop(key, None)
                return None
        return own

    with _random_names(), patch.object(Overlay, "_current", expiring):
        yield


@contextmanager
def cache_only() -> Iterator[None]:
    """Decisions rest on the cache alone, however late it is."""
    with _random_names(), patch.object(Overlay, "wrote", lambda self, raw: None):
        yield


@contextmanager
def resumed_from_an_item() -> Iterator[None]:
    """After a list, the watch begins at the version of the newest item in it, and not at the list's."""
    replace = TableWriter.replace

    def from_items(self: TableWriter, entries: Any, version: int) -> None:
        entries = list(entries)
        replace(self, entries, max((entry.resource_version for entry in entries), default=1))

    with patch.object(TableWriter, "replace", from_items):
        yield


@contextmanager
def silent_watch_is_trusted() -> Iterator[None]:
    """A watch that says nothing is taken for one in which nothing happens."""
    look = Informer._look_at_the_time

    def trusting(self: Informer) -> None:
        self._table.heard = self.clock.monotonic()
        self._server.began = self.clock.monotonic()
        look(self)

    with patch.object(Informer, "_look_at_the_time", trusting):
        yield


@contextmanager
def gone_is_tried_again() -> Iterator[None]:
    """After 410 the same watch is asked for again."""
    with patch.object(Informer, "_gone", lambda self, why: self._back_off(why)):
        yield


@contextmanager
def relist_forgets_deletions() -> Iterator[None]:
    """A relist tells of what is new, and not of what is gone."""
    emit = Contents._emit

    def forgetful(self: Contents, type: EventType, entry: Any, previous: Any) -> None:
        if type is EventType.DELETED and entry is previous:
            return
        emit(self, type, entry, previous)

    with patch.object(Contents, "_emit", forgetful):
        yield


@contextmanager
def failures_are_dropped() -> Iterator[None]:
    """What fails waits for its next event."""

    def dropped(self: WorkQueue, key: str, now: float) -> float:
        return 0.0

    with patch.object(WorkQueue, "add_rate_limited", dropped):
        yield


@contextmanager
def lease_is_not_looked_at() -> Iterator[None]:
    """Who has led once writes on."""

    def any_time(self: Dispatcher, job: Any, now: float) -> str | None:
        return None if self._may_write_until is not None or not self._limits.needs_lease else refusal(self, job, now)

    refusal = Dispatcher._refusal
    with patch.object(Dispatcher, "_refusal", any_time):
        yield


@contextmanager
def fenced_actors_work_on() -> Iterator[None]:
    """An actor that was replaced while it hung handles its mail when it comes to."""
    handle = Actor._handle  # type: ignore[attr-defined]
    with patch.object(Actor, "on_receive", lambda self, frame: handle(self, frame)):
        yield


@contextmanager
def deleted_by_name() -> Iterator[None]:
    """A deletion says a name and no uid."""

    def by_name(resource: Any, key: str, *, uid: str | None = None, **more: Any) -> Any:
        return delete(resource, key, uid=None if resource is PODS else uid, **more)

    with patch("actors.workloads.pod_control.delete", by_name):
        yield


@contextmanager
def retries_without_backoff() -> Iterator[None]:
    """What fails is tried again at once."""
    with patch.object(Backoff, "delay", lambda self, failures, chance=0.0: 0.001):
        yield


@contextmanager
def pods_are_not_watched_for() -> Iterator[None]:
    """An informer that is restarted is not told who its subscribers were."""
    with patch("actors.controller.Controller._peer_restarted", lambda self, *_: None):
        yield


def drawn(draw: Callable[..., tuple[Fault, ...]]) -> Setting:
    return Setting(draw=draw)


def stalls(seed: int, **arguments: Any) -> tuple[Fault, ...]:
    """Watches that are late or silent, and nothing else."""
    plan = draw_plan(seed, **arguments, kinds=(Kind.WATCH_LAGGING, Kind.WATCH_STALLED))
    return plan


def takeovers(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """The leader stands still for longer than its lease lasts, and comes to with mail in every box."""
    start = 1.0 + seed % 40 / 2
    return (Fault(kind=Kind.PROCESS_PAUSED, start=start, until=start + 20.0, process="manager"),)


def hangs(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """The dispatcher hangs for so long that it is replaced, and comes to."""
    return (
        Fault(kind=Kind.ACTOR_HUNG, start=seed % 40 / 2, actor="dispatcher", process="manager*", most=1, seconds=50.0),
    )


TWO_MANAGERS = Setting(draw=takeovers, elections=lambda _seed: 2)

MUTANTS = (
    Mutant(
        name="expectations expire",
        source="kubernetes/kubernetes#129795",
        mutation=expectations_expire,
        setting=drawn(stalls),
    ),
    Mutant(
        name="decisions from a late cache",
        source="kubernetes/kubernetes, before expectations (pkg/controller/controller_utils.go)",
        mutation=cache_only,
    ),
    Mutant(
        name="watch resumed from an item's resourceVersion",
        source="client-go reflector: the list's version is the one to watch from",
        mutation=resumed_from_an_item,
        setting=drawn(draw_unobserved_state),
    ),
    Mutant(
        name="a silent watch is never renewed",
        source="kubernetes/kubernetes#65012 and its kin: connections that are dead and stay open",
        mutation=silent_watch_is_trusted,
        setting=drawn(stalls),
    ),
    Mutant(
        name="no relist after 410",
        source="kubernetes-client/python#972 and its kin",
        mutation=gone_is_tried_again,
        setting=drawn(draw_unobserved_state),
    ),
    Mutant(
        name="a relist forgets what is gone",
        source="client-go DeletedFinalStateUnknown",
        mutation=relist_forgets_deletions,
        setting=drawn(draw_unobserved_state),
    ),
    Mutant(name="a failure is not tried again", source="Sieve, missing retry", mutation=failures_are_dropped),
    Mutant(
        name="a deposed leader writes",
        source="kubernetes/kubernetes#90216 and its kin: work goes on after the lease",
        mutation=lease_is_not_looked_at,
        setting=TWO_MANAGERS,
    ),
    Mutant(
        name="a replaced actor works on",
        source="no fencing of a hung worker",
        mutation=fenced_actors_work_on,
        setting=drawn(hangs),
    ),
    Mutant(
        name="deleted by name",
        source="kubernetes/kubernetes#51232 and its kin: no uid precondition",
        mutation=deleted_by_name,
        setting=drawn(draw_stale_state),
    ),
    Mutant(name="no backoff", source="hot loops, kubernetes/kubernetes#72593", mutation=retries_without_backoff),
    Mutant(
        name="a restarted informer has no subscribers",
        source="a peer that is new and knows nobody",
        mutation=pods_are_not_watched_for,
    ),
)
