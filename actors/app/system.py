"""The controller manager as an object: what bin/run-kcm runs, and what another program embeds.

    with ControllerSystem(transport=transport, controllers=(*BUILT_IN, GREETER)) as system:
        system.wait()

`async with` does the same where an asyncio event loop runs, which goes on while the system is stopped.

It installs no signal handlers, keeps no global state and configures no logging; several live in one process, beside
whatever pykka actors the process has of its own. See docs/embedding.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import orjson
import pykka

from kcm.actors.app.assembly import Assembly, manager_spec, plan_manager
from kcm.actors.app.health import (
    Check,
    calls_check,
    controller_check,
    discovery_check,
    infrastructure_check,
    leader_check,
    sources_check,
    unreadable_check,
)
from kcm.actors.app.watchdog import Watchdog
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.engine.elector import Election
from kcm.actors.engine.manager import DRAINED
from kcm.actors.engine.server_warnings import ServerWarnings
from kcm.actors.options import Options
from kcm.actors.reconciliation import DebugPage
from kcm.actors.reconciliation.actor_names import DISPATCHER, ELECTOR, MANAGER, controller_name
from kcm.actors.reconciliation.derived import MakeTable, frozen_table, new_table
from kcm.actors.reconciliation.specs import ControllerSpec, checked_specs, switched_on
from kcm.protocols.arguments import check_type
from kcm.protocols.codec import pack
from kcm.protocols.messages.debug_pages import ShowPage
from kcm.protocols.messages.lifecycle import (
    ActorFailed,
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
from kcm.runtime.process.termination import Ending
from kcm.runtime.scheduling.clock import Clock, SystemClock
from kcm.runtime.system.actor import Journal
from kcm.runtime.system.actor_system import ActorSystem, Spawner, ThreadSpawner
from kcm.runtime.system.supervision import restart_delay
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

HALT_WITHIN = 5.0  # seconds
FORKED = "this process was forked from the one that runs the controllers, and has none of their threads"


class ControllerSystem:
    """One controller manager with all its actors.

    controllers: those that it may run, BUILT_IN where left out; which of them it does, options.generic.controllers says
    (--controllers).
    election: None runs without a lease. The transport is the caller's, to be closed after stop(). log: Python's own
    logging, under the name "kcm", where it is left out. seed: makes every random choice of the actors repeatable.
    journal: keeps what they tell each other; the caller's, to be closed after stop(). cloud: the provider that
    controllers call; None without one. calls: the way outside, closed by stop(); where left out, threads of its own.
    authority: as ControllerContext has it. cache_mutation_detector: objects of the caches raise FrozenError when a
    controller changes them in place; None: as the options have it (--cache-mutation-detector). make_table is used as it
    is given.

    A process that was forked from the one that started it has no part in it: the threads are not copied. There its
    health checks fail, wait() returns at once, stop() does nothing, and whatever needs an actor raises RuntimeError.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        log: FilteringBoundLogger | None = None,
        controllers: Iterable[ControllerSpec] | None = None,
        options: Options | None = None,
        election: Election | None = None,
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
    ) -> None:
        self.controllers = BUILT_IN if controllers is None else checked_specs("controllers", controllers)
        if not (callable(getattr(transport, "send", None)) and callable(getattr(transport, "watch", None))):
            raise TypeError(f"transport takes a Transport, as api_transport() returns it, not {transport!r:.80}")
        if options is not None:
            check_type("options", options, Options, "Options, as read_options() returns them")
        if election is not None:
            check_type("election", election, Election, "an Election(identity=…, namespace=…, name=…)")
        if metrics is not None:
            check_type("metrics", metrics, Metrics, "a Metrics()")
        if log is not None and not (hasattr(log, "bind") and hasattr(log, "info")):
            raise TypeError(f"log takes a bound logger of structlog's, not {log!r:.80}")
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
        self.actors.orphaned = self._manager_failed
        self.actors.journal = journal
        self._owns_clock = clock is None
        self._calls: Calls = calls if calls is not None else ThreadedCalls(clock=self.clock)
        self._assembly = Assembly(
            transport=transport,
            clock=self.clock,
            log=self.log,
            options=self.options,
            metrics=self.metrics,
            vitals=self.vitals,
            election=election,
            make_table=make_table,
            cloud=cloud,
            calls=self._calls,
            seed=seed,
            authority=authority,
            warnings=ServerWarnings(self.log),
        )
        chosen = switched_on(self.controllers, self.options)
        self.enabled = tuple(spec.name for spec in chosen if spec.enabled_if(self.options))
        self.skipped = tuple(spec.name for spec in chosen if spec.name not in self.enabled)
        self._plan = plan_manager(self._assembly, self.controllers, enabled=self.enabled)
        self._spec = manager_spec(self._assembly, self._plan, ended=self._end, seed=seed)
        self.metrics.add_source(self._hung_threads)
        if isinstance(spawner, ThreadSpawner):
            self.metrics.add_source(lambda: [(CARRIERS, (), float(spawner.carriers))])
        self._manager_failures: list[float] = []
        self._manager_is_down = False  # it is known to be, and will be started again
        self._manager_was_dead = False  # at the last look
        self._watchdog = Watchdog(
            vitals=self.vitals,
            transport=transport,
            clock=self.clock,
            patience=2 * self.options.generic.actor_hang_timeout,
        )
        self._end_watch: Callable[[], None] = lambda: None
        self._finished = Ending()
        self._spent = False  # it was started, or stopped before it was
        self._process = os.getpid()
        self.end: str | None = None

    def start(self) -> Self:
        """Raises RuntimeError on one that was started or stopped before."""
        if self._spent:
            raise RuntimeError("a ControllerSystem is started once; make a new one")
        self._spent, self._process = True, os.getpid()
        for spec in self.controllers:
            if spec.name in self.skipped:
                facts = {"needs": spec.needs} if spec.needs else {}
                self.log.info("Warning: skipping controller", controller=spec.name, **facts)
        self._start_manager()
        self._end_watch = self.actors.repeat(self._watchdog.every, self._look)
        return self

    def stop(self, timeout: float = 15.0) -> bool:
        """Drain, release the lease, stop every actor. Returns whether all was drained within `timeout` seconds.

        An exception that comes meanwhile, as from a second Ctrl-C, ends the draining: the actors are stopped at once.
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
        """Stop every actor at once, the last started first; the lease is left to run out.

        Takes HALT_WITHIN seconds at most: an actor that hangs is shut out and left to its thread, a daemon.
        """
        if self._is_forked:
            return
        self._spent = True
        self._end_watch()
        deadline = self.clock.monotonic() + HALT_WITHIN
        self.clock.cancel(self)  # a manager that failed is not started again
        self._stop_actor(MANAGER, deadline)  # before anybody asks who there is: it starts others
        for name in reversed(self.actors.names()):
            self._stop_actor(name, deadline)
        self._calls.close()
        if self._owns_clock and isinstance(self.clock, SystemClock):
            self.clock.close()

    def wait(self, timeout: float | None = None) -> str | None:
        """Until the manager works no more, at most so many seconds; why, or None while it does."""
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
        """Stop it in a thread. A cancellation, as by a second Ctrl-C, ends the draining."""
        await in_thread(self.stop, hurry=self._finished.set)

    # Steering: the same messages that the actors use among themselves.

    # A controller is named by its name or an alias; ValueError without such a controller.

    def enable(self, controller: str) -> None:
        self._steer(Enable(self._spec_named(controller).name))

    def disable(self, controller: str) -> None:
        self._steer(Disable(self._spec_named(controller).name))

    def restart(self, actor: str) -> None:
        """actor: a controller's name, or any actor's ("dispatcher", "informer:v1/pods")."""
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
        """Whether this process is a fork of the one that started the system, which has none of its threads."""
        return self._process != os.getpid()

    def _require_own_process(self) -> None:
        if self._is_forked:
            raise RuntimeError(FORKED)

    def enqueue(self, controller: str, key: PlainKey, queue: str = "") -> bool:
        """Have a controller reconcile this key, as if a watch had named it. From any thread; it only sends a message.

        controller: its name, or an alias. key: text, a number, or a tuple of them. queue: its name; empty: the first.
        Returns False where the controller does not run here: it stands by for the lease, is switched off, or is being
        restarted. The key is dropped then: a controller that starts looks at all objects of its watches.
        Raises ValueError without such a controller or queue, TypeError on a key that no message can carry.
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
        """What a controller shows at this path, of those under /debug/controllers/<its name>; also by its older names.

        Raises LookupError without such a page, or where that controller does not run; TimeoutError; whatever the
        controller raises.
        """
        self._require_own_process()
        spec = next((one for one in self.controllers if controller in (one.name, *one.aliases)), None)
        if spec is None:
            raise LookupError(f"no controller is called {controller!r}")
        try:
            shown = self.actors.ask(controller_name(spec.name), ShowPage(path, dict(query)), timeout=timeout)
        except pykka.ActorDeadError as err:
            raise LookupError(f"{spec.name} does not run") from err
        except pykka.Timeout as err:
            raise TimeoutError(f"{spec.name} did not answer within {timeout:.0f} s") from err
        if not shown.found:
            raise LookupError(f"{spec.name} has no page {path!r}")
        return DebugPage(shown.body.decode(), shown.content_type)

    def _spec_named(self, controller: str) -> ControllerSpec:
        spec = next((one for one in self.controllers if controller in (one.name, *one.aliases)), None)
        if spec is None:
            known = ", ".join(one.name for one in self.controllers)
            raise ValueError(f"no controller is called {controller!r}; there are {known}")
        return spec

    def describe(self, actor: str = MANAGER, *, timeout: float = 5.0) -> dict[str, Any]:
        """What an actor says of itself. Raises pykka.ActorDeadError or pykka.Timeout if it does not."""
        self._require_own_process()
        description = self.actors.ask(actor, Describe(), timeout=timeout)
        facts: dict[str, Any] = orjson.loads(description.facts)
        return facts

    # Looking at it.

    @property
    def tables(self) -> Mapping[str, Table]:
        """By Table.id, which is Resource.id where nothing is restricted."""
        return self._assembly.tables

    def trouble_at_start(self) -> Iterator[str]:
        """What the enabled controllers' start_checks find, a line each."""
        for spec in self.controllers:
            if spec.name in self.enabled:
                for check in spec.start_checks:
                    yield from check(self.options)

    @property
    def synced(self) -> bool:
        """Whether all tables with which the enabled controllers begin hold a whole list."""
        plan, tables = self._plan, self.tables
        return all(tables[table].synced for name in plan.enabled for table in plan.controllers[name].tables)

    def checks(self) -> dict[str, Check]:
        """Health checks by name: leaderElection, infrastructure, calls, sources and discovery where a controller
        has them, and one for each controller that may run.
        """
        silence = self.options.generic.watch_silence_limit
        checks: dict[str, Check] = {
            "infrastructure": infrastructure_check(
                vitals=self.vitals, clock=self.clock, hung_after=self.options.generic.actor_hang_timeout
            )
        }
        if self._assembly.election is not None:
            checks["leaderElection"] = leader_check(
                vitals=self.vitals, election=self._assembly.election, clock=self.clock
            )
        checks["calls"] = calls_check(self._calls, clock=self.clock)
        if self._assembly.listeners:
            checks["sources"] = sources_check(self._assembly.listeners)
        discovering = [
            spec.name for spec in self.controllers if spec.discovers is not None and not spec.discovers.only_shared
        ]
        if discovering:
            checks["discovery"] = discovery_check(
                vitals=self.vitals,
                controllers=discovering,
                tables=self.tables,
                clock=self.clock,
                silence_limit=silence,
            )
        checks["unreadable-objects"] = unreadable_check(
            tables=self.tables, vitals=self.vitals, controllers=[spec.name for spec in self.controllers]
        )
        for spec in self.controllers:
            seen = self._assembly.seen[spec.name]
            checks[spec.name] = controller_check(
                spec.name, vitals=self.vitals, tables=seen, clock=self.clock, silence_limit=silence
            )
        return {name: self._in_own_process(check) for name, check in checks.items()}

    def _in_own_process(self, check: Check) -> Check:
        """The check, which fails in a forked process: what it looks at is a copy that nothing moves any more."""
        return lambda: FORKED if self._is_forked else check()

    def metrics_text(self) -> str:
        """All metrics, those that controllers have of their own among them, in Prometheus' text format."""
        from kcm.runtime.serving.metrics_page import MetricsPage  # heavy, and most systems are served by a page

        return MetricsPage(self.metrics, process=False).render("")[0].decode()

    def _hung_threads(self) -> Iterable[Reading]:
        hung = dict.fromkeys(map(controller_name, self.enabled), 0) | self.actors.hung_threads()
        return [(HUNG_THREADS, (name,), count) for name, count in hung.items()]

    # What the manager tells.

    def _end(self, why: str) -> None:
        if self.end is None:
            self.end = why
        self._finished.set()

    def _manager_failed(self, failure: ActorFailed) -> None:
        """The supervisor itself failed: its children live on, and the next one finds them."""
        now = self.clock.monotonic()
        self._manager_is_down = True
        self._manager_failures.append(now)
        self.log.error("controller manager failed", error=failure.error, traceback=failure.traceback)
        delay = restart_delay(self._manager_failures, now=now, policy=self._plan.policy, chance=0.0)
        if delay is None:
            self._give_up(f"the controller manager failed too often: {failure.error}")
        else:
            self.clock.call_at(self, now + delay, self._start_manager)

    # What the watchdog finds.

    def _look(self) -> None:
        if self.end is not None:
            return
        try:
            trouble = self._watchdog.look()
            if trouble is not None:
                self._give_up(trouble)
            self._look_after_manager()
        except Exception:
            self.log.exception("watchdog failed")

    def _look_after_manager(self) -> None:
        """One that is dead at two looks did not report it."""
        dead = not self.actors.is_alive(MANAGER) and not self._manager_is_down and self.end is None
        if dead and self._manager_was_dead:
            incarnation = self.actors.incarnation(MANAGER)
            self._manager_failed(ActorFailed(MANAGER, incarnation, "it died without a word"))
        self._manager_was_dead = dead

    def _give_up(self, why: str) -> None:
        """Write nothing more, keep the lease no longer, and say that this is the end.

        The lease is not given back but runs out: nobody can tell any more which writes are still on their way, and none
        of them outlives it.
        """
        if self.end is not None:
            return
        self.actors.seal()
        self.clock.cancel(self)
        stack = self.actors.stack(MANAGER)
        for name in (MANAGER, ELECTOR, DISPATCHER):
            self.actors.fence(name)
        self.log.error("controller manager gives up", error=why, stack=stack)
        self._end(why)

    def _stop_actor(self, name: str, deadline: float) -> None:
        left = max(0.0, deadline - self.clock.monotonic())
        if not self.actors.stop(name, timeout=min(1.0, left)):
            self.log.warning("actor did not stop in time", actor=name)

    def _start_manager(self) -> None:
        self._manager_is_down = False
        self.actors.spawn(self._spec)
