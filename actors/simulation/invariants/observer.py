"""Observations of a simulated cluster, and the checker that passes them to invariants.

An observation is a fact about the run, such as a submitted command or a change on the server. An invariant is an object
with a name and a method `observe`. Every run creates new invariants, because they have state.

    checker = InvariantChecker(cluster, [SingleOwner(), ...])
    cluster.run_until(lambda: bool(checker.violations), within=60.0)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, get_args

from msgspec import Struct
from msgspec.structs import replace

from kcm.actors.app.system import ControllerSystem
from kcm.actors.reconciliation.actor_names import DISPATCHER, cluster_of_elector, group_of_elector, is_recorder
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.codec import unpack
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.cloud import CloudCall
from kcm.protocols.messages.commands import Command, Submit
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.lifecycle import Attached, LeaseHeld
from kcm.protocols.messages.outcomes import Outcome, Settled
from kcm.protocols.objects import Key, Object, decode_object
from kcm.protocols.pods import PodFacts, pod_facts
from kcm.protocols.resources import cluster_path, split_cluster
from kcm.runtime.apiserver.storage.store import StoreChange
from kcm.runtime.client.api import Request, Response
from kcm.runtime.tables.entry import Entry

MOST_VIOLATIONS = 20  # violations to keep
DECODED = 256  # decoded versions of objects to keep


@lru_cache(maxsize=DECODED)
def decoded(raw: bytes) -> Object:
    """Decode an object of a StoreChange. Invariants share the result, and must not modify it."""
    return decode_object(raw)


@lru_cache(maxsize=DECODED)
def facts_of_pod(raw: bytes) -> PodFacts:
    """Return the facts of a pod in a StoreChange, which many invariants compare."""
    return pod_facts(decoded(raw))


def shown(system: ControllerSystem, resource_id: str, key: Key) -> Entry | None:
    """Return the newest version of an object that the caches of a process contain; None if no cache contains it."""
    tables = (table for table in system.tables.values() if table.resource.id == resource_id)
    entries = [entry for entry in (table.get(key) for table in tables) if entry is not None]
    return max(entries, key=lambda entry: entry.resource_version, default=None)


class ProcessStarted(NamedTuple):
    """A process starts or restarts. A restarted process has no state of its previous incarnation."""

    process: str
    system: ControllerSystem


class Submitted(NamedTuple):
    """An actor submits commands to the dispatcher, which sends them to the server. This is when it decides."""

    process: str
    system: ControllerSystem
    submit: Submit


class OutcomeReceived(NamedTuple):
    """An actor receives the outcome of one of its commands. command: None if its submission was not observed."""

    process: str
    system: ControllerSystem
    sender: str
    command: Command | None
    outcome: Outcome


class Admitted(NamedTuple):
    """The dispatcher, which sends all writes of a process, accepts commands of a new incarnation of an actor.

    From now on it refuses commands of earlier incarnations.

    name: name of the actor.
    lost: commands of earlier incarnations, or to an earlier dispatcher, that will not have an outcome.
    """

    process: str
    name: str
    incarnation: int
    lost: Sequence[Command]


class Recorded(NamedTuple):
    """An actor sends an event about an object to the recorder, which may then aggregate or drop it."""

    process: str
    sender: str
    record: Record


class Sent(NamedTuple):
    """A process sends a request to the server.

    client: user name of the request.
    request: with several clusters, its path begins with the cluster: /clusters/edge/api/v1/pods.
    by_fenced: whether the actor that sends it was fenced, because a new incarnation replaced it.
    """

    process: str
    client: str
    request: Request
    by_fenced: bool


class Called(NamedTuple):
    """A process begins a call outside the cluster, for example to the cloud provider."""

    process: str
    call: Call | CloudCall

    @property
    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and keyword arguments of the called function."""
        by_position, by_name = unpack(self.call.arguments) if isinstance(self.call, Call) else ([], {})
        return by_position, by_name


class Entitled(NamedTuple):
    """The leader election permits a process to write until the given virtual time.

    cluster: where the Lease is, in a world with several clusters; "" otherwise.
    group: group of controllers whose Lease it is; "" for the main Lease.
    """

    process: str
    until: float
    cluster: str = ""
    group: str = ""


class Handled(NamedTuple):
    """The server has handled a request of a process.

    request: as in Sent.
    changes: changes that it committed for the request; they were observed before as Committed.
    """

    process: str
    client: str
    request: Request
    response: Response
    changes: Sequence[StoreChange]


class Committed(NamedTuple):
    """The server's state has changed.

    changes: with several clusters, the `storage` of each begins with the cluster: "edge:configmaps".
    """

    changes: Sequence[StoreChange]


