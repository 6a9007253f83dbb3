"""Controller manager as an object, for bin/run-kcm and for programs that embed it.

    with ControllerSystem(transport=transport, controllers=(*BUILT_IN, GREETER)) as system:
        system.wait()

`async with` does the same in a program with an asyncio event loop, which continues to run while the system is stopped.

The system installs no signal handlers, has no global state and configures no logging. Several systems can run in one
process, beside other pykka actors of the program. See docs/embedding.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import orjson
from msgspec import Struct

from kcm.actors.app.assembly import manager_spec, plan_manager
from kcm.actors.app.controller_plans import ownership
from kcm.actors.app.health import BRAKE_CHECK, Check, brake_check, has_begun
from kcm.actors.app.manager_supervision import ManagerSupervision
from kcm.actors.app.shared_parts import CONTROLLER_MANAGER, Assembly
from kcm.actors.app.system_parts import (
    check_arguments,
    labels_of_actor,
    log_skipped,
    shown_page,
    spec_named,
    storm_brake,
    system_checks,
    tracing_of,
    ways_to_clusters,
    webhooks_of,
    with_active_groups,
)
from kcm.actors.app.watchdog import Watchdog
from kcm.actors.engine.controller import DecisionMemory
from kcm.actors.engine.elector import Election, Ownership
from kcm.actors.engine.informer import Outage
from kcm.actors.engine.manager import DRAINED
from kcm.actors.engine.server_warnings import ServerWarnings
from kcm.actors.engine.vitals import ControllerVitals, ElectorVitals, KeyProgress
from kcm.actors.options import Options
from kcm.actors.reconciliation import DebugPage
from kcm.actors.reconciliation.actor_names import MANAGER, controller_name, group_elector_name
from kcm.actors.reconciliation.derived import MakeTable, frozen_table, new_table
from kcm.actors.reconciliation.specs import ControllerSpec, checked_specs, switched_on
from kcm.protocols.arguments import check_text
from kcm.protocols.codec import pack
from kcm.protocols.messages.lifecycle import (
    Describe,
    Disable,
    Drain,
    Enable,
    EnqueueKey,
    Pause,
    PlainKey,
    Restart,
    Resume,
)
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.calls.threads import ThreadedCalls
from kcm.runtime.client.api import Transport
from kcm.runtime.cloud.provider import CloudProvider
from kcm.runtime.logs.standard_log import standard_log
from kcm.runtime.metrics.families import CARRIERS, HUNG_THREADS
from kcm.runtime.metrics.registry import Metrics, Reading
from kcm.runtime.process.from_async import in_thread
from kcm.runtime.scheduling.clock import Clock, SystemClock
from kcm.runtime.system.actor import Journal
from kcm.runtime.system.actor_system import ActorSystem, Spawner, ThreadSpawner
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer
    from structlog.typing import FilteringBoundLogger

    from kcm.actors.app.control import SystemControl
    from kcm.actors.app.webhooks import MakeHost
    from kcm.actors.engine.elector.groups import ControllerGroups
    from kcm.actors.engine.webhooks.settings import WebhookServing
    from kcm.actors.explanation.cause import Explanation
    from kcm.actors.explanation.manager_state import ManagerView
    from kcm.runtime.serving.debug_pages import PendingChange

HALT_WITHIN = 5.0  # seconds
FORKED = "this process was forked from the one that runs the controllers, and has none of their threads"


def built_in() -> tuple[ControllerSpec, ...]:
    """Return BUILT_IN, whose import takes as long as all others; programs with controllers of their own lack it."""
    from kcm.actors.controllers.built_in import BUILT_IN  # heavy: all controllers

    return BUILT_IN


class ControllerSystem:
    """Controller manager with all its actors.

    transport: belongs to the caller, who closes it after stop().
    transports: by the name of their cluster, in place of `transport`, for controllers that work on several clusters.
    log: bound logger of structlog; by default Python's logger "kcm".
    controllers: controllers that can run, BUILT_IN by default. The options (--controllers) select those that do.
    election: leader election, with several clusters by the name of each; None writes without a lease.
    make_table: used as given; see cache_mutation_detector.
    cloud: provider that controllers call, or None.
    calls: runs outside calls, and is closed by stop(); by default threads of the system.
    seed: makes all random choices of the actors repeatable.
    journal: records all messages between actors; belongs to the caller, who closes it after stop().
    authority: see ControllerContext.
    program: name of the program in labels of metrics (informer_*, running_managed_controllers).
    tracer: tracer of OpenTelemetry, for spans of reconciliations and their commands; None: no traces.
    webhooks: where and how the webhooks of the controllers are served; None: they are not.
    make_webhook_host: makes the server of the webhooks; by default an HTTPS server.
    cache_mutation_detector: objects of the tables raise FrozenError when they are changed in place; None: as the
        options specify (--cache-mutation-detector).

    A forked child process has no running system, because threads are not copied. There the health checks fail, wait()
    returns immediately, stop() does nothing, and methods that need an actor raise RuntimeError.
    """

    def __init__(
        self,
        *,
        transport: Transport | None = None,
        transports: Mapping[str, Transport] | None = None,
        log: FilteringBoundLogger | None = None,
        controllers: Iterable[ControllerSpec] | None = None,
        options: Options | None = None,
        election: Election | Mapping[str, Election] | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        spawner: Spawner | None = None,
        make_table: MakeTable = new_table,
        cloud: CloudProvider | None = None,
        calls: Calls | None = None,
        seed: int | None = None,
        journal: Journal | None = None,
        authority: bytes = b"",
        cache_mutation_detector: bool | None = None,
        program: str = CONTROLLER_MANAGER,
        tracer: Tracer | None = None,
        webhooks: WebhookServing | None = None,
        make_webhook_host: MakeHost | None = None,
    ) -> None:
        self.controllers = built_in() if controllers is None else checked_specs("controllers", controllers)
        check_text("program", program)
        check_arguments(options=options, metrics=metrics, log=log)
        ways = ways_to_clusters(transport, transports, election, self.controllers)
        self.options = options if options is not None else Options()
        self.clock = clock if clock is not None else SystemClock()
        self.metrics = metrics if metrics is not None else Metrics()
        self.vitals = Vitals()
        self.log = log if log is not None else standard_log("kcm")
        if cache_mutation_detector is None:
            cache_mutation_detector = self.options.generic.cache_mutation_detector
        if cache_mutation_detector and make_table is new_table:
            make_table = frozen_table
        spawner = ThreadSpawner(clock=self.clock) if spawner is None else spawner
        self.actors = ActorSystem(clock=self.clock, log=self.log, spawner=spawner, supervisor=MANAGER)
        self.actors.journal = journal
        if self.options.debugging.contention_profiling:
            from kcm.runtime.system.mailbox_waits import MailboxWaits  # few systems measure them

            self.actors.waits = MailboxWaits(self.clock.monotonic)
        self._owns_clock = clock is None
        self._brake = storm_brake(self.options, metrics=self.metrics, clock=self.clock)
        self._calls: Calls = calls if calls is not None else ThreadedCalls(clock=self.clock)
        # Views of other systems that work on the same cluster, such as the hollow nodes; for explanations.
        self.neighbours: list[Callable[[], ManagerView]] = []
        self._assembly = Assembly(
            transport=ways.transport,
            transports=ways.transports,
            clock=self.clock,
            log=self.log,
            options=self.options,
            metrics=self.metrics,
            vitals=self.vitals,
            election=ways.election,
            elections=ways.elections,
            make_table=make_table,
            cloud=cloud,
            calls=self._calls,
            seed=seed,
            authority=authority,
            warnings=ServerWarnings(self.log),
            program=program,
            brake=self._brake,
            tracing=tracing_of(tracer, self.actors, clock=self.clock) if tracer is not None else None,
            outages={cluster: Outage() for cluster in ways.transports or ("",)},
        )
        chosen = [
            spec
            for spec in switched_on(self.controllers, self.options)
            if ownership(self._assembly, spec) is not Ownership.UNOWNED
        ]
        self._chosen = {spec.name for spec in chosen}
        self._controller_names = {spec.name for spec in self.controllers}
        self.enabled = tuple(spec.name for spec in chosen if spec.enabled_if(self.options))
        self.skipped = tuple(spec.name for spec in chosen if spec.name not in self.enabled)
        running = [spec for spec in self.controllers if spec.name in self.enabled]
        if transports is not None:
            from kcm.actors.app.clusters import report_reachable

            report_reachable(self.metrics, self._assembly.outages)
        self._webhooks = webhooks_of(
            running, webhooks, make_webhook_host, clock=self.clock, log=self.log, metrics=self.metrics
        )
        if self._webhooks is not None:
            self.controllers = (*self.controllers, self._webhooks.spec)
            self.enabled = (*self.enabled, self._webhooks.spec.name)
            self._chosen.add(self._webhooks.spec.name)
        self._assembly = with_active_groups(self._assembly, self.controllers, self.enabled)
        self.actors.measures_work = self._assembly.groups is not None
        self._plan = plan_manager(self._assembly, self.controllers, enabled=self.enabled, webhooks=self._webhooks)
        self.metrics.add_source(self._hung_threads)
        if isinstance(spawner, ThreadSpawner):
            self.metrics.add_source(lambda: [(CARRIERS, (), float(spawner.carriers))])
        self._supervision = ManagerSupervision(
            actors=self.actors,
            policy=self._plan.policy,
            watchdog=Watchdog(
                vitals=self.vitals,
                transport=ways.transport,
                clock=self.clock,
                patience=2 * self.options.generic.actor_hang_timeout,
            ),
            clock=self.clock,
            log=self.log,
        )
        self._finished = self._supervision.finished
        self._spec = manager_spec(self._assembly, self._plan, ended=self._supervision.end_system, seed=seed)
        self._spent = False  # the system was started or stopped
        self._process = os.getpid()

    def start(self) -> Self:
        """Start the system. Raises RuntimeError if it was started or stopped before."""
        if self._spent:
            raise RuntimeError("a ControllerSystem is started once; make a new one")
        self._spent, self._process = True, os.getpid()
        for spec in self.controllers:
            if spec.name in self.skipped:
                log_skipped(self.log, spec)
            elif spec.name not in self._chosen:
                self.log.info("Warning: controller is disabled", v=1, controller=spec.name)
        self._supervision.start(self._spec)
        return self

    def stop(self, timeout: float = 15.0) -> bool:
        """Drain, release the lease and stop all actors. Return whether all were drained within `timeout` seconds.

        An exception meanwhile, for example by a second Ctrl-C, ends the draining: the actors are stopped at once.
        """
        if self._is_forked:
            return False
        idle = not self._spent
        try:
            if self.actors.is_alive(MANAGER):
                self.actors.tell(MANAGER, Drain())
                self._finished.wait(timeout)
        finally:
            self.halt()
        return idle or self.end == DRAINED

    def halt(self) -> None:
        """Stop all actors at once, in reverse order of their start, and let the lease expire.

        Takes at most HALT_WITHIN seconds: an actor that hangs is fenced, and its daemon thread abandoned.
        """
        if self._is_forked:
            return
        self._spent = True
        self._supervision.stop()
        deadline = self.clock.monotonic() + HALT_WITHIN
        self._stop_actor(MANAGER, deadline)  # first, because it starts other actors
        for name in reversed(self.actors.names()):
            self._stop_actor(name, deadline)
        self._calls.close()
        if self._webhooks is not None:
            self._webhooks.close()
        if self._owns_clock and isinstance(self.clock, SystemClock):
            self.clock.close()

    @property
    def end(self) -> str | None:
        """Return the reason for which the system ended, or None if it still runs."""
        return self._supervision.end

    def wait(self, timeout: float | None = None) -> str | None:
        """Wait until the manager ends, at most `timeout` seconds. Return the reason, or None if it still runs."""
        if self._is_forked:
            return FORKED
        self._finished.wait(timeout)
        return self.end

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(self, *_: object) -> None:
        """Stop the system in a thread. A cancellation, for example by a second Ctrl-C, ends the draining."""
        await in_thread(self.stop, hurry=self._finished.set)

    # Control of actors, by the messages that actors also send each other.
    # `controller` is a name or an alias. An unknown one raises ValueError.

    def enable(self, controller: str) -> None:
        self._steer(Enable(self._spec_named(controller).name))

    def disable(self, controller: str) -> None:
        self._steer(Disable(self._spec_named(controller).name))

    def restart(self, actor: str) -> None:
        """Restart an actor, named by a controller's name or an actor's ("dispatcher", "informer:v1/pods")."""
        self._steer(Restart(actor))

    def pause(self, controller: str) -> None:
        self._steer(Pause(self._spec_named(controller).name))

    def resume(self, controller: str) -> None:
        self._steer(Resume(self._spec_named(controller).name))

    def _steer(self, message: Enable | Disable | Restart | Pause | Resume) -> None:
        self._require_own_process()
        self.actors.tell(MANAGER, message)

    @property
    def _is_forked(self) -> bool:
        """Report whether this process was forked from the one that started the system."""
        return self._process != os.getpid()

    def _require_own_process(self) -> None:
        if self._is_forked:
            raise RuntimeError(FORKED)

    def enqueue(self, controller: str, key: PlainKey, queue: str = "") -> bool:
        """Enqueue a key of a controller. Called from any thread; it only sends a message.

        controller: name or alias.
        key: text, a number, or a tuple of them.
        queue: name of the queue; empty: the first queue.

        Returns False if the controller does not run in this process: it stands by for the lease, is disabled, or is
        being restarted. The key is dropped then, as a controller that starts reconciles all objects of its watches.
        Raises ValueError for an unknown controller or queue, TypeError for a key of another type.
        """
        spec = self._spec_named(controller)
        message = EnqueueKey(spec.queue_named(queue), key)
        try:
            pack(key)
        except TypeError as err:
            raise TypeError(f"a key from outside is text, a number or a tuple of them: {err}") from err
        name = controller_name(spec.name)
        runs = not self._is_forked and self.actors.is_alive(name)
        if runs:
            self.actors.tell(name, message)
        return runs

    def debug_page(
        self, controller: str, path: str, query: Mapping[str, list[str]], *, timeout: float = 30.0
    ) -> DebugPage:
        """Return the page that a controller has for a path below /debug/controllers/NAME.

        controller: name or alias.

        Raises LookupError if there is no such page or the controller does not run; TimeoutError; what the controller
        raises.
        """
        self._require_own_process()
        return shown_page(self.actors, self.controllers, controller, path, query, timeout=timeout)

    def decisions(self, controller: str) -> DecisionMemory:
        """Return what the latest reconciliations of a controller decided, and why. It is updated while it runs.

        controller: name or alias. Raises ValueError for an unknown one.
        """
        return self._assembly.decisions[self._spec_named(controller).name]

    def why(self, kind: str, namespace: str, name: str, cluster: str = "") -> Explanation:
        """Return why an object is as it is. Blocks its thread for some seconds at most; see docs/why.md.

        kind: as kubectl accepts it, "deploy" or "deployments.apps".
        namespace: "" for a cluster-scoped object.
        cluster: where the object is, in a program that works on several.

        Raises LookupError for an unknown kind, ValueError for a malformed name, and for an unknown or missing cluster.
        """
        from kcm.actors.app.explanations import explained  # loaded when something is explained

        view = self.view(cluster)
        return explained(self._assembly, view, kind=kind, namespace=namespace, name=name, cluster=cluster)

    def view(self, cluster: str = "") -> ManagerView:
        """Return the state of the manager, and of its neighbours, for one explanation.

        cluster: where the objects are, in a program that works on several. Raises ValueError for another one.
        """
        from kcm.actors.app.manager_view import SystemView  # loaded when something is explained
        from kcm.actors.explanation.manager_state import JoinedViews
        from kcm.actors.explanation.questions import check_choice

        check_choice(cluster, self._assembly.clusters)
        view = SystemView(self._assembly, self.controllers, self.enabled, cluster=cluster)
        return JoinedViews(view, [make() for make in self.neighbours])

    def key_states(self, controller: str, key: str) -> dict[str, KeyProgress]:
        """Return the state of a key in the queues of a controller in which it is queued, delayed or in work.

        It sends no message, so it also returns for a controller that hangs. Empty for a controller that does not run.
        """
        vitals = self.vitals.of(controller_name(self._spec_named(controller).name), ControllerVitals)
        sources = vitals.sources if vitals is not None else ()
        states = {source.name: source.state_of(key) for source in sources}
        return {name: state for name, state in states.items() if state is not None}

    def activities(self) -> dict[int, dict[str, str]]:
        """Return labels of the actors that are handling a message now, by the ident of their thread."""
        return {thread: labels_of_actor(name) for thread, name in self.actors.active().items()}

    def waits(self) -> list[tuple[dict[str, str], int, float]]:
        """Return for each actor: its labels, the number of its messages, and seconds that they waited.

        Empty without --contention-profiling.
        """
        measured = self.actors.waits.totals() if self.actors.waits is not None else []
        return [(labels_of_actor(name), count, seconds) for name, count, seconds in measured]

    def _spec_named(self, controller: str) -> ControllerSpec:
        return spec_named(self.controllers, controller)

    def describe(self, actor: str = MANAGER, *, timeout: float = 5.0) -> dict[str, Any]:
        """Return the current state of an actor. Raises pykka.ActorDeadError or pykka.Timeout if it does not respond."""
        self._require_own_process()
        description = self.actors.ask(actor, Describe(), timeout=timeout)
        facts: dict[str, Any] = orjson.loads(description.facts)
        return facts

    # State.

    @cached_property
    def _control(self) -> SystemControl:
        from kcm.actors.app.control import SystemControl  # only for pages
        from kcm.actors.app.controller_states import StateReader

        states = StateReader(
            actors=self.actors,
            vitals=self.vitals,
            tables=self.tables,
            clock=self.clock,
            specs=self.controllers,
            skipped=self.skipped,
            informers_of={name: plan.tables for name, plan in self._plan.controllers.items()},
            electors={name: plan.elector for name, plan in self._plan.controllers.items()},
            checks=self.checks(),
            elsewhere=self._assembly.elsewhere,
        )
        election = self._assembly.election
        return SystemControl(
            specs=self.controllers,
            states=states,
            actors=self.actors,
            vitals=self.vitals,
            brake=self._brake,
            clock=self.clock,
            lease_clients={election.component} if election is not None else (),
        )

    def shown(self, collection: str, name: str) -> Struct:
        """Return the content of a page; see RunningSystem."""
        self._require_own_process()
        return self._control.shown(collection, name)

    def change(self, collection: str, name: str, action: str, settings: Mapping[str, object]) -> PendingChange:
        """Request a change for a page; see RunningSystem."""
        self._require_own_process()
        return self._control.change(collection, name, action, settings)

    @property
    def transport(self) -> Transport:
        return self._assembly.transport

    @property
    def clusters(self) -> tuple[str, ...]:
        """Return the names of its clusters; () for a system with one, which has no name."""
        return self._assembly.clusters

    @property
    def groups(self) -> ControllerGroups | None:
        """Return the groups of its controllers that run under Leases of their own; None without groups."""
        return self._assembly.groups

    def groups_held(self) -> tuple[str, ...]:
        """Return the names of the groups whose Lease this process holds."""
        names = [group.name for group in self.groups.groups] if self.groups is not None else []
        vitals = {name: self.vitals.of(group_elector_name(name), ElectorVitals) for name in names}
        return tuple(name for name, elector in vitals.items() if elector is not None and elector.leading)

    @property
    def tables(self) -> Mapping[str, Table]:
        """Return the tables by Table.id, which is Resource.id for a table without a selection."""
        return self._assembly.tables

    def trouble_at_start(self) -> Iterator[str]:
        """Yield the problems that the start_checks of the enabled controllers find, one line each."""
        for spec in self.controllers:
            if spec.name in self.enabled:
                for check in spec.start_checks:
                    yield from check(self.options)

    @property
    def synced(self) -> bool:
        """Report whether all static tables of the enabled controllers contain a complete list.

        Of several clusters, those that do not respond are left out.
        """
        plan, outages = self._plan, self._assembly.outages
        tables = [self.tables[table] for name in plan.enabled for table in plan.controllers[name].tables]
        return all(table.synced or (self.clusters and outages[table.resource.cluster].is_on) for table in tables)

    def checks(self) -> dict[str, Check]:
        """Return the health checks by name.

        They are infrastructure, leaderElection, calls, sources, discovery, unreadable-objects (each if it applies) and
        one for each controller.
        """
        checks = system_checks(
            assembly=self._assembly,
            vitals=self.vitals,
            clock=self.clock,
            calls=self._calls,
            controllers=self.controllers,
        )
        if self._webhooks is not None:
            checks["webhooks"] = self._webhooks.check(self.vitals)
        checks[BRAKE_CHECK] = brake_check(self._brake, clock=self.clock)
        return {name: self._in_own_process(check) for name, check in checks.items()}

    def has_check(self, name: str) -> bool:
        """Report whether pages show the check of this name now.

        That of a controller is shown from its first start on, that of the storm brake while it is engaged.
        """
        if name == BRAKE_CHECK:
            return self._brake.state is not None
        return name not in self._controller_names or has_begun(name, self.vitals)

    def _in_own_process(self, check: Check) -> Check:
        """Wrap a check so that it fails in a forked process, whose copy of the state is never updated."""
        return lambda: FORKED if self._is_forked else check()

    def metrics_text(self) -> str:
        """Return all metrics, including those of controllers, in the text format of Prometheus."""
        from kcm.runtime.serving.metrics_page import MetricsPage  # slow to import, and most systems use serve() instead

        return MetricsPage(self.metrics, process=False).render("")[0].decode()

    def _hung_threads(self) -> Iterable[Reading]:
        hung = dict.fromkeys(map(controller_name, self.enabled), 0) | self.actors.hung_threads()
        return [(HUNG_THREADS, (name,), count) for name, count in hung.items()]

    def _stop_actor(self, name: str, deadline: float) -> None:
        left = max(0.0, deadline - self.clock.monotonic())
        if not self.actors.stop(name, timeout=min(1.0, left)):
            self.log.warning("actor did not stop in time", actor=name)
