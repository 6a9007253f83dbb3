"""Fault coverage: which injected faults struck at which step of which controller, and which never did.

A step is a command of a controller ("create pods", "update deployments/status", a call), or a message that an actor
handles. A fault strikes before a command is sent, on its way, when its outcome returns, or while it is in flight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct, field

from kcm.actors.reconciliation.actor_names import controller_of
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import InvariantChecker, Observation, ProcessStarted, Submitted
from kcm.protocols.codec import DecodeError, decode
from kcm.protocols.messages.commands import (
    Command,
    Create,
    Delete,
    DeleteCollection,
    Fetch,
    Get,
    List,
    Patch,
    Submit,
    Update,
)
from kcm.protocols.messages.outcomes import Settled
from kcm.protocols.resources import split_cluster
from kcm.runtime.calls.prepared_calls import PreparedCall
from kcm.runtime.faults.vocabulary import OF_CALLS, Fault, FaultKind
from kcm.runtime.simulation.network import Scope
from kcm.runtime.simulation.world import next_frame
from kcm.runtime.system.actor import Actor

Step = tuple[str, str]  # name of a controller or an actor, and its step, for example "create pods"

MANAGER = "manager"  # beginning of the names of processes with controllers of the setting
VERBS: dict[type[Any], str] = {
    Create: "create",
    Update: "update",
    Patch: "patch",
    Delete: "delete",
    DeleteCollection: "delete all",
    Get: "get",
    List: "list",
    Fetch: "get",
}
METHODS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "WATCH": "watch"}
AT_MESSAGES = frozenset(
    (
        FaultKind.ACTOR_CRASHED,
        FaultKind.ACTOR_BROKEN,
        FaultKind.ACTOR_VANISHED,
        FaultKind.ACTOR_HUNG,
        FaultKind.MESSAGE_DELAYED,
    )
)
AT_REQUESTS = frozenset(
    (
        FaultKind.REQUEST_HELD,
        FaultKind.COMMAND_LOST,
        FaultKind.COMMAND_REFUSED,
        FaultKind.COMMAND_DELAYED,
        FaultKind.COMMAND_REPEATED,
        FaultKind.COMMAND_ANSWERED,
        FaultKind.OUTCOME_LOST,
        FaultKind.OUTCOME_REPEATED,
        FaultKind.PARTITION,
    )
)
# Faults that affect all requests in flight of a process, or at the server.
AT_IN_FLIGHT = frozenset(
    (
        FaultKind.SERVER_RESTARTED,
        FaultKind.SERVER_AWAY,
        FaultKind.PROCESS_CRASHED,
        FaultKind.PROCESS_PAUSED,
        FaultKind.HTTP_HELD,
    )
)
AT_CALLS = frozenset(OF_CALLS)
NOTHING_IN_FLIGHT = "nothing in flight"


class Coverage(Struct):
    """Coverage of one or many runs.

    taken: number of executions of each step of each controller.
    struck: number of faults of each kind at each step; faults that struck at no step have the step ("", "").
    planned: kinds of faults that were planned at least once.
    """

    taken: Counter[Step] = field(default_factory=Counter)
    struck: Counter[tuple[FaultKind, Step]] = field(default_factory=Counter)
    planned: set[FaultKind] = field(default_factory=set)

    def add(self, other: Coverage) -> None:
        self.taken += other.taken
        self.struck += other.struck
        self.planned |= other.planned

    @property
    def kinds(self) -> set[FaultKind]:
        """Return the kinds of faults that struck."""
        return {kind for kind, _ in self.struck}

    def at(self, step: Step) -> Counter[FaultKind]:
        """Return how often each kind of fault struck at a step."""
        return Counter({kind: count for (kind, where), count in self.struck.items() if where == step})

    def missed(self, step: Step) -> list[FaultKind]:
        """Return the planned kinds of faults that could have struck at this step but never did."""
        there = self.at(step)
        return [kind for kind in FaultKind if kind in _possible(step) & self.planned and kind not in there]

    def summary(self) -> str:
        """Return a summary of the fault coverage in one line."""
        possible = {(kind, step) for step in self.taken for kind in _possible(step) & self.planned}
        hit = len(possible & self.struck.keys())
        return (
            f"coverage: {len(self.kinds)} of {len(self.planned)} planned kinds of faults struck, "
            f"{hit} of {len(possible)} pairs of a kind and a controller's step"
        )

    def lines(self) -> Iterator[str]:
        """Yield the report: the faults that struck or missed each step of each controller, then all other faults."""
        for who in sorted({who for who, _ in self.taken}):
            yield f"{who}:"
            for step in sorted(step for step in self.taken if step[0] == who):
                yield f"  {step[1]}, {_times(self.taken[step])}: {_counts(self.at(step))}"
                if missed := self.missed(step):
                    yield f"    never: {', '.join(missed)}"
        others = sorted({step for _, step in self.struck} - self.taken.keys())
        yield "elsewhere:"
        for who, what in others:
            yield f"  {' '.join(filter(None, (who, what))) or 'at no step'}: {_counts(self.at((who, what)))}"
        if silent := [kind for kind in FaultKind if kind in self.planned - self.kinds]:
            yield f"planned, but never struck: {', '.join(silent)}"
        if never := [kind for kind in FaultKind if kind not in self.planned]:
            yield f"never planned: {', '.join(never)}"


def _possible(step: Step) -> frozenset[FaultKind]:
    """Return the kinds of faults that can strike at a step (a command or a handled message) of a controller."""
    what = step[1]
    if what.startswith("handle "):
        return AT_MESSAGES
    if what.startswith("call "):
        return AT_MESSAGES | AT_CALLS | AT_IN_FLIGHT
    return AT_MESSAGES | AT_REQUESTS | AT_IN_FLIGHT


def _counts(counts: Counter[FaultKind]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.most_common()) or "nothing"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def step_of(command: Command) -> str:
    """Describe a command without its object: "create pods", "update deployments/status"."""
    verb = VERBS.get(type(command))
    if verb is None:
        return f"call {getattr(command, 'function', type(command).__name__)}"
    if isinstance(command, Fetch):
        return f"get {command.path}"
    cluster, plain_id = split_cluster(command.resource)
    plural, subresource = plain_id.rpartition("/")[2], getattr(command, "subresource", "")
    if cluster:
        plural = f"{cluster}:{plural}"
    return f"{verb} {plural}/{subresource}" if subresource else f"{verb} {plural}"


class CoverageRecorder:
    """Recorder of the fault coverage of one run. Must be created before any process starts."""

    def __init__(self, cluster: SimulatedCluster, checker: InvariantChecker, plan: Collection[Fault]) -> None:
        self.coverage = Coverage(planned={fault.kind for fault in plan})
        self._cluster, self._checker = cluster, checker
        self._controllers: set[str] = set()
        self._writing_as: dict[str, set[str]] = {}  # controllers by client
        # By process, sender and ticket: controller, client and commands.
        self._submitted: dict[tuple[str, str, int], tuple[str, str, tuple[Command, ...]]] = {}
        cluster.injector.on_strike = self._record_strike
        checker.watching.append(self._observe)

    def _observe(self, observation: Observation) -> None:
        if isinstance(observation, Submitted) and observation.process.startswith(MANAGER):
            submit = observation.submit
            who = self._controller_of(submit)
            ticket = (observation.process, submit.sender, submit.ticket)
            self._submitted[ticket] = who, submit.client, tuple(submit.commands)
            if who in self._controllers or who in self._writing_as:
                self.coverage.taken.update((who, step_of(command)) for command in submit.commands)
        elif isinstance(observation, ProcessStarted) and observation.process.startswith(MANAGER):
            specs = observation.system.controllers
            self._controllers |= {spec.name for spec in specs}
            for spec in specs:
                self._writing_as.setdefault(spec.client or spec.name, set()).add(spec.name)

    def _controller_of(self, submit: Submit) -> str:
        """Return the name of the controller that submitted the commands of a message.

        This is the sender, or else the controller that writes with the user name (client) in the message. If several
        controllers share this client, the client is returned instead.
        """
        name = _display_name(submit.sender)
        return name if name in self._controllers else self._controller_of_client(submit.client, otherwise=name)

    def _controller_of_client(self, client: str, *, otherwise: str) -> str:
        sharing = self._writing_as.get(client)
        if sharing is None:
            return otherwise
        return client if len(sharing) > 1 else next(iter(sharing))

    def _record_strike(self, fault: Fault, process: str, actor: str, at: object) -> None:
        if process and not process.startswith(MANAGER):
            return
        for step in dict.fromkeys(self._steps(fault, process, actor, at)) or (("", ""),):
            self.coverage.struck[fault.kind, step] += 1

    def _steps(self, fault: Fault, process: str, actor: str, at: object) -> Iterable[Step]:
        match at:
            case Scope(client=client):
                step = _step_of_request(at)
                return [(who, step) for who in self._controllers_requesting(process, client, step)]
            case PreparedCall(command=command, sender=sender):
                return [(_display_name(sender), step_of(command))]
            case Actor():
                return self._steps_of_message(process, actor, next_frame(at))
            case bytes():
                does = "send" if fault.kind is FaultKind.ACTOR_BROKEN else "handle"
                return self._steps_of_message(process, actor, at, does)
        if fault.kind in AT_IN_FLIGHT:
            return list(self._under_way(fault.process)) or [("", NOTHING_IN_FLIGHT)]
        return [(_display_name(actor), "begin a reconciliation")] if actor else []

    def _under_way(self, process: str) -> Iterator[Step]:
        for where, sender, ticket, command in self._checker.under_way():
            if where.startswith(MANAGER) and fnmatchcase(where, process):
                yield self._submitted[where, sender, ticket][0], step_of(command)

    def _controllers_requesting(self, process: str, client: str, step: str) -> Collection[str]:
        """Return the controllers that have this request in flight and write with this client."""
        found = set()
        for where, sender, ticket, command in self._checker.under_way():
            if where == process and step_of(command) == step:
                who, written_as, _ = self._submitted[where, sender, ticket]
                if written_as == client:
                    found.add(who)
        return found or {self._controller_of_client(client, otherwise=client)}

    def _steps_of_message(self, process: str, actor: str, frame: bytes | None, does: str = "handle") -> Iterable[Step]:
        """Return the steps that a message belongs to.

        A Submit belongs to the steps of its commands, a Settled to the step of the command whose outcome it contains,
        and any other message to the step "handle TYPE" of its receiver.
        """
        try:
            message = None if frame is None else decode(frame)
        except DecodeError:
            message = None
        if isinstance(message, Submit):
            return [(self._controller_of(message), step_of(command)) for command in message.commands]
        if isinstance(message, Settled):
            who, _, commands = self._submitted.get((process, actor, message.ticket), ("", "", ()))
            if message.index < len(commands):
                return [(who, step_of(commands[message.index]))]
        return [(_display_name(actor), f"{does} {type(message).__name__}" if message is not None else "start")]


def _display_name(actor: str) -> str:
    return controller_of(actor) or actor


def _step_of_request(scope: Scope) -> str:
    verb = METHODS.get(scope.method, scope.method.lower())
    if verb in ("get", "delete") and not scope.has_name:
        verb = {"get": "list", "delete": "delete all"}[verb]
    resource = f"{scope.cluster}:{scope.resource}" if scope.cluster else scope.resource
    return f"{verb} {resource}/{scope.subresource}" if scope.subresource else f"{verb} {resource}"
