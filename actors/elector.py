"""The elector: runs for leader on a Lease, and says whether we may write.

Takes Settled and Wake, Drain (give the lease back). Tells LeaseHeld, LeaseLost, LeaderObserved, Drained, Submit and
Record.

A lease counts as held by somebody else for as long as we have seen it unchanged for less than the duration written in
it, by our own clock: no timestamp of another machine is ever compared. We may write until the renew deadline after the
moment at which the last successful renewal was *sent*, which is before anybody else could take the lease.
Source: kubernetes v1.36 client-go/tools/leaderelection/leaderelection.go.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from actors import actor_names
from protocols.messages.commands import Command, Create, Get, Submit, Update
from protocols.messages.lifecycle import Drain, Drained, LeaderObserved, LeaseHeld, LeaseLost, Restarted, Wake
from protocols.messages.outcomes import Done, NotFound, Outcome, Refused, Settled
from protocols.messages.recording import Record
from protocols.objects import Object, decode_object, encode_object, make_key, metadata
from protocols.resources import LEASES
from protocols.times import format_micro_time
from runtime.actor import Actor, Context
from runtime.metrics import Counter, Gauge
from runtime.vitals import Vitals

CLIENT = "leader-election"
JITTER = 1.2  # of the retry period, while acquiring


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The --leader-elect-* flags; durations in seconds. identity: who we are in holderIdentity.

    Raises ValueError as upstream's constructor does on timings that cannot work.
    """

    identity: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    namespace: str = "kube-system"
    name: str = "kube-controller-manager"
    component: str = "kube-controller-manager"

    def __post_init__(self) -> None:
        if not self.identity:
            raise ValueError("Lock identity is empty")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= JITTER * self.retry_period:
            raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.retry_period <= 0:
            raise ValueError("retryPeriod must be greater than zero")

    @property
    def request_timeout(self) -> float:
        """Seconds for one request, as upstream's client has it: in time for another try."""
        return max(1.0, self.renew_deadline / 2)


def seconds_of(spec: Object) -> float:
    duration = spec.get("leaseDurationSeconds")
    return float(duration) if isinstance(duration, int) else 0.0


def renewed(spec: Object, election: Election, *, now: float) -> Object:
    """The lease's spec once we hold it: our renewal, or our taking it over. now: unix seconds."""
    mine = spec.get("holderIdentity") == election.identity
    stamp = format_micro_time(now)
    return {
        **spec,
        "holderIdentity": election.identity,
        "leaseDurationSeconds": int(election.lease_duration),
        "acquireTime": spec.get("acquireTime", stamp) if mine else stamp,
        "renewTime": stamp,
        "leaseTransitions": (spec.get("leaseTransitions") or 0) + (0 if mine else 1),
    }


