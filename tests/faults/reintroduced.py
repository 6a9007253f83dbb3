"""Bugs of kcm that simulated runs have found, as small mutations that undo their corrections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

import kcm.actors.controllers.storage.claim_protection as claim_protection
import kcm.actors.controllers.workloads.replicaset.reconciler as replicaset
import kcm.actors.engine.controller.retries as retries
from kcm.actors.controllers.shared.unknown_outcomes import UnknownOutcomes
from kcm.actors.engine.controller.readiness import Readiness
from kcm.actors.engine.controller.retries import KeyRetries
from kcm.actors.engine.elector.actor import Elector
from kcm.actors.engine.informer.contents import Contents
from kcm.protocols.messages.commands import Get, List
from kcm.protocols.messages.lifecycle import LeaseLost
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.system.ledger import Ledger
from kcm.runtime.tables.table import TableWriter

Mutation = Callable[[], AbstractContextManager[Any]]


@contextmanager
def loss_of_the_lease_is_announced_once() -> Iterator[None]:
    """The elector sends LeaseLost once, so that a manager that is restarted meanwhile misses it."""
    announced: set[int] = set()

    def announce_once(self: Elector) -> None:
        for listener in self._audience if id(self) not in announced else ():
            self.tell(listener, LeaseLost(self._lost, self.name))
        announced.add(id(self))

    with patch.object(Elector, "_announce_loss", announce_once):
        yield


@contextmanager
def early_failures_extend_the_backoff() -> Iterator[None]:
    """A key that fails before its backoff has passed, because of an event, gets a longer backoff."""
    add_rate_limited = WorkQueue.add_rate_limited

    def extend(self: WorkQueue[Any], key: str, now: float) -> float:
        self._backoffs.pop(key, None)
        return add_rate_limited(self, key, now)

    with patch.object(WorkQueue, "add_rate_limited", extend):
        yield


def refused_connections_have_long_backoffs() -> AbstractContextManager[Any]:
    """The backoff of a key whose request was not sent has the usual limit."""
    return patch.object(retries, "NO_RESPONSE", replace(retries.NO_RESPONSE, longest=math.inf))


@contextmanager
def refused_connections_count_as_failures() -> Iterator[None]:
    """Requests that were not sent count towards max_retries."""
    reaction = KeyRetries._reaction

    def counting(self: KeyRetries, err: Exception, attempt: int) -> retries.RetryDecision:
        if self._max_retries is not None and attempt > self._max_retries:
            return retries.TOO_OFTEN
        return reaction(self, err, attempt)

    with patch.object(KeyRetries, "_reaction", counting):
        yield


@contextmanager
def unknown_creations_are_forgotten() -> Iterator[None]:
    """A pod whose creation has an unknown outcome is created under another name, and the status is written before."""
    forgotten = patch.object(UnknownOutcomes, "names_to_retry", lambda *_, **__: {})
    with forgotten, patch.object(replicaset, "raise_if_unknown", lambda _: None):
        yield


def new_incarnations_begin_at_once() -> AbstractContextManager[Any]:
    """A restarted controller does not wait until its tables contain the writes of its predecessor."""
    attach = Readiness.attach
    return patch.object(Readiness, "attach", lambda self, _versions: attach(self, {}))


@contextmanager
def new_incarnations_do_not_wait_for_reads() -> Iterator[None]:
    """A restarted controller waits until its tables contain its predecessor's writes, but not what it only read."""
    settled = Ledger.settled

    def settle(self: Ledger, sender: str, passage: Any, resource: str, version: int) -> None:
        command = self._account(sender).under_way.get(passage)
        settled(self, sender, passage, resource, 0 if isinstance(command, Get | List) else version)

    with patch.object(Ledger, "settled", settle):
        yield


@contextmanager
def versions_of_tables_advance_late() -> Iterator[None]:
    """A table shows a change before its version is that of the change, which is so only at the next event."""
    put, remove, advance, take = TableWriter.put, TableWriter.remove, TableWriter.advance, Contents.take
    due: dict[int, int] = {}

    def late(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(self: TableWriter, *arguments: Any) -> Any:
            before = self.table.version
            result = change(self, *arguments)
            due[id(self.table)], self.table.version = self.table.version, before
            return result

        return changed

    def take_next(self: Contents, line: Any) -> Any:
        advance(self._writer, due.pop(id(self._table), 0))
        return take(self, line)

    changes = patch.object(TableWriter, "put", late(put)), patch.object(TableWriter, "remove", late(remove))
    with changes[0], changes[1], patch.object(Contents, "take", take_next):
        yield


def unseen_users_are_not_checked_again() -> AbstractContextManager[Any]:
    """A claim that only a live list shows as used waits for an event about the pod."""
    return patch.object(claim_protection, "UNSEEN_CHECK", 1e9)


def together(*mutations: Mutation) -> Mutation:
    @contextmanager
    def mutation() -> Iterator[None]:
        with ExitStack() as stack:
            for each in mutations:
                stack.enter_context(each())
            yield

    return mutation