Observation = (
    ProcessStarted | Submitted | OutcomeReceived | Admitted | Entitled | Recorded | Sent | Called | Handled | Committed
)
OBSERVATIONS: tuple[type, ...] = get_args(Observation)
Fail = Callable[[str], None]  # records a violation with this text
Selected = tuple[type, frozenset[str]]  # type of observations, and their subjects


def only(kind: type, *subjects: str) -> Selected:
    """Select the observations of a type that have one of these subjects, for Invariant.observes.

    The subjects of a Committed are the resources of its changes, as in StoreChange.storage but without the cluster. The
    subject of a Sent or a Handled is its client, and that of the other observations of commands and events the name of
    the actor.
    """
    return kind, frozenset(subjects)


def _storages(committed: Committed) -> Hashable:
    changes = committed.changes
    return changes[0].storage if len(changes) == 1 else frozenset([change.storage for change in changes])


_SUBJECTS: Mapping[type, Callable[[Any], Hashable]] = MappingProxyType(
    {
        Committed: _storages,
        Handled: attrgetter("client"),
        Sent: attrgetter("client"),
        Submitted: attrgetter("submit.sender"),
        OutcomeReceived: attrgetter("sender"),
        Recorded: attrgetter("sender"),
        Admitted: attrgetter("name"),
    }
)


def _subject_of(observation: Observation) -> Hashable:
    """Return the subject of an observation: a text, or several of a Committed with changes of several resources."""
    find = _SUBJECTS.get(type(observation))
    return "" if find is None else find(observation)


class Invariant(Protocol):
    """Condition that must be met at every moment of a run.

    The optional attribute `observes` is a tuple of types: only observations of these types are passed to the invariant.
    `only`, instead of a type, selects some of its observations, because most invariants are about few resources.
    """

    @property
    def name(self) -> str: ...

    def observe(self, observation: Observation, fail: Fail) -> None:
        """Check an observation, and call `fail` with a text for each violation. Observations are passed in order."""


def _observed(invariant: Invariant) -> dict[type, frozenset[str] | None]:
    """Return the subjects that an invariant observes, by type of the observations; None for all subjects."""
    observes: tuple[type | Selected, ...] = getattr(invariant, "observes", OBSERVATIONS)
    return dict(chosen if isinstance(chosen, tuple) else (chosen, None) for chosen in observes)


def _is_selected(kind: type, subject: Hashable, chosen: frozenset[str] | None) -> bool:
    """Report whether an observation is among the selected ones. chosen: subjects of this type; None for all."""
    if chosen is None or kind is not Committed:
        return chosen is None or subject in chosen
    storages: Collection[str] = subject if isinstance(subject, frozenset) else (str(subject),)
    return any(split_cluster(storage)[1] in chosen for storage in storages)


_Call = tuple[Callable[[Observation, Fail], None], Fail]  # an invariant's `observe`, and its second argument


class Violation(Struct, frozen=True):
    """Violation of an invariant. at: virtual seconds."""

    at: float
    invariant: str
    text: str

    def __str__(self) -> str:
        return f"at {self.at:.3f} s, {self.invariant}: {self.text}"


