"""Schedule of planned faults in a simulated cluster: the actions at the start and at the end of each fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcm.actors.faults.writes import SHORTEST_FLAP, concerns, silence, theft
from kcm.actors.simulation.processes import Processes
from kcm.actors.simulation.servers import SimulatedServer
from kcm.protocols.objects import decode_object, name_of
from kcm.protocols.resources import NODES, resource_path
from kcm.runtime.client.api import Request
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import STRIKES_THE_IDLE, Fault, FaultKind

IDLE = 5.0  # seconds between two opportunities for faults to strike actors that have no message to handle
LEASE = ("kube-system", "kube-controller-manager")


class FaultSchedule:
    """Timers on the virtual clock that start and end each fault of a plan.

    servers: API servers by cluster; only "" with one cluster.
    """

    def __init__(self, injector: Injector, *, processes: Processes, servers: Mapping[str, SimulatedServer]) -> None:
        self._injector, self._processes, self._servers = injector, processes, servers
        self._world, self._clock = processes.world, processes.world.clock

    def start_timers(self) -> None:
        for fault in self._injector.faults:
            begin, end = self._actions_of(fault)
            if begin is not None:
                self._schedule(fault.start, fault, "begins", begin)
            if end is not None and fault.until is not None:
                self._schedule(fault.until, fault, "ends", end)
        if any(map(self._injector.plans, STRIKES_THE_IDLE)):
            self._strike_the_idle()

    def _schedule(self, when: float, fault: Fault, what: str, act: Callable[[], None]) -> None:
        def happen() -> None:
            self._processes.note("", f"{fault} {what}")
            if what == "begins":
                self._injector.happened(fault)
            act()

        self._clock.call_after(when - self._clock.monotonic(), happen)

    def _actions_of(self, fault: Fault) -> tuple[Callable[[], None] | None, Callable[[], None] | None]:
        processes = self._processes
        match fault.kind:
            case FaultKind.SERVER_RESTARTED:
                return (lambda: self._stop_servers(fault), lambda: self._start_servers(fault, restarted=True))
            case FaultKind.SERVER_AWAY:
                return (lambda: self._stop_servers(fault), lambda: self._start_servers(fault, restarted=False))
            case FaultKind.CLOCK_JUMPED:
                return (lambda: self._skew(fault, fault.seconds), lambda: self._skew(fault, 0.0))
            case FaultKind.PROCESS_CRASHED:
                return (
                    lambda: self._for_each_process(fault, processes.crash),
                    lambda: self._for_each_process(fault, processes.start_again),
                )
            case FaultKind.PROCESS_PAUSED:
                return (lambda: self._pause(fault), None)
            case FaultKind.HTTP_HELD:
                return (lambda: self._hold_http(fault), None)
            case FaultKind.LEASE_STOLEN:
                return (lambda: self._steal_lease(fault), None)
            case FaultKind.NODE_SILENT | FaultKind.ZONE_SILENT:
                return (lambda: self._silence(fault, silent=True), lambda: self._silence(fault, silent=False))
            case FaultKind.NODE_FLAPPING:
                return (lambda: self._flap(fault, silent=True), lambda: self._silence(fault, silent=False))
        return (None, None)

    def _strike_the_idle(self) -> None:
        self._world.strike_idle()
        self._clock.call_after(IDLE, self._strike_the_idle)

    # Server and processes.

    def _concerned(self, fault: Fault) -> list[SimulatedServer]:
        return [server for name, server in self._servers.items() if fault.concerns_cluster(name)]

    def _stop_servers(self, fault: Fault) -> None:
        for server in self._concerned(fault):
            server.network.server_is_down = True
            server.network.break_streams()

    def _start_servers(self, fault: Fault, *, restarted: bool) -> None:
        for server in self._concerned(fault):
            server.network.server_is_down = False
            if restarted:
                server.restart()

    def _for_each_process(self, fault: Fault, act: Callable[[str], None]) -> None:
        for name in list(self._processes.running):
            if fault.concerns(process=name):
                act(name)

    def _skew(self, fault: Fault, seconds: float) -> None:
        for name, running in self._processes.running.items():
            if fault.concerns(process=name):
                running.process.clock.skew = seconds

    def _pause(self, fault: Fault) -> None:
        for name, running in self._processes.running.items():
            if fault.concerns(process=name) and fault.until is not None:
                self._world.pause(running.process, fault.until - fault.start)

    def _hold_http(self, fault: Fault) -> None:
        for name, running in self._processes.running.items():
            if fault.concerns(process=name) and fault.until is not None:
                running.process.http.hold(fault.until)

    # Changes of objects. They are written to the server directly, so that no network fault affects these writes.

    def _steal_lease(self, fault: Fault) -> None:
        for server in self._concerned(fault):
            server.request(theft(fault, LEASE, now=self._clock.now()))

    def _silence(self, fault: Fault, *, silent: bool) -> None:
        for server in self._concerned(fault):
            listed = server.request(Request(method="GET", path=resource_path(NODES.id)))
            for node in decode_object(listed.body)["items"]:
                if concerns(fault, node):
                    server.request(silence(name_of(node), silent=silent))

    def _flap(self, fault: Fault, *, silent: bool) -> None:
        if not fault.is_on(self._clock.monotonic()):
            return
        self._silence(fault, silent=silent)
        self._clock.call_after(max(fault.seconds, SHORTEST_FLAP), lambda: self._flap(fault, silent=not silent))
