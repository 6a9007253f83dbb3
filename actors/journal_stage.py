"""What stands around a controller that is replayed: a clock, no server, and tables as they were.

A table's informer is played along, because the journal has what it was told. What the controller sees follows its own
watch events, one at a time as they came into its mailbox, and not the informer's table: that is further, by up to a
whole batch of lines, than the recorded one was when the controller handled the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import pykka

from actors.assembly import Assembly, plan_manager
from actors.controller import informer_name
from actors.manager_plan import ManagerPlan
from actors.options import Options
from actors.specs import ControllerSpec
from protocols.messages.journal import Handled, Told
from protocols.messages.watching import EventType, Synced, WatchEvent
from protocols.objects import decode_object
from runtime.actor import Actor, Context
from runtime.api import Request
from runtime.metrics import Metrics
from runtime.system import ActorSpec, ActorSystem
from runtime.table import Table, TableWriter
from runtime.vitals import Vitals

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class RecordedClock:
    """Implements Clock: it is as late as the journal says. Alarms are not kept: the journal has what they led to."""

    def __init__(self) -> None:
        self._monotonic = self._offset = 0.0

    def set(self, record: Told | Handled) -> None:
        self._monotonic = record.monotonic
        if isinstance(record, Told):
            self._offset = record.wall - record.monotonic

    def monotonic(self) -> float:
        return self._monotonic

    def now(self) -> float:
        return self._monotonic + self._offset

    def call_at(self, who: Hashable, when: float, what: Callable[[], None]) -> None:  # noqa: ARG002
        """Nothing sounds by itself."""
        return

    def cancel(self, who: Hashable) -> None:  # noqa: ARG002
        """Nothing to cancel."""
        return


class NoSpawner:
    """One actor lives, and it is called by hand."""

    def start(self, actor: Actor) -> None:
        actor.on_start()

    def post(self, actor: Actor, frame: bytes, sender: str) -> None:  # noqa: ARG002
        raise pykka.ActorDeadError("what it is told comes from the journal")

    def end(self, actor: Actor, timeout: float | None) -> bool:  # noqa: ARG002
        return True


class NoTransport:
    """Implements Transport: what the server answered is in the journal."""

    def send(self, request: Request, **_: Any) -> None:  # noqa: ARG002
        return

    def watch(self, request: Request, **_: Any) -> NoTransport:  # noqa: ARG002
        return self

    def cancel(self) -> None:
        return


class Stage:
    """One system as it was built, of which single actors are played.

    specs: of all its controllers, in their order. seed: that of its random choices.
    """

    def __init__(self, specs: list[ControllerSpec], *, options: Options, seed: int, log: FilteringBoundLogger) -> None:
        self.clock = RecordedClock()
        self._log, self._options, self._specs, self._seed = log, options, specs, seed
        self.plan = self._plan_anew()
        self._tables = _tables_of(self.plan)  # as the controller sees them
        self._writers: dict[str, TableWriter] = {resource: table.claim() for resource, table in self._tables.items()}
        self._shadows = self._plan_anew()
        self._shadow_tables = _tables_of(self._shadows)  # as the informers have them
        self._informers: dict[str, tuple[int, Actor]] = {}
        self._resources = {informer_name(resource): resource for resource in self._tables}

    def _plan_anew(self) -> ManagerPlan:
        assembly = Assembly(
            transport=NoTransport(),
            clock=self.clock,
            log=self._log,
            options=self._options,
            metrics=Metrics(),
            vitals=Vitals(),
            election=None,
            seed=self._seed,
        )
        return plan_manager(assembly, self._specs, enabled=())

    def build(self, spec: ActorSpec, incarnation: int, tap: Callable[[str, str, bytes], None] | None = None) -> Actor:
        """An actor in a system of its own, whose words go to the tap and to nobody."""
        system = ActorSystem(clock=self.clock, log=self._log, spawner=NoSpawner())
        if tap is not None:
            system.taps.append(tap)
        context = Context(name=spec.name, incarnation=incarnation, system=system, clock=self.clock, log=self._log)
        return spec.actor(context, **spec.arguments)

    def controller_told(self, message: Any) -> None:
        """The tables of the controller show what it is told."""
        writer = self._writers.get(getattr(message, "resource", ""))
        if writer is None:
            return
        table = writer.table
        match message:
            case Synced(resource=resource):
                shadow = self._shadow_tables[resource]
                entries = [table.make_entry(decode_object(entry.raw), entry.raw) for entry in shadow.entries()]
                writer.replace(entries, max(shadow.version, table.version))
            case WatchEvent(type=EventType.DELETED, key=key):
                writer.remove(key)
            case WatchEvent(object=raw):
                writer.put(table.make_entry(decode_object(raw), raw))
        if isinstance(message, WatchEvent) and message.resource_version.isdecimal():
            writer.advance(int(message.resource_version))
        writer.hear(self.clock.monotonic())

    def informer_handles(self, told: Told) -> None:
        """An informer begins with this: it has finished what came before, and its table showed all of that."""
        resource = self._resources.get(told.receiver)
        if resource is None:
            return
        shadow, writer = self._shadow_tables[resource], self._writers[resource]
        if writer.table.synced:
            writer.advance(shadow.version)
        if shadow.heard is not None:
            writer.hear(shadow.heard)
        incarnation, informer = self._informers.get(told.receiver, (0, None))
        if informer is None or incarnation != told.incarnation:
            informer = self.build(self._shadows.informers[resource], told.incarnation)
            self._informers[told.receiver] = (told.incarnation, informer)
            informer.on_start()
        informer.on_receive(told.frame)


def _tables_of(plan: ManagerPlan) -> dict[str, Table]:
    return {resource: spec.arguments["table"] for resource, spec in plan.informers.items()}
