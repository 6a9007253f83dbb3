"""How a controller presents itself to the system: its names, what it watches, how its reconciler is built.

GREETER = ControllerSpec(
    name="greeter-controller",
    queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself),)),),
    build=lambda context: Greeter(tables=context.tables),
)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import KW_ONLY, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_type_hints

from kcm.actors.options import Check, ControllerOptions, Options
from kcm.actors.options.known_controllers import is_enabled
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.reconciler import Running
from kcm.actors.reconciliation.watches import Read, Selecting, Watch
from kcm.protocols.arguments import check_each, check_function, check_number, check_text, check_type
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.outcomes import FAILURES, Invalid, Outcome
from kcm.protocols.objects import Object
from kcm.protocols.resources import Resource
from kcm.runtime.calls.listeners import Listen
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.work_queue import PER_KEY
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

R = TypeVar("R")  # a reconciler
K = TypeVar("K", bound=Hashable)  # a key


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """All that a reconciler may be built from. Built anew for each incarnation of its actor.

    authority: the certificates that the client's configuration has in place for the API server, PEM; b"" where it names
    a file, or none.
    """

    tables: Tables
    clock: Clock
    log: FilteringBoundLogger
    metrics: Metrics
    options: Options
    authority: bytes = b""


def _by_default(_options: Options) -> float | None:
    return None


def _always(_options: Options) -> bool:
    return True


def _as_it_is(spec: ControllerSpec, _options: Options) -> ControllerSpec:
    return spec


def call_reconcile(reconciler: Any, key: Any) -> Running:
    """What a queue does with its keys where it does not say otherwise."""
    running: Running = reconciler.reconcile(key)
    return running


@dataclass(frozen=True, slots=True)
class AnyQueue:
    """A Queue whose types are not known: what tuples of queues are made of.

    It is a class of its own so that mypy infers each queue's types from the queue, and not from the tuple it is in.
    """

    name: str = ""
    _: KW_ONLY
    watches: tuple[Watch[Any], ...] = ()
    reconcile: Callable[[Any, Any], Running] = call_reconcile
    concurrency: int | Callable[[Options], int] = 5
    max_retries: int | None = None
    terminal: tuple[type[Outcome], ...] = (Invalid,)
    backoff: Backoff = PER_KEY
    retry_qps: float = 10.0
    retry_burst: int = 100
    events_first: bool = False
    turn_of: Callable[[Any], Hashable] | None = None
    reports_as: str = ""

    def __post_init__(self) -> None:
        """Raises TypeError on a single watch in place of a tuple, and on what cannot be called; ValueError on a number
        that makes no sense.
        """
        check_text("name of a queue", self.name, may_be_empty=True)
        name = f"queue {self.name!r}"
        check_each(f"watches of {name}", self.watches, _are(Watch, "a Watch"))
        _refuse_single(f"terminal of {name}", self.terminal)
        _refuse_uncallable(name, reconcile=self.reconcile)
        if self.turn_of is not None:
            _refuse_uncallable(name, turn_of=self.turn_of)
        _refuse_number(name, concurrency=self.concurrency)
        if not all(one in FAILURES for one in self.terminal):
            raise TypeError(f"{name}: terminal are types of outcomes that are failures, not {self.terminal!r}")
        backoff: object = self.backoff
        if not isinstance(backoff, Backoff):
            raise TypeError(f"{name}: backoff is a Backoff(first=…, most=…), not {backoff!r}")
        if self.max_retries is not None:
            check_number(f"max_retries of {name}", self.max_retries, least=0, whole=True)
        check_number(f"retry_qps of {name}", self.retry_qps)
        check_number(f"retry_burst of {name}", self.retry_burst, least=1, whole=True)


@dataclass(frozen=True, slots=True)
class Queue(AnyQueue, Generic[R, K]):
    """One work queue of a controller: keys of type K, and the function that reconciles one.

    name: in workqueue_* metrics and logs; empty: the controller's name without "-controller".
    watches: which changes enqueue which keys. A key is any hashable value with a good str().
    reconcile: called with the reconciler and a key; empty: the reconciler's own `reconcile`.
    concurrency: keys in work at once. max_retries: failures in a row after which a key waits for its next event; None
    is never. terminal: outcomes after which it waits for that at once, if they are raised, as for a TerminalError.
    backoff: how long a key that failed waits. retry_qps, retry_burst: how many retries a second all keys have together;
    a negative qps lifts that limit. events_first: keys that an event names go before those that the first list or a
    resync enqueued, however many these are; else in the order in which they were added. turn_of: the group of a key,
    such as its namespace: groups are served in turns, so that thousands of keys of one do not hold up those of another.
    reports_as: its name in workqueue_*, where that is not `name`; queues of one such name share their series.
    """

    _: KW_ONLY
    watches: tuple[Watch[K], ...] = ()
    reconcile: Callable[[R, K], Running] = call_reconcile


@dataclass(frozen=True, slots=True)
class Pass:
    """Something that a controller does periodically, without a key.

    It begins once the controller may act, and again `every` seconds after it ended (math.inf: it runs once). A pass
    that returns RequeueAfter(seconds) begins again after so many instead. One that failed is logged and begins again
    after 10 s, then 20, 40, …, and at most `every` seconds.

    name: in logs and health. run: called with the reconciler. queue: a name under which it reports workqueue_* metrics,
    as if it were a queue of one key; empty: it does not.
    """

    name: str
    _: KW_ONLY
    every: float | Callable[[Options], float]
    run: Callable[[Any], Running]
    queue: str = ""

    def __post_init__(self) -> None:
        """Raises TypeError on what cannot be called; ValueError on a period that is none."""
        check_text("name of a pass", self.name)
        check_text(f"queue of pass {self.name!r}", self.queue, may_be_empty=True)
        _refuse_uncallable(f"pass {self.name!r}", run=self.run)
        _refuse_number(f"pass {self.name!r}", every=self.every)


@dataclass(frozen=True, slots=True)
class Source:
    """Something that listens to the world outside, and wakes keys of its controller.

    async def changes(waker: Waker) -> AsyncIterator[str]:
        async for message in consumer:
            yield f"default/{message.name}"

    It runs from when the controller may act until that stops, and begins again when it ends or fails, after 1 s, then
    2, 4, … and at most 60. What comes while the controller does not run is lost: a controller that starts looks at all
    objects of its watches.

    name: in logs and health. listen: called with a Waker. An async function or async generator runs on the event loop
    that async calls have, and is cancelled; a plain function or generator has a thread of its own, and ends when it
    sees `waker.stopped`. What a generator yields is enqueued; the others call `waker.enqueue`. queue: its name in the
    spec; empty: the first.
    """

    name: str
    listen: Listen
    _: KW_ONLY
    queue: str = ""

    def __post_init__(self) -> None:
        """Raises TypeError on what cannot be called."""
        check_text("name of a source", self.name)
        check_text(f"queue of source {self.name!r}", self.queue, may_be_empty=True)
        _refuse_uncallable(f"source {self.name!r}", listen=self.listen)


@dataclass(frozen=True, slots=True)
class Index:
    """An index that a controller's lister calls need: which values an object has in it. See Lister.indexed.

    Two controllers that name the same index of a resource share it; `values_of` has to be the same function.
    """

    resource: Resource
    name: str
    values_of: Callable[[Object], Iterable[str]]

    def __post_init__(self) -> None:
        """Raises TypeError on what is no resource, name or function."""
        check_type("an Index", self.resource, Resource, "a Resource")
        check_text(f"name of an index of {self.resource}", self.name)
        check_function(f"values_of of the index {self.name!r}", self.values_of)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is derived once of each object of a resource, so that nobody decodes it for that: `lister.entry(key).facts`.

    derive: returns a dataclass or named tuple, and says so in its annotation. Its fields are the facts that an Interest
    names, so their values are hashable. It must not raise on an object that the server may send: such an object cannot
    be read (Lister.unreadable).

    All controllers that see whole objects of the resource have them; two that declare some for one resource name the
    same function. Pods, nodes and leases have facts already: an Index serves there, with Interest(indexed=...).
    """

    resource: Resource
    derive: Callable[[Object], Any]

    def __post_init__(self) -> None:
        """Raises TypeError on a resource that is none, and on a function that does not say what it returns."""
        if not isinstance(self.resource, Resource):
            raise TypeError(f"facts are of a Resource, not of {self.resource!r}")
        _refuse_uncallable(f"facts of {self.resource}", derive=self.derive)
        if not self.names:
            raise TypeError(f"facts of {self.resource}: derive is annotated to return a dataclass or named tuple")

    @property
    def names(self) -> frozenset[str]:
        """Of the facts."""
        return names_of_facts(self.derive)


