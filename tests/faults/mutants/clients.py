"""Mutants of the common layer of controllers: watches, tables, retries, and own writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

import kcm.actors.controllers.workloads.replicaset.reconciler as replicaset
from kcm.actors.engine.informer import Informer
from kcm.actors.engine.informer.contents import Contents, Difference
from kcm.actors.simulation.campaign.setting import Setting
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import name_of
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.simulation.plan import draw_unobserved_state
from kcm.runtime.tables.overlay import Overlay
from kcm.runtime.tables.table import Table, TableWriter
from tests.faults.combined_actions import COMBINED_WORKLOADS, workload_actions
from tests.faults.mutants.mutant import Mutant
from tests.faults.mutants.oracles import NothingListedAgain
from tests.faults.mutants.plans import forgetful_servers, stalls
from tests.faults.mutants.scenarios import changed

EXPIRED = 5.0  # seconds; upstream's expectations expire after five minutes


def _random_names() -> Any:
    """Each creation of a pod has a new name, as with generateName."""
    numbers = count()

    def names(owner: Any, wanted: int, *, taken: Any) -> list[str]:
        return [f"{name_of(owner)}-m{next(numbers)}" for _ in range(wanted)]

    return patch.object(replicaset, "generated_names", names)


@contextmanager
def expectations_expire() -> Iterator[None]:
    """Own writes are dropped if the watch does not show them within some time."""
    first_heard: dict[int, float] = {}
    current = Overlay._current

    def expiring(self: Overlay, key: str) -> Any:
        own = current(self, key)
        if own is not None and self.table.heard is not None:
            first = first_heard.setdefault(id(own), self.table.heard)
            if self.table.heard - first > EXPIRED:
                self._own.pop(key, None)
                return None
        return own

    with _random_names(), patch.object(Overlay, "_current", expiring):
        yield


@contextmanager
def cache_only() -> Iterator[None]:
    """Decisions are based on the table without own writes."""
    with _random_names(), patch.object(Overlay, "wrote", lambda self, raw: None):
        yield


@contextmanager
def resumed_from_an_item() -> Iterator[None]:
    """After a paged list, the watch begins at the version of the last item instead of the list's."""
    list_anew, replace = Informer._list, TableWriter.replace

    def in_pages(self: Informer) -> None:
        self._streaming_lists = False
        list_anew(self)

    def from_item(self: TableWriter, entries: Any, version: int) -> None:
        items: Sequence[Any] = list(entries)
        replace(self, items, items[-1].resource_version if items else 1)

    with patch.object(Informer, "_list", in_pages), patch.object(TableWriter, "replace", from_item):
        yield


@contextmanager
def silent_watch_is_trusted() -> Iterator[None]:
    """A watch without events or bookmarks counts as up to date."""
    look = Informer._look_at_the_time

    def trusting(self: Informer) -> None:
        self._table.heard = self.clock.monotonic()
        self._server.began = self.clock.monotonic()
        look(self)

    with patch.object(Informer, "_look_at_the_time", trusting):
        yield


@contextmanager
def gone_is_tried_again() -> Iterator[None]:
    """After 410 Gone the same watch is opened again."""
    with patch.object(Informer, "_gone", lambda self, why: self._back_off(why)):
        yield


@contextmanager
def relist_forgets_deletions() -> Iterator[None]:
    """A relist sends additions and changes, but no deletions."""
    end_list = Contents.end_list

    def forgetful(self: Contents, version: int) -> list[Difference]:
        return [event for event in end_list(self, version) if event.type is not EventType.DELETED]

    with patch.object(Contents, "end_list", forgetful):
        yield


@contextmanager
def failures_are_dropped() -> Iterator[None]:
    """A failed key is not retried before its next event."""

    def dropped(self: WorkQueue, key: str, now: float) -> float:
        return 0.0

    with patch.object(WorkQueue, "add_rate_limited", dropped), patch.object(WorkQueue, "add_after", dropped_later):
        yield


def dropped_later(self: WorkQueue, key: str, delay: float, now: float) -> None:
    """Ignore requests to requeue a key later."""


@contextmanager
def retries_without_backoff() -> Iterator[None]:
    """A failed key is retried at once."""
    with patch.object(Backoff, "delay", lambda self, failures, chance=0.0: 0.001):
        yield


@contextmanager
def subscribers_are_forgotten() -> Iterator[None]:
    """A restarted informer has no subscribers, and they do not subscribe again."""
    claim = Table.claim

    def claim_anew(self: Table) -> TableWriter:
        writer = claim(self)
        for subscriber in writer.audience.subscribers:
            writer.audience.unsubscribe(subscriber)
        return writer

    deaf = patch("kcm.actors.engine.controller.peers.Peers.restarted", lambda self, *_: None)
    with deaf, patch.object(Table, "claim", claim_anew):
        yield


CLIENTS = (
    Mutant(
        name="expectations expire",
        source="kubernetes/kubernetes#129795",
        mutation=expectations_expire,
        setting=Setting(draw=stalls, actions=workload_actions()),
    ),
    Mutant(
        name="decisions from a late cache",
        source="ray-project/kuberay#715",
        mutation=cache_only,
    ),
    Mutant(
        name="watch resumed from an item's resourceVersion",
        source="kubernetes-client/python#1018",
        mutation=resumed_from_an_item,
        setting=Setting(draw=forgetful_servers, invariants=lambda cluster, _scenario: (NothingListedAgain(cluster),)),
    ),
    Mutant(
        name="a silent watch is never renewed",
        source="kubernetes/client-go#755",
        mutation=silent_watch_is_trusted,
        setting=Setting(draw=stalls),
    ),
    Mutant(
        name="no relist after 410",
        source="kubernetes-client/java#1628",
        mutation=gone_is_tried_again,
        setting=Setting(draw=draw_unobserved_state),
    ),
    Mutant(
        name="a relist forgets what is gone",
        source="kubernetes/kubernetes#115658",
        mutation=relist_forgets_deletions,
        setting=Setting(draw=forgetful_servers, actions=changed("kill")),
    ),
    Mutant(name="a failure is not tried again", source="kubernetes/kubernetes#67662", mutation=failures_are_dropped),
    Mutant(name="no backoff", source="kubernetes/kubernetes#30626", mutation=retries_without_backoff),
    Mutant(
        name="a restarted informer has no subscribers",
        source="kubernetes-client/javascript#795",
        mutation=subscribers_are_forgotten,
        setting=COMBINED_WORKLOADS,
    ),
)
