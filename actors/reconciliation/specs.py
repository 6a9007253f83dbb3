"""Specs of controllers: names, watches, queues, passes, and how the reconciler is built.

GREETER = ControllerSpec(
    name="greeter-controller",
    queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself),)),),
    build=lambda context: Greeter(tables=context.tables),
)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_type_hints

from msgspec import Struct, field

from kcm.actors.options import Check, ControllerOptions, Options
from kcm.actors.options.known_controllers import is_enabled
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.reconciler import Running
from kcm.actors.reconciliation.watches import DefinedResource, Permission, Read, Selecting, Watch
from kcm.protocols.arguments import check_each, check_function, check_number, check_text, check_type
from kcm.protocols.messages.outcomes import FAILURES, Invalid, Outcome
from kcm.protocols.objects import Object
from kcm.protocols.resources import Resource
from kcm.runtime.calls.listeners import Listen
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.work_queue import PER_KEY
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.actors.reconciliation.webhooks import AdmissionWebhook, VersionConversion

R = TypeVar("R")  # a reconciler
K = TypeVar("K", bound=Hashable)  # a key


class ControllerContext(Struct, frozen=True, kw_only=True):
    """Arguments to build a reconciler from. Every incarnation of its actor has a new one.

    authority: PEM certificates of the API server that the kubeconfig contains inline; b"" if it contains none.
    vitals: where actors publish their state for pages and health checks.
    """

    tables: Tables
    clock: Clock
    log: FilteringBoundLogger
    metrics: Metrics
    options: Options
    authority: bytes = b""
    vitals: Vitals = field(default_factory=Vitals)


def _by_default(_options: Options) -> float | None:
    return None


def _always(_options: Options) -> bool:
    return True


def _as_it_is(spec: ControllerSpec, _options: Options) -> ControllerSpec:
    return spec


def call_reconcile(reconciler: Any, key: Any) -> Running:
    """Reconcile a key with the reconciler's method `reconcile`: the default of a queue."""
    running: Running = reconciler.reconcile(key)
    return running


class _QueueName(Struct, frozen=True):
    name: str = ""


class AnyQueue(_QueueName, frozen=True, kw_only=True):
    """Queue without type parameters, for tuples of queues.

    With this class mypy infers the types of each queue from the queue itself, and not from the tuple that contains it.
    """

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
    priority_of: Callable[[Any, Tables], float] | None = None
    timeout: float | None = None
    reports_as: str = ""

    def __post_init__(self) -> None:
        """Raise TypeError for a field of a wrong type, ValueError for a number out of range."""
        check_text("name of a queue", self.name, may_be_empty=True)
        name = f"queue {self.name!r}"
        check_each(f"watches of {name}", self.watches, _are(Watch, "a Watch"))
        _refuse_single(f"terminal of {name}", self.terminal)
        _refuse_uncallable(name, reconcile=self.reconcile)
        if self.turn_of is not None:
            _refuse_uncallable(name, turn_of=self.turn_of)
        if self.priority_of is not None:
            _refuse_uncallable(name, priority_of=self.priority_of)
            if self.turn_of is not None:
                raise ValueError(f"{name}: either turn_of or priority_of is set")
        _refuse_number(name, concurrency=self.concurrency)
        if not all(outcome in FAILURES for outcome in self.terminal):
            raise TypeError(f"{name}: terminal are types of outcomes that are failures, not {self.terminal!r}")
        backoff: object = self.backoff
        if not isinstance(backoff, Backoff):
            raise TypeError(f"{name}: backoff is a Backoff(first=…, most=…), not {backoff!r}")
        if self.max_retries is not None:
            check_number(f"max_retries of {name}", self.max_retries, least=0, whole=True)
        check_number(f"retry_qps of {name}", self.retry_qps)
        check_number(f"retry_burst of {name}", self.retry_burst, least=1, whole=True)
        if self.timeout is not None:
            check_number(f"timeout of {name}", self.timeout, least=0)