class InvariantChecker:
    """Observer of a cluster that passes observations to invariants and records violations.

    violations: the first MOST_VIOLATIONS violations.
    watching: functions that are called with each observation, after the invariants.
    elsewhere: number of checks that other code made, by name of the invariant.
    """

    def __init__(self, cluster: SimulatedCluster, invariants: Iterable[Invariant]) -> None:
        """Attach the invariants to the cluster. Must be called before any process starts."""
        self.violations: list[Violation] = []
        self.elsewhere: Counter[str] = Counter()
        self.watching: list[Callable[[Observation], None]] = []
        self._cluster = cluster
        invariants = tuple(invariants)
        calls = [
            (_observed(invariant), (invariant.observe, partial(self.fail, invariant.name))) for invariant in invariants
        ]
        self._calls = {kind: [(seen[kind], call) for seen, call in calls if kind in seen] for kind in OBSERVATIONS}
        self._calls_about: dict[tuple[type, Hashable], list[_Call]] = {}  # by type and subject of an observation
        self._observed = [(invariant.name, _observed(invariant)) for invariant in invariants]
        self._passed = dict.fromkeys(OBSERVATIONS, 0)  # number of observations, by type
        self._commands: dict[tuple[str, str, int, int], Command] = {}  # (process, sender, ticket, index)
        self._latest: tuple[float, Sequence[StoreChange]] = (0.0, ())  # time and changes of the latest commit
        if calls:
            for name, server in cluster.servers.items():
                server.network.witnesses.append(_WitnessOfCluster(self, name) if name else self)
                server.disk.observers.append(partial(self._committed_on, name) if name else self._committed)
            cluster.calls.witnesses.append(self)
            cluster.started.append(self._started)

    @property
    def checked(self) -> Counter[str]:
        """Return the number of checks by invariant: the observations of its types, plus `elsewhere`."""
        checked = Counter(self.elsewhere)
        for name, kinds in self._observed:
            if passed := sum(self._passed[kind] for kind in kinds):
                checked[name] += passed
        return checked

    def _pass_on(self, observation: Observation) -> None:
        kind = type(observation)
        self._passed[kind] += 1
        about = kind, _subject_of(observation)
        calls = self._calls_about.get(about)
        if calls is None:
            calls = [call for chosen, call in self._calls[kind] if _is_selected(*about, chosen)]
            self._calls_about[about] = calls
        for observe, fail in calls:
            observe(observation, fail)
        for watch in self.watching:
            watch(observation)

    def under_way(self) -> Iterator[tuple[str, str, int, Command]]:
        """Yield (process, sender, ticket, command) of all submitted commands without an outcome."""
        for (process, sender, ticket, _), command in self._commands.items():
            yield process, sender, ticket, command

    def _committed(self, changes: Sequence[StoreChange]) -> None:
        self._latest = (self._cluster.clock.monotonic(), changes)
        self._pass_on(Committed(changes))

    def _committed_on(self, cluster: str, changes: Sequence[StoreChange]) -> None:
        self._committed([change._replace(storage=f"{cluster}:{change.storage}") for change in changes])

    def fail(self, invariant: str, text: str) -> None:
        violation = Violation(self._cluster.clock.monotonic(), invariant, text)
        if len(self.violations) < MOST_VIOLATIONS:
            self.violations.append(violation)
            self._cluster.note("", f"VIOLATION {violation}")

    def _started(self, process: str, system: ControllerSystem) -> None:
        self._pass_on(ProcessStarted(process, system))
        decode = system.actors.decoder.decode

        def tap(sender: str, receiver: str, frame: bytes) -> None:
            to_recorder = is_recorder(receiver)
            if not to_recorder and DISPATCHER not in (sender, receiver):
                return
            if self._cluster.processes[process].system is not system:
                return  # the process has ended: its actors receive no outcomes
            if to_recorder and sender != DISPATCHER:  # the dispatcher sends outcomes to it too
                if isinstance(message := decode(frame), Record):
                    self._pass_on(Recorded(process, sender, message))
            elif receiver == DISPATCHER:
                message = decode(frame)
                if isinstance(message, Submit):
                    for index, command in enumerate(message.commands):
                        self._commands[process, message.sender, message.ticket, index] = command
                    self._pass_on(Submitted(process, system, message))
                elif isinstance(message, LeaseHeld):
                    cluster, group = cluster_of_elector(message.elector), group_of_elector(message.elector)
                    self._pass_on(Entitled(process, message.until, cluster, group))
            else:
                message = decode(frame)
                if isinstance(message, Settled):
                    asked = (process, receiver, message.ticket, message.index)
                    known = self._commands.pop(asked) if asked in self._commands else None
                    self._pass_on(OutcomeReceived(process, system, receiver, known, message.outcome))
                elif isinstance(message, Attached):
                    lost = self._lost(process, receiver, message)
                    self._pass_on(Admitted(process, receiver, message.incarnation, lost))

        system.actors.taps.append(tap)

    def _lost(self, process: str, name: str, attached: Attached) -> list[Command]:
        asked = [key for key in self._commands if key[:2] == (process, name) and [*key[2:]] not in attached.under_way]
        return [self._commands.pop(key) for key in asked]

    # Implements CallWitness.

    def called(self, process: str, call: Call | CloudCall) -> None:
        self._pass_on(Called(process, call))

    # Implements Witness.

    def sent(self, process: str, client: str, request: Request) -> None:
        actor = self._cluster.world.current
        fenced = actor is not None and actor.context.fenced
        self._pass_on(Sent(process, client, request, fenced))

    def carried_out(self, process: str, client: str, request: Request, response: Response) -> None:
        # A request is handled in no virtual time: an earlier commit belongs to another request.
        (when, changes), self._latest = self._latest, (0.0, ())
        mine = changes if when == self._cluster.clock.monotonic() else ()
        self._pass_on(Handled(process, client, request, response, mine))


class _WitnessOfCluster:
    """Witness of the network of one of several clusters. Implements Witness."""

    def __init__(self, checker: InvariantChecker, cluster: str) -> None:
        self._checker, self._cluster = checker, cluster

    def sent(self, process: str, client: str, request: Request) -> None:
        self._checker.sent(process, client, self._named(request))

    def carried_out(self, process: str, client: str, request: Request, response: Response) -> None:
        self._checker.carried_out(process, client, self._named(request), response)

    def _named(self, request: Request) -> Request:
        return replace(request, path=cluster_path(self._cluster, request.path))
