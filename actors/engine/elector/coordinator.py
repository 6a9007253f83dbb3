"""Coordinator of groups: decides for which groups of controllers this replica competes.

Takes Settled, Wake, Restarted, Drain; LeaseHeld, LeaseLost and LeaderObserved of the main lease. Sends Compete and
Withdraw to the electors, YieldGroup and Drained to the manager, Submit.

All replicas hold the main Lease together, under an identity that is a hash of their groups. So no other controller
manager, and no replica with other groups, runs beside them. Each group has a Lease, which one replica holds. Each
replica renews a Lease of its own, by which the others see that it is alive, and lists all of these Leases every second.
Every coordinator computes the same assignment (assignment.py) from the same Leases, and nothing else is exchanged.

A replica shows that it is alive before it renews the main Lease, so that the last replica that ends can release it.

docs/decisions/2026-11-28-groups-of-controllers.md contains the reasons.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Mapping
from typing import Any

from kcm.actors.engine.elector.assignment import GroupState, assigned, next_move
from kcm.actors.engine.elector.election import STANDBY_PERIOD, Election
from kcm.actors.engine.elector.groups import IDLE_COST, ControllerGroups
from kcm.actors.engine.elector.lease import CLIENT
from kcm.actors.engine.elector.replicas import LEAVING, MOST_LEASES, READY, WAITING, ObservedReplicas, items_of
from kcm.actors.engine.vitals import CoordinatorVitals, ElectorVitals, ManagerVitals
from kcm.actors.reconciliation.actor_names import DISPATCHER, ELECTOR, MANAGER, controller_name, group_elector_name
from kcm.protocols.messages.commands import Command, Create, List, Submit, Update
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
    YieldGroup,
)
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, Done, Outcome, Refused, Settled
from kcm.protocols.objects import decode_object, encode_object, key_of
from kcm.protocols.resources import LEASES
from kcm.runtime.scheduling.limiters import TokenBucket
from kcm.runtime.system.actor import Actor, Context
from kcm.runtime.system.vitals import Vitals

Round = Generator[Command, Any, None]  # receives outcomes

SOON = 0.05  # minimum seconds until another Lease is tried
SPREAD = 0.2  # maximum random part by which a period is shortened
SETTLED_AFTER = 5.0  # seconds without a change of replicas and holders before a group is moved
MOVES_EVERY = 600.0  # seconds per move, after one move for each group since the replicas changed
COST_OVER = 30.0  # seconds over which costs are averaged
ORPHANED = 2.0  # lease durations after which any replica competes for a group without a holder


class GroupCoordinator(Actor):
    """Actor that spreads the groups over the replicas, named "group-coordinator"."""

    def __init__(
        self,
        context: Context,
        *,
        election: Election,
        groups: ControllerGroups,
        observed: ObservedReplicas,
        costs: dict[str, float],
        vitals: Vitals,
        seed: int | None = None,
    ) -> None:
        """Create a coordinator.

        observed: what this and earlier incarnations have seen; read by the elector of the main Lease.
        costs: measured costs by group, which the electors write into the Leases.
        """
        super().__init__(context)
        self._election, self._groups, self._observed = election, groups, observed
        self._costs, self._vitals = costs, vitals
        self._random = random.Random(seed)
        self._period = min(election.retry_period, STANDBY_PERIOD)
        self._ticket = context.incarnation * 1_000_000_000
        self._round: Round | None = None
        self._began = 0.0
        self._next_round = 0.0
        self._main_until = -math.inf  # until when the main lease is held
        self._published_at = -math.inf  # when the last successful renewal of the replica's Lease was sent
        self._published_state = ""
        self._draining = False
        self._competing: set[str] = set()  # electors of groups that received Compete
        self._worked: dict[str, float] = {}  # seconds of work by controller, at the last measurement
        self._measured_at = 0.0
        self._free_since: dict[str, float] = {}  # groups without a holder
        self._placement: object = None  # replicas and holders as last seen
        self._changed_at = 0.0  # when the placement last changed
        self._members: frozenset[str] = frozenset()
        self._holders: dict[str, str] = {}
        self._moves = TokenBucket(qps=1 / MOVES_EVERY, burst=len(groups.groups), now=0.0)
        self._strangers: list[str] = []
        self._failure, self._failing_since = "", 0.0

    def started(self) -> None:
        self._measured_at = self.clock.monotonic()
        self._begin()

    def receive(self, message: Any) -> None:
        match message:
            case Settled(ticket=ticket, outcome=outcome):
                if ticket == self._ticket and self._round is not None:
                    self._step(outcome)
            case Wake():
                self._look_at_the_time()
            case LeaseHeld(until=until, elector=elector):
                if elector == ELECTOR:
                    is_new = self._main_until <= self.clock.monotonic()
                    self._main_until = until
                    if is_new:
                        self._soon()
            case LeaseLost(elector=elector):
                if elector == ELECTOR:
                    self._main_until = -math.inf
            case LeaderObserved():
                pass
            case Restarted(name=name):
                self._competing.discard(name)
                if name == DISPATCHER and self._round is not None:
                    self._step(Refused("the dispatcher was restarted"))
                elif name == ELECTOR:
                    self._published_at = -math.inf  # renew at once, so that the elector may compete again
                    self._soon()
            case Drain():
                self._draining = True
                if self._round is None:
                    self._end()
            case _:
                super().receive(message)

    # Rounds.

    def _soon(self) -> None:
        self._next_round = self.clock.monotonic()
        if self._round is None and not self._draining:
            self._begin()

    def _look_at_the_time(self) -> None:
        now = self.clock.monotonic()
        if self._round is not None and now >= self._gives_up_at():
            self._round = None
            self._fail("no response")
            self._end()
        elif self._round is None and now >= self._next_round:
            self._begin()
        else:
            self._ask_for_wake()

    def _gives_up_at(self) -> float:
        return self._began + 3 * self._election.request_timeout

    def _ask_for_wake(self) -> None:
        self.wake_at(self._next_round if self._round is None else self._gives_up_at())

    def _begin(self) -> None:
        self._began = self.clock.monotonic()
        self._next_round = self._began + self._period * (1 - SPREAD * self._random.random())
        self._round = self._leave() if self._draining else self._renew_and_decide()
        self._ask_for_wake()
        self._step(None)

    def _ask(self, command: Command) -> None:
        self._ticket += 1
        self.tell(DISPATCHER, Submit(self.name, self.context.incarnation, CLIENT, self._ticket, (command,)))

    def _step(self, outcome: Outcome | None) -> None:
        """Continue the round. outcome: of its last command; None to begin it."""
        assert self._round is not None
        try:
            self._ask(self._round.send(outcome))
        except StopIteration:
            self._round = None
            self._end()
        except (ValueError, TypeError, KeyError, AttributeError) as err:  # for example, a Lease that another wrote
            self._round = None
            self.log.warning("malformed Lease of a group or replica", error=f"{type(err).__name__}: {err}")
            self._fail("malformed response")
            self._end()

    def _end(self) -> None:
        """Handle the end of a round, successful or not."""
        self._vitals.say(
            self.name,
            CoordinatorVitals(
                replicas=len(self._members),
                holders=self._holders,
                failure=self._failure,
                failing_since=self._failing_since,
            ),
        )
        if not self._draining:
            self._ask_for_wake()
        elif self._published_state:  # not left yet
            self._begin()
        else:
            self.tell(MANAGER, Drained(self.name))

    def _fail(self, why: str) -> None:
        if not self._failure:
            self._failing_since = self.clock.monotonic()
            self.log.error("Failed to renew the lease of the replica", error=why)
        self._failure = why

    def _leave(self) -> Round:
        """Release the Lease of this replica, once: if that fails, it expires."""
        self._published_state = ""
        own = self._observed.own()
        if own is not None:
            lease = self._observed.released(own[1])
            yield Update(LEASES.id, key_of(lease), encode_object(lease))

    def _renew_and_decide(self) -> Round:
        observed, namespace = self._observed, self._election.namespace
        outcome = yield List(LEASES.id, namespace, label_selector=observed.label_selector, limit=MOST_LEASES)
        if not isinstance(outcome, Done):
            self._fail(f"cannot list {LEASES.name} in {namespace}: {_reason(outcome)}")
            return
        observed.see(items_of(decode_object(outcome.body)), self.clock.monotonic(), period=self._period)
        state = self._state()
        if state != self._published_state or self._began >= self._published_at + self._election.retry_period:
            outcome = yield from self._publish(state)
            if isinstance(outcome, Conflict | AlreadyExists):  # another replica has taken this Lease at the same time
                self._next_round = self._began + SOON * (1 + self._random.random())
                return
            if not isinstance(outcome, Done):
                self._fail(f"cannot write the Lease of this replica in {namespace}: {_reason(outcome)}")
                return
        self._failure = ""
        self._measure()
        self._decide()

    def _state(self) -> str:
        manager = self._vitals.of(MANAGER, ManagerVitals)
        if manager is not None and manager.draining:
            return LEAVING
        return READY if self.clock.monotonic() < self._main_until else WAITING

    def _publish(self, state: str) -> Generator[Command, Outcome, Outcome]:
        """Renew the Lease of this replica, and let the elector of the main Lease compete while it is alive."""
        observed, sent, unix_now = self._observed, self.clock.monotonic(), self.clock.now()
        number, present = observed.own() or observed.free(sent, unix_now=unix_now)
        lease = observed.lease_of_replica(number, present, state=state, unix_now=unix_now)
        command: Command
        if present is None:
            command = Create(LEASES.id, self._election.namespace, encode_object(lease))
        else:
            command = Update(LEASES.id, key_of(lease), encode_object(lease))
        outcome = yield command
        if isinstance(outcome, AlreadyExists):
            observed.foreign.add(number)
        if isinstance(outcome, Done):
            observed.wrote(number, decode_object(outcome.body), self.clock.monotonic())
            self._published_at, self._published_state = sent, state
            self.tell(ELECTOR, Compete(until=sent + self._election.renew_deadline))
        return outcome

    # Decisions.

    def _measure(self) -> None:
        """Update the costs of the groups that run here."""
        now = self.clock.monotonic()
        seconds, self._measured_at = now - self._measured_at, now
        if seconds <= 0:
            return
        share = 1 - math.exp(-seconds / COST_OVER)
        for group in self._groups.groups:
            worked = 0.0
            for controller in group.controllers:
                name = controller_name(controller)
                total = self.context.system.worked(name)
                before, self._worked[name] = self._worked.get(name, 0.0), total
                worked += total - before if total >= before else total  # less than before: a new incarnation
            if self._leads(group.name):
                cost = self._costs.get(group.name, self._observed.cost(group.name) or 0.0)
                self._costs[group.name] = cost + share * (worked / seconds - cost)
            else:
                self._costs.pop(group.name, None)

    def _leads(self, group: str) -> bool:
        elector = self._vitals.of(group_elector_name(group), ElectorVitals)
        return elector is not None and elector.leading

    def _states(self, members: Mapping[str, str], now: float) -> list[GroupState]:
        """Return the groups with their costs and holders. A holder that is not alive does not count."""
        states = []
        for group in self._groups.groups:
            seen = self._observed.groups.get(group.name)
            holder = seen.holder if seen is not None and seen.is_fresh(now) else ""
            if self._leads(group.name):
                holder = self._election.identity
            cost = self._observed.cost(group.name) or 0.0
            states.append(GroupState(group.name, cost + IDLE_COST * group.weight, holder if holder in members else ""))
        return states

    def _decide(self) -> None:
        now, me = self.clock.monotonic(), self._election.identity
        members = self._observed.alive(now)
        ready = sorted(identity for identity, state in members.items() if state == READY)
        groups = self._states(members, now)
        self._note_changes(members, ready, groups, now)
        if now >= self._main_until:
            return
        targets = assigned(groups, ready)
        for group in groups:
            elector = group_elector_name(group.name)
            if self._leads(group.name):
                continue
            free_for = now - self._free_since.get(group.name, now)
            is_orphaned = free_for > ORPHANED * self._election.lease_duration and me in ready
            if targets.get(group.name) == me or is_orphaned:
                seen = self._observed.groups.get(group.name)
                lease = b"" if seen is None else encode_object(seen.lease)
                self._competing.add(elector)
                self.tell(elector, Compete(lease, 0.0 if seen is None else seen.changed_at))
            elif elector in self._competing:
                self._competing.discard(elector)
                self.tell(elector, Withdraw(drained=False))
        self._move(groups, ready, now)

    def _move(self, groups: list[GroupState], ready: list[str], now: float) -> None:
        """Give up a group if another replica has much less to do."""
        if now < self._changed_at + max(SETTLED_AFTER, 2 * self._election.retry_period):
            return
        move = next_move(groups, ready)
        if move is not None and move.source == self._election.identity and self._moves.try_take(now):
            self.log.info("giving up group for another replica", group=move.group, identity=move.target)
            self._changed_at = now
            self.tell(MANAGER, YieldGroup(group_elector_name(move.group)))

    def _note_changes(self, members: Mapping[str, str], ready: list[str], groups: list[GroupState], now: float) -> None:
        for group in groups:
            if group.holder:
                self._free_since.pop(group.name, None)
            else:
                self._free_since.setdefault(group.name, now)
        if frozenset(members) != self._members:
            self._members = frozenset(members)
            self._moves = TokenBucket(qps=1 / MOVES_EVERY, burst=len(self._groups.groups), now=now)
            self.log.info("replicas changed", replicas=len(members), identities=sorted(members))
        self._holders = {group.name: group.holder for group in groups}
        placement = (ready, [(group.name, group.holder) for group in groups])
        if placement != self._placement:
            self._placement, self._changed_at = placement, now
        strangers = self._observed.strangers(now)
        if strangers != self._strangers:
            self._strangers = strangers
            if strangers:
                self.log.warning("replicas have other groups of controllers, one set waits", identities=strangers)


def _reason(outcome: Outcome) -> str:
    return getattr(outcome, "message", "") or type(outcome).__name__