def names_of_facts(derive: Callable[[Object], Any]) -> frozenset[str]:
    returned = get_type_hints(derive).get("return")
    if is_dataclass(returned):
        return frozenset(field.name for field in fields(returned))
    # Structs of msgspec have the first attribute, named tuples the second.
    return frozenset(getattr(returned, "__struct_fields__", getattr(returned, "_fields", ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSpec:
    """One controller.

    name: canonical, as --controllers and logs have it. aliases: older names for the same.
    build: makes what `reconcile` of the queues and `run` of the passes are called with.
    reads: further resources that it reads, without being woken by them; a Read says which objects.
    indexes, facts: what its listers find objects by, and what of them.
    discovers: resources that it finds by discovery, and watches while they are there.
    options: its flags, read as `context.options[TheClass]`. checks: what is wrong with them, a line each; they also
    run where the controller is disabled.
    start_checks: what is wrong with what its options name, as a file that cannot be read, a line each. Looked at once,
    before anything starts, where the controller runs; what they yield ends `run-kcm`.
    by_its_flags_alone: --controllers neither switches it on nor off.
    enabled_if: False means skipped, as if disabled. needs: what it asks for, told where it is skipped.
    resync: seconds after which it enqueues everything again; None for --min-resync-period and up to twice that.
    client: the API client in whose name and rate limit it writes; component: the source of its events; each is the
    controller's name where left empty.
    has_root_credentials: it writes as the manager itself, whatever --use-service-account-credentials says.
    qps, burst: the rate limit of its client, as numbers or functions of the options; None: those of --kube-api-qps and
    --kube-api-burst. Controllers of one client have one limit.
    calls: of functions outside (`call`) at a time; None: as many as the system makes, 16 in threads and 128 async ones.
    sources: what wakes its keys from outside.
    never_blocks: its code waits for nothing and is at home on any thread; so its actor shares one with others. Where it
    is False, it has one of its own.
    adapted: returns the spec that runs with these options: for what a feature gate adds, such as a watch of a resource
    that is not always served.
    children: kinds of actors that it may ask the manager for (StartChild): how to build one, by its name. The context
    has no overlay in common with the controller's.
    """

    name: str
    build: Callable[[ControllerContext], Any]
    queues: tuple[AnyQueue, ...] = ()
    passes: tuple[Pass, ...] = ()
    reads: tuple[Resource | Read, ...] = ()
    indexes: tuple[Index, ...] = ()
    facts: tuple[Facts, ...] = ()
    discovers: Discovered[Any] | None = None
    enabled_if: Callable[[Options], bool] = _always
    adapted: Callable[[ControllerSpec, Options], ControllerSpec] = _as_it_is
    needs: str = ""
    resync: float | Callable[[Options], float | None] = _by_default
    aliases: tuple[str, ...] = ()
    client: str = ""
    has_root_credentials: bool = False
    qps: float | Callable[[Options], float] | None = None
    burst: int | Callable[[Options], int] | None = None
    component: str = ""
    on_by_default: bool = True
    by_its_flags_alone: bool = False
    options: type[ControllerOptions] | None = None
    checks: tuple[Check, ...] = ()
    start_checks: tuple[Check, ...] = ()
    calls: int | None = None
    sources: tuple[Source, ...] = ()
    never_blocks: bool = False
    children: Mapping[str, Callable[[str, ControllerContext], ActorSpec]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<ControllerSpec {self.name}>"  # the whole of BUILT_IN is 5 kB

    def __post_init__(self) -> None:
        """Raises TypeError on ("x") for ("x",), as each letter would be an alias, and on what cannot be called;
        ValueError on an empty name, or two equal ones.
        """
        if not self.name or not isinstance(self.name, str):
            raise ValueError(f"a controller has a name, got {self.name!r}")
        several: dict[str, tuple[object, Callable[[str, Any], None]]] = {
            "aliases": (self.aliases, check_text),
            "queues": (self.queues, _are(AnyQueue, "a Queue")),
            "passes": (self.passes, _are(Pass, "a Pass")),
            "reads": (self.reads, _are((Resource, Read), "a Resource or a Read")),
            "indexes": (self.indexes, _are(Index, "an Index")),
            "facts": (self.facts, _are(Facts, "a Facts")),
            "checks": (self.checks, check_function),
            "start_checks": (self.start_checks, check_function),
            "sources": (self.sources, _are(Source, "a Source")),
        }
        for what, (given, check) in several.items():
            check_each(f"{what} of {self.name}", given, check)
        _refuse_uncallable(self.name, build=self.build, enabled_if=self.enabled_if, adapted=self.adapted)
        if self.discovers is not None:
            check_type(f"discovers of {self.name}", self.discovers, Discovered, "a Discovered")
        if self.options is not None and not isinstance(self.options, type):
            raise TypeError(f"options of {self.name} is a class of flags, not {self.options!r:.80}")
        for what, text in (("client", self.client), ("component", self.component), ("needs", self.needs)):
            check_text(f"{what} of {self.name}", text, may_be_empty=True)
        if self.qps is not None and not callable(self.qps):
            check_number(f"qps of {self.name}", self.qps)
        if self.burst is not None and not callable(self.burst):
            check_number(f"burst of {self.name}", self.burst, whole=True)
        if self.qps == 0 or (isinstance(self.burst, int) and self.burst < 1):
            raise ValueError(f"{self.name}: qps is not 0 and burst at least 1, got {self.qps!r} and {self.burst!r}")
        if not callable(self.resync) and not isinstance(self.resync, int | float):
            raise TypeError(f"{self.name}: resync is a number, or a function of the options, not {self.resync!r}")
        if self.calls is not None:
            check_number(f"calls of {self.name}", self.calls, least=1, whole=True)
        for named in (self.queues, self.passes, self.sources):
            names = [one.name for one in named]
            if len(set(names)) < len(names):
                raise ValueError(f"two queues, passes or sources of {self.name} have one name: {names}")
        for source in self.sources:
            try:
                self.queue_named(source.queue)
            except ValueError as err:
                raise ValueError(f"source {source.name!r}: {err}") from err

    def queue_named(self, name: str) -> str:
        """The name that this queue has in logs and messages; "": the first one. Raises ValueError without it."""
        default = self.name.removesuffix("-controller")
        names = [queue.name or default for queue in self.queues]
        if not names or (name and name not in names):
            said = f"no queue {name!r}" if name else "no queue"
            raise ValueError(f"{self.name} has {said}" + (f", but {', '.join(names)}" if names else ""))
        return name or names[0]

    @property
    def watches(self) -> tuple[Watch[Any], ...]:
        """Those of all its queues."""
        return tuple(watch for queue in self.queues for watch in queue.watches)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """All that it reads, each once, in the order named."""
        return tuple(dict.fromkeys(one.resource for one in self.selecting))

    @property
    def selecting(self) -> tuple[Selecting, ...]:
        """What says which objects of a resource it sees: its watches and reads, in the order named."""
        return (*self.watches, *(one if isinstance(one, Read) else Read(one) for one in self.reads))


def switched_on(specs: Iterable[ControllerSpec], options: Options) -> tuple[ControllerSpec, ...]:
    """Those that --controllers names; one whose `enabled_if` says no is among them and does not run all the same."""
    chosen = options.generic.controllers
    return tuple(
        spec
        for spec in specs
        if spec.by_its_flags_alone or is_enabled(spec.name, chosen, on_by_default=spec.on_by_default)
    )


def runs(name: str, specs: Iterable[ControllerSpec], options: Options) -> bool:
    """Whether the controller of this name is among those that run."""
    return any(spec.name == name and spec.enabled_if(options) for spec in switched_on(specs, options))


def checked_specs(what: str, given: object) -> tuple[ControllerSpec, ...]:
    """Return them as a tuple. Raises TypeError on a single spec, and on what is none, as a function that builds one."""
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise TypeError(f"{what}: expected a tuple of ControllerSpecs, got {given!r:.80}")
    specs = tuple(given)
    check_each(what, specs, _are(ControllerSpec, "a ControllerSpec"))
    return specs


def _are(expected: type | tuple[type, ...], words: str) -> Callable[[str, Any], None]:
    return lambda what, given: check_type(what, given, expected, words)


def _refuse_single(what: str, given: object) -> None:
    if not isinstance(given, tuple | list):
        raise TypeError(f"{what}: expected a tuple, got {given!r}")


def _refuse_number(what: str, **numbers: object) -> None:
    """Each is a number above 0, or a function that returns one."""
    for name, given in numbers.items():
        if callable(given):
            continue
        if not isinstance(given, int | float) or isinstance(given, bool):
            raise TypeError(f"{what}: {name} is a number, or a function of the options, not {given!r}")
        if not given > 0:
            raise ValueError(f"{what}: {name} is above 0, not {given!r}")


def _refuse_uncallable(what: str, **functions: object) -> None:
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(f"{what}: {name} is a function, not {function!r}")
