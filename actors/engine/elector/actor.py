"""The elector: runs for leader on a Lease, and notifies the actors that depend on it.

Takes Settled, Wake and Drain (release the lease). Sends LeaseHeld, LeaseLost, LeaderObserved, Drained, Submit and
Record. An elector that waits for a request competes after Compete, and stops competing after Withdraw.

A lease of another holder is valid until it has been unchanged for its duration, measured by our own clock: timestamps
of other machines are never compared. We may write until the renew deadline, measured from the moment at which the last
successful renewal was *sent*; that is before another process could acquire the lease.
Source: kubernetes v1.36 client-go/tools/leaderelection/leaderelection.go.

Differences from upstream:

- After a suspension of the machine the deadline has passed before a renewal was possible. The lease is then lost only
  if it cannot be renewed at once; nothing is written before that.
- A leader that finds another holder in the Lease stops leading at once, not at the renew deadline.
- With coordinated leader election, a leader that finds a preferredHolder in the Lease stops leading at once, and lets
  the Lease expire, as upstream.
- A standby reads the Lease at least every second and when it expires, not every 2 to 4.4 s, so that it takes over soon
  after the leader released it or was killed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from kcm.actors.engine.elector.election import Election
from kcm.actors.engine.elector.lease import CLIENT, ObservedLease, SharedHolders, Try, no_marks
from kcm.actors.engine.vitals import ElectorVitals
from kcm.actors.reconciliation import actor_names
from kcm.protocols.messages.commands import Command, Submit
from kcm.protocols.messages.lifecycle import (
    Compete,
    Drain,
    Drained,
    LeaderObserved,
    LeaseHeld,
    LeaseLost,
    Restarted,
    Wake,
    Withdraw,
)
from kcm.protocols.messages.outcomes import Outcome, Refused, Settled
from kcm.protocols.objects import decode_object
from kcm.runtime.metrics.registry import Counter, Gauge
from kcm.runtime.system.actor import Actor, Context
from kcm.runtime.system.vitals import Vitals

RENEWAL_FAILED = "failed to renew lease: "  # beginning of a reason for the loss of the lease


def lost_lease(elector: str) -> str:
    """Return upstream's words for the loss of this elector's Lease, with its cluster or group if there are several."""
    if elector == actor_names.MIGRATION_ELECTOR:
        return "migration leaderelection lost"
    if group := actor_names.group_of_elector(elector):
        return f"leaderelection lost for group {group}"
    cluster = actor_names.cluster_of_elector(elector)
    return f"leaderelection lost on {cluster}" if cluster else "leaderelection lost"


class Elector(Actor):
    """Actor for leader election, named "elector".

    It is named "migration-elector" for the Lease of leader migration, "elector:CLUSTER" for that of one of several
    clusters, "group-elector:GROUP" for that of a group of controllers.
    """

    def __init__(
        self,
        context: Context,
        *,
        election: Election,
        audience: tuple[str, ...],
        vitals: Vitals,
        status: Gauge,
        slow: Counter,
        seed: int | None = None,
        cluster: str = "",
        waits: bool = False,
        marks: Callable[[], Mapping[str, Mapping[str, str]]] = no_marks,
        shared: SharedHolders | None = None,
    ) -> None:
        """Create an elector.

        audience: actors to notify: the dispatcher, the manager, and the coordinator of groups.
        status: set to 1 while we lead.
        slow: counts renewals that had to read the Lease first.
        cluster: where the Lease is, in a program that works on several.
        waits: compete only after Compete.
        marks, shared: see ObservedLease.
        """
        super().__init__(context)
        self._recorder = actor_names.recorder_name(cluster)
        self._vitals, self._status = vitals, status
        self._election, self._audience = election, audience
        self._random = random.Random(seed)
        self._lease = ObservedLease(
            election,
            clock=self.clock,
            log=self.log.bind(cluster=cluster) if cluster else self.log,
            slow=slow,
            new_holder=self._announce_holder,
            cluster=cluster,
            marks=marks,
            shared=shared,
        )
        self._competes = not waits
        self._permitted_until = math.inf  # see Compete
        self._leading = False
        self._renewed_at = 0.0  # when the last successful try was sent
        self._attempt: Try | None = None
        self._began = 0.0
        self._next_try = 0.0
        self._due = math.inf  # time of the requested Wake
        self._spared_until = -math.inf  # after a suspension, deadline of the renewal
        self._ticket = context.incarnation * 1_000_000_000
        self._releasing = False
        self._withdraws = False  # compete again after the release, on request
        self._lost = ""  # why the lease was lost; this cannot be undone

    def started(self) -> None:
        if self._competes:
            self.log.info("Attempting to acquire leader lease...", lock=self._lease.key)
            self._try()
        else:
            self._publish_vitals()  # the earlier incarnation may have been the leader

    def receive(self, message: Any) -> None:
        match message:
            case Settled(ticket=ticket, outcome=outcome):
                if ticket == self._ticket and self._attempt is not None:
                    self._step(outcome)
            case Wake():
                self._look_at_the_time()
            case Restarted(name=actor_names.DISPATCHER):
                if self._attempt is not None:
                    self._step(Refused("the dispatcher was restarted"))
            case Restarted():
                pass
            case Drain():
                self._release()
            case Compete():
                self._compete(message)
            case Withdraw(drained=drained):
                self._withdraw(drained=drained)
            case _:
                super().receive(message)

    def _compete(self, request: Compete) -> None:
        self._permitted_until = request.until
        if self._lost or self._releasing:
            return
        if self._competes:
            self._ask_for_wake()
            return
        self._competes = True
        if request.lease:
            self._lease.adopt(decode_object(request.lease), request.seen)
        self.log.info("Attempting to acquire leader lease...", lock=self._lease.key)
        if self._attempt is None:
            self._try()

    def _withdraw(self, *, drained: bool) -> None:
        """Stop competing. A lease that is held is released if its controllers were drained, and kept otherwise."""
        if self._leading and not drained:
            return
        self._competes = False
        if drained and not self._releasing:
            self._withdraws = True
            self._release()

    def _look_at_the_time(self) -> None:
        now = self.clock.monotonic()
        if self._lost:
            self._announce_loss()
            return
        if now > self._due + self._election.retry_period:  # this process was suspended
            self._due = math.inf
            self._spared_until = now + self._election.request_timeout
        if self._leading and now >= self._renew_by():
            why = "timed out waiting for the condition"
            self._lose(f"{RENEWAL_FAILED}{why if now < self._permitted_until else 'the permission to hold it ended'}")
            return
        if self._attempt is not None and now >= self._gives_up_at():
            self.log.warning("no response about the lease", lock=self._lease.key)
            self._lease.note_failure("no response")
            self._attempt = None
            self._settle(held=False)
            return
        if self._attempt is None and now >= self._next_try and not self._releasing:
            self._try()
        self._ask_for_wake()

    def _renew_by(self) -> float:
        by = max(self._renewed_at + self._election.renew_deadline, self._spared_until)
        return min(by, self._permitted_until)

    def _gives_up_at(self) -> float:
        """Return when to give up an attempt, which takes three requests at most. A later response was lost."""
        return self._began + 3 * self._election.request_timeout

    def _ask_for_wake(self) -> None:
        if self._releasing and self._attempt is None:
            return
        dues = [self._gives_up_at() if self._attempt is not None else self._next_try]
        if self._leading:
            dues.append(self._renew_by())
        self._due = min(dues)
        if self._due < math.inf:
            self.wake_at(self._due)

    # One attempt.

    def _try(self) -> None:
        self._began = self.clock.monotonic()
        if self._election.candidacy is None:
            self._attempt = self._lease.acquire_or_renew(leading=self._leading)
        else:
            self._attempt = self._lease.renew_coordinated()
        self._ask(next(self._attempt))
        self._ask_for_wake()

    def _ask(self, command: Command) -> None:
        self._ticket += 1
        self.tell(
            actor_names.DISPATCHER,
            Submit(self.name, self.context.incarnation, CLIENT, self._ticket, (command,)),
        )

    def _step(self, outcome: Outcome) -> None:
        assert self._attempt is not None
        try:
            self._ask(self._attempt.send(outcome))
        except StopIteration as stop:
            self._attempt = None
            self._settle(held=bool(stop.value))
        except (ValueError, TypeError, KeyError, AttributeError) as err:  # for example, a response of a proxy
            self._attempt = None
            self.log.warning(
                "malformed response about the lease", lock=self._lease.key, error=f"{type(err).__name__}: {err}"
            )
            self._lease.note_failure("malformed response")
            self._settle(held=False)

    def _settle(self, *, held: bool) -> None:
        now = self.clock.monotonic()
        period = self._election.retry_period
        if held:
            self._renewed_at = self._began
            if not self._leading:
                self._leading = True
                self.log.info("Successfully acquired lease", lock=self._lease.key, identity=self._election.identity)
                self.tell(self._recorder, self._lease.record("became leader"))
            until = min(self._began + self._election.renew_deadline, self._permitted_until)
            for listener in self._audience:
                self.tell(listener, LeaseHeld(until, self.name))
            self._next_try = now + period
        elif self._leading:
            self._next_try = now + period
        elif not self._competes:
            self._next_try = math.inf
        else:
            self.log.debug("Failed to acquire lease", lock=self._lease.key)
            self._next_try = self._lease.next_try(now, chance=self._random.random())
        self._publish_vitals()
        if not held and self._leading and self._lease.is_anothers:
            self._lose(f"the lease is held by {self._lease.holder}")
        elif not held and self._leading and self._election.candidacy is not None and self._lease.preferred_holder:
            self._lose(f"the API server ends the term in favour of {self._lease.preferred_holder}")
        elif self._releasing:
            self._give_back()
        else:
            self._look_at_the_time()

    def _announce_holder(self, holder: str) -> None:
        for listener in self._audience:
            if listener != actor_names.DISPATCHER:
                self.tell(listener, LeaderObserved(holder, self.name))

    # The end.

    def _lose(self, why: str) -> None:
        self._leading, self._lost, self._attempt = False, why, None
        self._publish_vitals()
        self.tell(self._recorder, self._lease.record("stopped leading"))
        self.log.info("Failed to renew lease", lock=self._lease.key, error=why.removeprefix(RENEWAL_FAILED))
        self.log.error(f"{lost_lease(self.name)}/stopped", lock=self._lease.key, error=why)
        self._announce_loss()

    def _announce_loss(self) -> None:
        """Send LeaseLost, and repeat it: a manager that is restarted meanwhile would otherwise miss it."""
        for listener in self._audience:
            self.tell(listener, LeaseLost(self._lost, self.name))
        self.wake_at(self.clock.monotonic() + self._election.retry_period)

    def _release(self) -> None:
        """Release the lease, so that the next leader does not wait until it expires."""
        if self._releasing:
            self._withdraws = False  # a release at the end of the process follows the present one
            return
        self._releasing = True
        if self._attempt is None:  # otherwise after its response, which the release is based on
            self._give_back()

    def _give_back(self) -> None:
        if not self._leading or not self._lease.is_known:
            if self._withdraws:
                self._withdraws = self._releasing = False
            self.tell(self.context.system.supervisor, Drained(self.name))
            return
        self._leading = False
        self._publish_vitals()
        self.tell(actor_names.DISPATCHER, LeaseLost("it is given back", self.name))
        self._attempt = self._lease.give_back()
        self._began = self.clock.monotonic()
        self._ask(next(self._attempt))
        self._ask_for_wake()

    def _publish_vitals(self) -> None:
        failure, failing_since = self._lease.failure or ("", 0.0)
        self._status.set(1.0 if self._leading else 0.0)
        self._vitals.say(
            self.name,
            ElectorVitals(
                leading=self._leading,
                renewed_at=self._renewed_at,
                holder=self._lease.holder,
                free_at=self._lease.free_at,
                failure=failure,
                failing_since=failing_since,
            ),
        )
