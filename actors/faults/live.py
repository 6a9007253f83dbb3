"""Fault plan in a running system: faulty transport, clock and spawner, and faults that begin and end at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcm.actors.faults.writes import SHORTEST_FLAP, TIMEOUT, concerns, silence, theft
from kcm.actors.hollow.behaviour import SILENT
from kcm.protocols.objects import annotations_of, decode_object, name_of
from kcm.protocols.resources import NODES, resource_path
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.client.api import Request, Response, Transport
from kcm.runtime.faults.actors import FaultyBeginning, FaultyClock, FaultyGate, FaultySpawner
from kcm.runtime.faults.calls import FaultyCalls
from kcm.runtime.faults.plan_file import FaultPlan
from kcm.runtime.faults.transport import FaultyTransport
from kcm.runtime.faults.triggers import Strikes
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.scheduling.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

CLIENT = "fault-plan"
LOOK_AGAIN = 2.0  # seconds between checks for new nodes, which must become silent as well


class LiveFaults:
    """Transport, clock, spawner, gate and beginning for a ControllerSystem that inject a plan's faults."""

    def __init__(
        self,
        plan: FaultPlan,
        *,
        transport: Transport,
        clock: Clock,
        lease: tuple[str, str],
        log: FilteringBoundLogger,
    ) -> None:
        """Create the replacements. lease: namespace and name of the Lease that a lease-stolen fault takes."""
        self.strikes = Strikes(plan, clock=clock)
        self.transport = FaultyTransport(transport, self.strikes, clock=clock)
        self.clock = FaultyClock(clock, self.strikes)
        self.spawner = FaultySpawner(self.strikes, clock=clock)
        self.gate = FaultyGate(self.strikes)
        self.beginning = FaultyBeginning(self.strikes)
        self._plain, self._real_clock, self._lease, self._log = transport, clock, lease, log
        self._silenced: set[str] = set()
        self._stopped = False

    def way_out(self, calls: Calls) -> Calls:
        """Return `calls` with injected faults, for a ControllerSystem."""
        return FaultyCalls(calls, self.strikes.strike, clock=self._real_clock)

    def begin(self) -> None:
        """Set alarms for the faults that begin or end at a time."""
        self._log.warning("faults are injected into this run", faults=[str(fault) for fault in self.strikes.faults])
        for fault in self.strikes.faults:
            self._at(fault.start, fault, "begins", self._beginning(fault))
            if fault.until is not None:
                self._at(fault.until, fault, "ends", self._ending(fault))

    def stop(self) -> None:
        """End all faults, and let silent nodes send heartbeats again."""
        self._stopped = True
        for name in sorted(self._silenced):
            self._set_silent(name, silent=False)
        self._log.info("faults are over", struck={str(kind): count for kind, count in self.strikes.struck.items()})

    def _at(self, when: float, fault: Fault, what: str, act: Callable[[], None] | None) -> None:
        def happen() -> None:
            if self._stopped:
                return
            self._log.warning("planned fault", fault=str(fault), what=what)
            if act is not None:
                act()
                if what == "begins":
                    self.strikes.happened(fault)

        self._real_clock.call_at((self, fault, what), self.strikes.moment(when), happen)

    def _beginning(self, fault: Fault) -> Callable[[], None] | None:
        match fault.kind:
            case FaultKind.NODE_SILENT | FaultKind.ZONE_SILENT:
                return lambda: self._keep_silent(fault)
            case FaultKind.NODE_FLAPPING:
                return lambda: self._flap(fault, silent=True)
            case FaultKind.LEASE_STOLEN:
                return lambda: self._steal(fault)
        return None

    def _ending(self, fault: Fault) -> Callable[[], None] | None:
        if fault.kind in (FaultKind.NODE_SILENT, FaultKind.ZONE_SILENT, FaultKind.NODE_FLAPPING):
            return lambda: self._silence(fault, silent=False)
        return None

    # Nodes.

    def _keep_silent(self, fault: Fault) -> None:
        if not self._stopped and fault.is_on(self.strikes.monotonic()):
            self._silence(fault, silent=True)
            when = self._real_clock.monotonic() + LOOK_AGAIN
            self._real_clock.call_at((self, fault, "goes on"), when, lambda: self._keep_silent(fault))

    def _silence(self, fault: Fault, *, silent: bool) -> None:
        wanted = "true" if silent else None

        def on_nodes(response: Response) -> None:
            if response.status != 200:
                self._failed("nodes are not listed", response)
                return
            for node in decode_object(response.body)["items"]:
                if concerns(fault, node) and annotations_of(node).get(SILENT) != wanted and not self._stopped:
                    self._set_silent(name_of(node), silent=silent)

        self._send(Request(method="GET", path=resource_path(NODES.id), timeout=TIMEOUT), on_nodes)

    def _flap(self, fault: Fault, *, silent: bool) -> None:
        if self._stopped or not fault.is_on(self.strikes.monotonic()):
            return
        self._silence(fault, silent=silent)
        when = self._real_clock.monotonic() + max(fault.seconds, SHORTEST_FLAP)
        self._real_clock.call_at((self, fault, "flaps"), when, lambda: self._flap(fault, silent=not silent))

    def _set_silent(self, node: str, *, silent: bool) -> None:
        if silent:
            self._silenced.add(node)
        else:
            self._silenced.discard(node)
        self._send(silence(node, silent=silent), self._written)

    # The lease.

    def _steal(self, fault: Fault) -> None:
        self._send(theft(fault, self._lease, now=self._real_clock.now()), self._written)

    def _send(self, request: Request, on_response: Callable[[Response], None]) -> None:
        self._plain.send(request, client=CLIENT, on_response=on_response)

    def _written(self, response: Response) -> None:
        if not 200 <= response.status < 300 and response.status != 404:
            self._failed("fault is not written", response)

    def _failed(self, what: str, response: Response) -> None:
        self._log.error(what, status=response.status, error=response.error or response.body.decode(errors="replace"))