class Queue(AnyQueue, Generic[R, K], frozen=True, kw_only=True):
    """Work queue of a controller, with keys of type K, and the function that reconciles a key.

    name: in workqueue_* metrics and logs; empty: the controller's name without "-controller".
    watches: watches that enqueue keys. A key is any hashable value with a readable str().
    reconcile: called with the reconciler and a key; by default the reconciler's method `reconcile`.
    concurrency: number of keys that are reconciled at once.
    max_retries: successive failures after which a key waits for its next event; None: unlimited.
    terminal: outcomes that have the effect of a TerminalError if they are raised.
    backoff: delays of the retries of a key.
    retry_qps, retry_burst: limits of the retries of all keys together; a negative qps means no limit.
    events_first: keys of events precede keys of the first list and of resyncs. Otherwise keys are first in, first out.
    turn_of: group of a key, such as its namespace. Groups are served round robin, so that many keys of one group do not
        delay the keys of another.
    priority_of: called with a key and the tables when the key is added; keys of higher priority are handed out first.
        Not together with turn_of.
    timeout: seconds after which a reconciliation that still waits for outcomes is ended with an error; 0: no limit;
        None: --reconcile-timeout.
    reports_as: name in workqueue_* metrics if it is not `name`; queues of the same name share their series.
    """

    watches: tuple[Watch[K], ...] = ()
    reconcile: Callable[[R, K], Running] = call_reconcile


class _PassName(Struct, frozen=True):
    name: str


class Pass(_PassName, frozen=True, kw_only=True):
    """Periodic work of a controller, without a key.

    A pass first runs when the controller is ready, and again `every` seconds after it ended, or after the seconds of
    the RequeueAfter that it returned. After a failure, which is logged, it runs again after 10 s, 20 s, 40 s, …, at
    most `every` seconds.

    name: in logs and health checks.
    every: seconds; math.inf: it runs once.
    run: called with the reconciler.
    queue: name under which it has workqueue_* metrics, like a queue with one key; empty: none.
    """

    every: float | Callable[[Options], float]
    run: Callable[[Any], Running]
    queue: str = ""

    def __post_init__(self) -> None:
        """Raise TypeError for a field of a wrong type, ValueError for an invalid period."""
        check_text("name of a pass", self.name)
        check_text(f"queue of pass {self.name!r}", self.queue, may_be_empty=True)
        _refuse_uncallable(f"pass {self.name!r}", run=self.run)
        _refuse_number(f"pass {self.name!r}", every=self.every)


class _NamedListener(Struct, frozen=True):
    name: str
    listen: Listen


class Source(_NamedListener, frozen=True, kw_only=True):
    """Listener to events outside the cluster, which enqueues keys.

    async def changes(waker: Waker) -> AsyncIterator[str]:
        async for message in consumer:
            yield f"default/{message.name}"

    A source runs while the controller is ready. When it ends or fails, it is restarted after 1 s, 2 s, 4 s, …, at most
    60 s. Events while the controller does not run are lost; a controller that starts reconciles all objects of its
    watches.

    name: in logs and health checks.
    listen: called with a Waker. An async function or async generator runs on the event loop of async calls, and is
        cancelled in the end; a plain function or generator has its own thread, and must end when `waker.stopped` is
        set. Keys that a generator yields are enqueued; a function calls `waker.enqueue`.
    queue: name of the queue in the spec; empty: the first.
    """

    queue: str = ""

    def __post_init__(self) -> None:
        """Raise TypeError for a field of a wrong type."""
        check_text("name of a source", self.name)
        check_text(f"queue of source {self.name!r}", self.queue, may_be_empty=True)
        _refuse_uncallable(f"source {self.name!r}", listen=self.listen)


class Index(Struct, frozen=True):
    """Index of a controller's lister; see Lister.indexed. `values_of` returns the values of an object.

    Controllers that declare an index of the same name for a resource share it, and must declare the same function.
    """

    resource: Resource
    name: str
    values_of: Callable[[Object], Iterable[str]]

    def __post_init__(self) -> None:
        """Raise TypeError for a field of a wrong type."""
        check_type("an Index", self.resource, Resource, "a Resource")
        check_text(f"name of an index of {self.resource}", self.name)
        check_function(f"values_of of the index {self.name!r}", self.values_of)


