"""Environment of a replayed controller: a clock, no server, and tables as they were.

The informers of the tables are replayed as well, from their recorded messages. While a journal is written, actors take
turns, so that the state of a table is determined by the last message that its informer has handled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import pykka

from kcm.actors.app.assembly import plan_manager
from kcm.actors.app.shared_parts import Assembly
from kcm.actors.engine.informer import Outage
from kcm.actors.options import Options
from kcm.actors.reconciliation.discovered import wanted_tables
from kcm.actors.reconciliation.specs import ControllerSpec, clusters_of, switched_on
from kcm.protocols.messages.discovery import ResourcesDiscovered
from kcm.protocols.messages.journal import MessageHandled, MessageSent
from kcm.runtime.client.api import Request
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.system.actor import Actor, ActorSpec, Context
from kcm.runtime.system.actor_system import ActorSystem
from kcm.runtime.system.vitals import Vitals

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class RecordedClock:
    """Clock with the recorded times. Alarms are ignored, because the journal contains the messages that they caused."""

    def __init__(self) -> None:
        self._monotonic = self._offset = 0.0

    def set(self, record: MessageSent | MessageHandled) -> None:
        self._monotonic = record.monotonic
        if isinstance(record, MessageSent):
            self._offset = record.wall - record.monotonic

    def monotonic(self) -> float:
        return self._monotonic

    def now(self) -> float:
        return self._monotonic + self._offset

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:  # noqa: ARG002
        """Ignore the alarm."""
        return

    def cancel(self, who: Hashable) -> None:  # noqa: ARG002
        """Do nothing."""
        return


class NoSpawner:
    """Spawner without threads: the replay calls the actors."""

    def start(self, actor: Actor) -> None:
        actor.on_start()

    def post(self, actor: Actor, frame: bytes, sender: str) -> None:  # noqa: ARG002
        raise pykka.ActorDeadError("messages come from the journal")

    def end(self, actor: Actor, timeout: float | None) -> bool:  # noqa: ARG002
        return True

    def repeat(self, every: float, what: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002
        return lambda: None

    def is_idle(self, actor: Actor) -> bool:  # noqa: ARG002
        return True

    def stack(self, actor: Actor) -> str:  # noqa: ARG002
        return ""


class NoTransport:
    """Transport without a server: the journal contains the responses."""

    def send(self, request: Request, **_: Any) -> None:  # noqa: ARG002
        return

    def watch(self, request: Request, **_: Any) -> NoTransport:  # noqa: ARG002
        return self

    def cancel(self) -> None:
        return


class ReplayStage:
    """System with the controllers of a run. Single actors of it are built for the replay."""

    def __init__(self, specs: list[ControllerSpec], *, options: Options, seed: int, log: FilteringBoundLogger) -> None:
        """Build the system.

        specs: all controllers of the run, in order, because the order determines their seeds.
        seed: seed of the run.
        log: log of the replayed controller.
        """
        self.clock = RecordedClock()
        self._log = log
        clusters = clusters_of(specs)
        assembly = Assembly(
            transport=NoTransport(),
            transports=dict.fromkeys(clusters, NoTransport()),
            clock=self.clock,
            log=log,
            options=options,
            metrics=Metrics(),
            vitals=Vitals(),
            election=None,
            seed=seed,
            outages={cluster: Outage() for cluster in clusters or ("",)},
        )
        # Which controllers share a table depends on which were enabled at the start.
        enabled = [spec.name for spec in switched_on(specs, options) if spec.enabled_if(options)]
        self.plan = plan_manager(assembly, specs, enabled=enabled)
        self.tables = assembly.tables
        self._specs = {spec.name: spec for spec in self.plan.informers.values()}
        self._informers: dict[str, tuple[int, Actor]] = {}  # by name: incarnation, and the actor

    def build(self, spec: ActorSpec, incarnation: int, tap: Callable[[str, str, bytes], None]) -> Actor:
        """Build an actor in a separate system. Its messages are passed only to the tap."""
        return self._build(spec, incarnation, tap, self._log)

    def _build(
        self, spec: ActorSpec, incarnation: int, tap: Callable[[str, str, bytes], None], log: FilteringBoundLogger
    ) -> Actor:
        system = ActorSystem(clock=self.clock, log=log, spawner=NoSpawner())
        system.taps.append(tap)
        context = Context(name=spec.name, incarnation=incarnation, system=system, clock=self.clock, log=log)
        return spec.build(context)

    def discovers(self, message: Any) -> None:
        """Create and drop tables of discovered resources that controllers select, as the manager does."""
        if not isinstance(message, ResourcesDiscovered):
            return
        discovery = self.plan.discovery
        controllers = self.plan.controllers.values()
        selecting = [spec.discovers for spec in controllers if spec.discovers is not None]
        wanted = wanted_tables(message.resources, selecting)
        for resource_id, informer in list(discovery.informers.items()):
            if wanted.get(resource_id) != (informer.served, informer.metadata_only):
                discovery.drop(resource_id)
                self._specs.pop(informer.spec.name, None)
        for resource_id, (served, metadata_only) in wanted.items():
            if resource_id not in self.plan.informers and resource_id not in discovery.informers:
                informer = discovery.add(served, metadata_only=metadata_only)
                self._specs[informer.spec.name] = informer.spec

    def informer_handles(self, message: MessageSent) -> None:
        """Pass a message to its informer, which updates its table."""
        spec = self._specs.get(message.receiver)
        if spec is None:
            return
        incarnation, informer = self._informers.get(message.receiver, (0, None))
        if informer is None or incarnation != message.incarnation:
            # Without log: only the log of the controller is of interest.
            informer = self._build(spec, message.incarnation, lambda *_: None, quiet_log())
            self._informers[message.receiver] = (message.incarnation, informer)
            informer.on_start()
        informer.on_receive(message.frame)