class Elector(Actor):
    """See the module."""

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
    ) -> None:
        """audience: who is told of the lease: the dispatcher and the manager.

        status: 1 while we lead; slow: renewals that had to read the Lease first.
        """
        super().__init__(context)
        self._vitals, self._status, self._slow = vitals, status, slow
        self._election, self._audience = election, audience
        self._random = random.Random(seed)
        self._key = make_key(election.namespace, election.name)
        self._observed: Object | None = None  # the Lease as last seen, or as last written by us
        self._observed_at = 0.0
        self._leading = False
        self._renewed_at = 0.0  # when the last successful try was sent
        self._attempt: Generator[Command, Outcome, bool] | None = None
        self._began = 0.0
        self._next_try = 0.0
        self._ticket = context.incarnation * 1_000_000_000
        self._releasing = False
        self._lost = ""  # why we do not lead any more; there is no way back

    def started(self) -> None:
        self._try()

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
            case _:
                super().receive(message)

    def _look_at_the_time(self) -> None:
        now = self.clock.monotonic()
        if self._lost:
            self._tell_of_the_loss()
            return
        if self._leading and now >= self._renewed_at + self._election.renew_deadline:
            self._lose("failed to renew lease: timed out waiting for the condition")
            return
        if self._attempt is not None and now >= self._gives_up_at():
            self.log.warning("no answer about the lease", lease=self._key)
            self._attempt = None
            self._settle(held=False)
            return
        if self._attempt is None and now >= self._next_try and not self._releasing:
            self._try()
        self._ask_for_wake()

    def _gives_up_at(self) -> float:
        """A try takes three requests at most; an answer that comes later was lost with a dispatcher."""
        return self._began + 3 * self._election.request_timeout

    def _ask_for_wake(self) -> None:
        if self._releasing and self._attempt is None:
            return
        dues = [self._gives_up_at() if self._attempt is not None else self._next_try]
        if self._leading:
            dues.append(self._renewed_at + self._election.renew_deadline)
        if dues:
            self.wake_at(min(dues))

    # One try.

    def _try(self) -> None:
        self._began = self.clock.monotonic()
        self._attempt = self._acquire_or_renew()
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
        except (ValueError, TypeError, KeyError, AttributeError) as err:  # as from a proxy that answers for the server
            self._attempt = None
            self.log.warning("malformed answer about the lease", lease=self._key, error=f"{type(err).__name__}: {err}")
            self._settle(held=False)

    def _settle(self, *, held: bool) -> None:
        now = self.clock.monotonic()
        period = self._election.retry_period
        if held:
            self._renewed_at = self._began
            if not self._leading:
                self._leading = True
                self.log.info("became leader", lease=self._key, identity=self._election.identity)
                self._record("became leader")
            for listener in self._audience:
                self.tell(listener, LeaseHeld(self._began + self._election.renew_deadline))
            self._next_try = now + period
        elif self._leading:
            self._next_try = now + period
        else:
            self._next_try = now + period * (1 + JITTER * self._random.random())
        self._say_vitals()
        if self._releasing:
            self._give_back()
        else:
            self._look_at_the_time()

    def _acquire_or_renew(self) -> Generator[Command, Outcome, bool]:
        election = self._election
        if self._observed is not None and self._holds() and self._fresh():
            if (yield from self._write(self._observed)):
                return True
            self._slow.inc()
        match (yield Get(LEASES.id, self._key)):
            case Done(body):
                self._observe(decode_object(body))
            case NotFound():
                spec = renewed({"leaseTransitions": -1}, election, now=self.clock.now())
                lease = {
                    "apiVersion": LEASES.api_version,
                    "kind": LEASES.kind,
                    "metadata": {"namespace": election.namespace, "name": election.name},
                    "spec": spec,
                }
                outcome = yield Create(LEASES.id, election.namespace, encode_object(lease))
                return self._took(outcome)
            case _:
                return False
        assert self._observed is not None
        spec = self._observed.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", election.identity) and self._fresh():
            return False
        return (yield from self._write(self._observed))

    def _holds(self) -> bool:
        """The lease as last seen is ours: it may be another's although we still believe to lead."""
        holder = ((self._observed or {}).get("spec") or {}).get("holderIdentity")
        return self._leading and holder == self._election.identity

    def _fresh(self) -> bool:
        """The observed lease has not run out, by our clock."""
        spec = (self._observed or {}).get("spec") or {}
        return self._observed_at + seconds_of(spec) > self.clock.monotonic()

    def _write(self, lease: Object) -> Generator[Command, Outcome, bool]:
        spec = renewed(lease.get("spec") or {}, self._election, now=self.clock.now())
        body = encode_object({**lease, "spec": spec})
        return self._took((yield Update(LEASES.id, self._key, body)))

    def _took(self, outcome: Outcome) -> bool:
        if isinstance(outcome, Done):
            self._observe(decode_object(outcome.body))
            return True
        self.log.debug("lease not taken", lease=self._key, outcome=type(outcome).__name__)
        return False

    def _observe(self, lease: Object) -> None:
        before, after = (self._observed or {}).get("spec"), lease.get("spec") or {}
        if before != after:
            self._observed_at = self.clock.monotonic()
        if (before or {}).get("holderIdentity") != after.get("holderIdentity"):
            holder = after.get("holderIdentity") or ""
            self.log.info("new leader elected", lease=self._key, identity=holder)
            for listener in self._audience:
                if listener != actor_names.DISPATCHER:
                    self.tell(listener, LeaderObserved(holder))
        self._observed = lease

    # The end.

    def _lose(self, why: str) -> None:
        self._leading, self._lost, self._attempt = False, why, None
        self._say_vitals()
        self._record("stopped leading")
        self.log.error("leaderelection lost", lease=self._key, error=why)
        self._tell_of_the_loss()

    def _tell_of_the_loss(self) -> None:
        """Again and again: a manager that fails before it has ended everything is another one afterwards."""
        for listener in self._audience:
            self.tell(listener, LeaseLost(self._lost))
        self.wake_at(self.clock.monotonic() + self._election.retry_period)

    def _release(self) -> None:
        """Give the lease back, so that the next one need not wait for it to run out."""
        if self._releasing:
            return
        self._releasing = True
        if self._attempt is None:  # else once that is answered: what it writes is what the release is made from
            self._give_back()

    def _give_back(self) -> None:
        if not self._leading or self._observed is None:
            self.tell(self.context.system.supervisor, Drained(self.name))
            return
        self._leading = False
        self._say_vitals()
        self.tell(actor_names.DISPATCHER, LeaseLost("it is given back"))
        stamp = format_micro_time(self.clock.now())
        spec = {
            **(self._observed.get("spec") or {}),
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": stamp,
            "renewTime": stamp,
        }
        self._attempt = self._giving_back(encode_object({**self._observed, "spec": spec}))
        self._began = self.clock.monotonic()
        self._ask(next(self._attempt))
        self._ask_for_wake()

    def _giving_back(self, body: bytes) -> Generator[Command, Outcome, bool]:
        outcome = yield Update(LEASES.id, self._key, body)
        self.log.info("lease released", lease=self._key, outcome=type(outcome).__name__)
        return False

    def _say_vitals(self) -> None:
        self._status.set(1.0 if self._leading else 0.0)
        self._vitals.say(self.name, {"leading": self._leading, "renewed_at": self._renewed_at})

    def _record(self, what: str) -> None:
        election = self._election
        meta = metadata(self._observed or {})
        self.tell(
            actor_names.RECORDER,
            Record(
                LEASES.api_version,
                LEASES.kind,
                election.namespace,
                election.name,
                meta.get("uid") or "",
                meta.get("resourceVersion") or "",
                "Normal",
                "LeaderElection",
                f"{election.identity} {what}",
                component=election.component,
                client=CLIENT,
            ),
        )
