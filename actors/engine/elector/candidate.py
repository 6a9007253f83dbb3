"""Actor that makes this process a candidate of coordinated leader election (KEP-4355).

It creates and renews a LeaseCandidate. The API server elects one of the candidates.

Takes Synced and WatchEvents from the informer of its LeaseCandidate; Settled, Wake and Restarted. Sends Subscribe and
Submit.

The API server elects the candidate with the oldest emulation version and writes its name into the Lease. Before an
election it sets pingTime of the LeaseCandidates; candidates that do not update renewTime within five seconds do not
take part.
Source: kubernetes v1.36 client-go/tools/leaderelection/leasecandidate.go.

Differs: a LeaseCandidate that was deleted is created again at once, not after five minutes.
"""

from __future__ import annotations

from typing import Any

from kcm.actors.engine.elector.election import Candidacy, Election
from kcm.actors.reconciliation import actor_names
from kcm.protocols.messages.commands import Command, Create, Submit, Update
from kcm.protocols.messages.lifecycle import Restarted, Wake
from kcm.protocols.messages.outcomes import Done, Outcome, Settled
from kcm.protocols.messages.watches import EventType, Subscribe, Synced, WatchEvents
from kcm.protocols.objects import Object, decode_object, encode_object, make_key
from kcm.protocols.resources import LEASE_CANDIDATES
from kcm.protocols.selectors import parse_field_selector
from kcm.protocols.times import format_micro_time, parse_time
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.system.actor import Actor, Context
from kcm.runtime.tables.selection import Selection
from kcm.runtime.tables.table import Table

STRATEGY = "OldestEmulationVersion"
RENEWED_EVERY = 300.0  # seconds
RETRIES = Backoff(first=0.5, most=30.0)


def candidate_selection(election: Election) -> Selection:
    """Return the selection of this process's own LeaseCandidate."""
    fields = parse_field_selector(f"metadata.name={election.identity}")
    return Selection(namespaces=(election.namespace,), fields=fields)


def is_pinged(candidate: Object) -> bool:
    """Report whether the API server has asked for a renewal since the last one."""
    spec = candidate.get("spec") or {}
    ping, renewal = spec.get("pingTime"), spec.get("renewTime")
    return ping is not None and (renewal is None or parse_time(ping) > parse_time(renewal))


class LeaseCandidate(Actor):
    """Actor that creates and renews the LeaseCandidate of this process, named "lease-candidate"."""

    def __init__(self, context: Context, *, election: Election, candidacy: Candidacy, table: Table) -> None:
        """Create a candidate. table: contains the LeaseCandidate of this process, or nothing."""
        super().__init__(context)
        self._election, self._candidacy, self._table = election, candidacy, table
        self._key = make_key(election.namespace, election.identity)
        self._ticket = context.incarnation * 1_000_000_000
        self._in_flight = False
        self._again = False  # renew once more after the request in flight
        self._failures = 0
        self._due: float | None = None

    def started(self) -> None:
        self._subscribe()

    def receive(self, message: Any) -> None:
        match message:
            case Synced():
                self._ensure()
            case WatchEvents(events=events):
                for event in events:
                    if event.type == EventType.DELETED or is_pinged(decode_object(event.object)):
                        self._ensure()
            case Settled(ticket=ticket, outcome=outcome):
                if ticket == self._ticket and self._in_flight:
                    self._settle(outcome)
            case Wake():
                if self._due is not None and self.clock.monotonic() >= self._due:
                    self._due = None
                    self._ensure()
            case Restarted(name=actor_names.DISPATCHER):
                if self._in_flight:
                    self._in_flight = False
                    self._ensure()
            case Restarted(name=name):
                if name == actor_names.informer_name(self._table.id):
                    self._subscribe()
            case _:
                super().receive(message)

    def _subscribe(self) -> None:
        self.tell(actor_names.informer_name(self._table.id), Subscribe(self.name))

    def _ensure(self) -> None:
        """Create the LeaseCandidate if it is missing, else renew it."""
        if not self._table.synced:
            return
        if self._in_flight:
            self._again = True
            return
        self._in_flight, self._again = True, False
        self._ticket += 1
        self.tell(
            actor_names.DISPATCHER,
            Submit(
                self.name, self.context.incarnation, self._election.component, self._ticket, (self._next_command(),)
            ),
        )

    def _next_command(self) -> Command:
        now = format_micro_time(self.clock.now())
        entry = self._table.get(self._key)
        if entry is not None:
            present = decode_object(entry.raw)
            renewed = {**present, "spec": {**(present.get("spec") or {}), "renewTime": now}}
            return Update(LEASE_CANDIDATES.id, self._key, encode_object(renewed))
        candidate = {
            "apiVersion": LEASE_CANDIDATES.api_version,
            "kind": LEASE_CANDIDATES.kind,
            "metadata": {"namespace": self._election.namespace, "name": self._election.identity},
            "spec": {
                "leaseName": self._election.name,
                "binaryVersion": self._candidacy.binary_version,
                "emulationVersion": self._candidacy.emulation_version,
                "strategy": STRATEGY,
                "renewTime": now,
            },
        }
        return Create(LEASE_CANDIDATES.id, self._election.namespace, encode_object(candidate))

    def _settle(self, outcome: Outcome) -> None:
        self._in_flight = False
        now = self.clock.monotonic()
        if isinstance(outcome, Done):
            self._failures = 0
            self._due = now + RENEWED_EVERY
        else:
            error = getattr(outcome, "message", "") or type(outcome).__name__
            self.log.error("Ensuring lease failed", lock=self._key, error=error)
            self._due = now + RETRIES.delay(self._failures)
            self._failures += 1
            self._again = False
        if self._again:
            self._ensure()
        else:
            self.wake_at(self._due)