class Facts(Struct, frozen=True):
    """Values that are derived once from each object of a resource, so that it need not be decoded to read them.

    They are available as `lister.entry(key).facts`, and an Interest can name its fields and properties.

    derive: returns a dataclass or named tuple of hashable values, and is annotated with it. If it raises, the object is
        unreadable (Lister.unreadable).

    All controllers that see whole objects of the resource share the facts, and must declare the same function. Pods,
    nodes and leases have built-in facts; use an Index there, with Interest(indexed=...).
    """

    resource: Resource
    derive: Callable[[Object], Any]

    def __post_init__(self) -> None:
        """Raise TypeError for a field of a wrong type, and for a function without the annotation of its result."""
        if not isinstance(self.resource, Resource):
            raise TypeError(f"facts are of a Resource, not of {self.resource!r}")
        _refuse_uncallable(f"facts of {self.resource}", derive=self.derive)
        if not self.names:
            raise TypeError(f"facts of {self.resource}: derive is annotated to return a dataclass or named tuple")

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the facts."""
        return names_of_facts(self.derive)


def names_of_facts(derive: Callable[[Object], Any]) -> frozenset[str]:
    """Return the names of the fields and properties of the class that `derive` is annotated to return."""
    returned = get_type_hints(derive).get("return")
    if is_dataclass(returned):
        names = [field.name for field in fields(returned)]
    else:  # Structs of msgspec have the first attribute, named tuples the second
        names = [*getattr(returned, "__struct_fields__", getattr(returned, "_fields", ()))]
    if names:
        names += [name for name, value in vars(returned).items() if isinstance(value, property)]
    return frozenset(names)


class ControllerSpec(Struct, frozen=True, kw_only=True):
    """Declaration of a controller.

    name: canonical name, as in --controllers and logs.
    aliases: older names.
    build: builds the reconciler, which is passed to `reconcile` of the queues and `run` of the passes.
    reads: further resources that it reads, whose changes enqueue no keys; a Read selects objects.
    indexes, facts: indexes and derived values of its listers.
    discovers: resources that it finds by discovery, and watches while they exist.
    options: class of its flags, read as `context.options[TheClass]`.
    checks: validation of its options, one line per error; also run if the controller is disabled.
    start_checks: validation of what the options refer to, such as unreadable files. They run once before anything
        starts, if the controller runs; an error ends `run-kcm`.
    by_its_flags_alone: --controllers neither enables nor disables it.
    enabled_if: if it returns False, the controller is skipped, as if disabled.
    needs: requirement that is logged if the controller is skipped.
    resync: seconds between two resyncs; None: between --min-resync-period and twice that.
    client: API client, with its name and rate limit; empty: the controller's name.
    component: source of its events; empty: the controller's name.
    has_root_credentials: it always writes as the manager, even with --use-service-account-credentials.
    qps, burst: rate limit of its client, as numbers or functions of the options; None: --kube-api-qps and
        --kube-api-burst. Controllers with the same client share one limit.
    calls: maximum number of outside calls (`call`) at a time; None: the limits of the system, 16 in threads and 128
        async ones.
    sources: listeners that enqueue keys.
    never_blocks: its code does not block and does not depend on its thread, so that its actor shares a thread with
        others. If False, it has its own thread.
    adapted: returns the spec to run with these options, for example with watches that a feature gate adds.
    children: by name, how to build the actors that it may request from the manager (StartChild). Their contexts share
        no overlay with the controller's.
    admission: webhooks that validate and mutate objects before they are stored: validate(…) and mutate(…).
    conversion: conversions between the versions of custom resources: convert(…).
    permissions: for generated RBAC rules, beside `list` and `watch` of its watches and reads. In simulations requests
        without a permission are violations. None: not declared, and not checked.
    definitions: custom resources of the operator, for generated CustomResourceDefinitions.
    home: in a program that works on several clusters, the cluster whose Lease it runs under; empty: that of its first
        watch or read.
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
    admission: tuple[AdmissionWebhook, ...] = ()
    conversion: tuple[VersionConversion, ...] = ()
    permissions: tuple[Permission, ...] | None = None
    definitions: tuple[DefinedResource, ...] = ()
    home: str = ""

    def __repr__(self) -> str:
        return f"<ControllerSpec {self.name}>"  # the whole of BUILT_IN is 5 kB

    def __post_init__(self) -> None:
        """Check the fields.

        Raises TypeError for ("x") instead of ("x",), because each letter would be an alias, and for a value that should
        be callable but is not; ValueError for an empty name, or two equal names.
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
        for what, text in (
            ("client", self.client),
            ("component", self.component),
            ("needs", self.needs),
            ("home", self.home),
        ):
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
        if self.admission or self.conversion:
            from kcm.actors.reconciliation.webhooks import check_webhooks  # few controllers have webhooks

            check_webhooks(self.name, self.admission, self.conversion)
        if self.permissions is not None:
            check_each(f"permissions of {self.name}", self.permissions, _are(Permission, "a Permission"))
        check_each(f"definitions of {self.name}", self.definitions, _are(DefinedResource, "a Definition"))
        for named in (self.queues, self.passes, self.sources):
            names = [entry.name for entry in named]
            if len(set(names)) < len(names):
                raise ValueError(f"two queues, passes or sources of {self.name} have one name: {names}")
        for source in self.sources:
            try:
                self.queue_named(source.queue)
            except ValueError as err:
                raise ValueError(f"source {source.name!r}: {err}") from err

    def queue_named(self, name: str) -> str:
        """Return the full name of a queue. "": the first queue. Raises ValueError if there is no such queue."""
        default = self.name.removesuffix("-controller")
        names = [queue.name or default for queue in self.queues]
        if not names or (name and name not in names):
            missing = f"no queue {name!r}" if name else "no queue"
            raise ValueError(f"{self.name} has {missing}" + (f", but {', '.join(names)}" if names else ""))
        return name or names[0]

    @property
    def home_cluster(self) -> str:
        """Return the cluster whose Lease it runs under; "" in a program with one cluster."""
        return self.home or next((source.resource.cluster for source in self.selecting), "")

    @property
    def watches(self) -> tuple[Watch[Any], ...]:
        """Return the watches of all queues."""
        return tuple(watch for queue in self.queues for watch in queue.watches)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Return all resources that the controller reads, each once, in declaration order."""
        return tuple(dict.fromkeys(source.resource for source in self.selecting))

    @property
    def selecting(self) -> tuple[Selecting, ...]:
        """Return the watches and reads, in declaration order."""
        return (*self.watches, *(read if isinstance(read, Read) else Read(read) for read in self.reads))


def switched_on(specs: Iterable[ControllerSpec], options: Options) -> tuple[ControllerSpec, ...]:
    """Return the specs that --controllers enables, including those whose `enabled_if` prevents them from running."""
    chosen = options.generic.controllers
    return tuple(
        spec
        for spec in specs
        if spec.by_its_flags_alone or is_enabled(spec.name, chosen, on_by_default=spec.on_by_default)
    )


def runs(name: str, specs: Iterable[ControllerSpec], options: Options) -> bool:
    """Report whether the controller with this name runs."""
    return any(spec.name == name and spec.enabled_if(options) for spec in switched_on(specs, options))


def clusters_of(specs: Iterable[ControllerSpec]) -> tuple[str, ...]:
    """Return the clusters that these controllers name, in the order of their first mention; () for one cluster."""
    names = (name for spec in specs for name in (spec.home, *(resource.cluster for resource in spec.resources)))
    return tuple(dict.fromkeys(filter(None, names)))


def checked_specs(what: str, given: object) -> tuple[ControllerSpec, ...]:
    """Return the specs as a tuple. Raises TypeError for a single spec, or an item that is not a spec."""
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
    """Check that each is a number above 0, or a function."""
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
