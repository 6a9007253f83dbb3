"""The faults of a simulated cluster that begin at one time and end at another: what happens at either end."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from actors.hollow.behaviour import SILENT
from protocols.objects import Object, encode_object, labels_of, name_of
from protocols.resources import LEASES, NODES, resource_path
from protocols.times import format_micro_time
from runtime.api import Request, Response
from runtime.simulation.faults import Fault, Kind
from runtime.simulation.injection import Injector

if TYPE_CHECKING:
    from actors.simulation import SimulatedCluster

ZONE = "topology.kubernetes.io/zone"
THIEF = "somebody-else"
LEASE = ("kube-system", "kube-controller-manager")


class Calendar:
    """Enters every such fault of a plan into the cluster's clock."""

    def __init__(self, cluster: SimulatedCluster, injector: Injector) -> None:
        self._cluster, self._injector = cluster, injector

    def enter(self) -> None:
        for fault in self._injector.faults:
            begin, end = self._ends(fault)
            if begin is not None:
                self._at(fault.start, fault, "begins", begin)
            if end is not None and fault.until is not None:
                self._at(fault.until, fault, "ends", end)

    def _at(self, when: float, fault: Fault, what: str, act: Callable[[], None]) -> None:
        def happen() -> None:
            self._cluster.note("", f"{fault} {what}")
            if what == "begins":
                self._injector.struck[fault.kind] += 1
            act()

        self._cluster.clock.call_after(when - self._cluster.clock.monotonic(), happen)

    def _ends(self, fault: Fault) -> tuple[Callable[[], None] | None, Callable[[], None] | None]:
        cluster = self._cluster
        match fault.kind:
            case Kind.SERVER_RESTARTED:
                return (self._server_goes, lambda: self._server_comes(anew=True))
            case Kind.SERVER_AWAY:
                return (self._server_goes, lambda: self._server_comes(anew=False))
            case Kind.CLOCK_JUMPED:
                return (lambda: self._skew(fault, fault.seconds), lambda: self._skew(fault, 0.0))
            case Kind.PROCESS_CRASHED:
                return (
                    lambda: self._each_process(fault, cluster.crash),
                    lambda: self._each_process(fault, cluster.start_again),
                )
            case Kind.PROCESS_PAUSED:
                return (lambda: self._pause(fault), None)
            case Kind.LEASE_STOLEN:
                return (lambda: self._steal(fault), None)
            case Kind.NODE_SILENT | Kind.ZONE_SILENT:
                return (lambda: self._silence(fault, silent=True), lambda: self._silence(fault, silent=False))
            case Kind.NODE_FLAPPING:
                return (lambda: self._flap(fault, silent=True), lambda: self._silence(fault, silent=False))
        return (None, None)

    # Server and processes.

    def _server_goes(self) -> None:
        self._cluster.network.server_is_down = True
        self._cluster.network.break_streams()

    def _server_comes(self, *, anew: bool) -> None:
        self._cluster.network.server_is_down = False
        if anew:
            self._cluster.restart_server()

    def _each_process(self, fault: Fault, act: Callable[[str], None]) -> None:
        for name in list(self._cluster.processes):
            if fault.concerns(process=name):
                act(name)

    def _skew(self, fault: Fault, seconds: float) -> None:
        for name, running in self._cluster.processes.items():
            if fault.concerns(process=name):
                running.process.clock.skew = seconds

    def _pause(self, fault: Fault) -> None:
        for name, running in self._cluster.processes.items():
            if fault.concerns(process=name) and fault.until is not None:
                self._cluster.world.pause(running.process, fault.until - fault.start)

    # Objects: written past the network, as other clients of the server do.

    def _write(self, method: str, path: str, body: Object) -> Response:
        request = Request(
            method=method,
            path=path,
            body=encode_object(body),
            content_type="application/merge-patch+json" if method == "PATCH" else "application/json",
        )
        return self._cluster.server.handle(request)

    def _steal(self, fault: Fault) -> None:
        stamp = format_micro_time(self._cluster.clock.now())
        spec = {"holderIdentity": THIEF, "leaseDurationSeconds": max(1, int(fault.seconds)), "renewTime": stamp}
        self._write("PATCH", resource_path(LEASES.id, *LEASE), {"spec": spec})

    def _silence(self, fault: Fault, *, silent: bool) -> None:
        for node in self._cluster.list(NODES):
            what = labels_of(node).get(ZONE, "") if fault.kind is Kind.ZONE_SILENT else name_of(node)
            if fnmatchcase(what, fault.object):
                annotations = {SILENT: "true" if silent else None}
                path = resource_path(NODES.id, "", name_of(node))
                self._write("PATCH", path, {"metadata": {"annotations": annotations}})

    def _flap(self, fault: Fault, *, silent: bool) -> None:
        if not fault.is_on(self._cluster.clock.monotonic()):
            return
        self._silence(fault, silent=silent)
        self._cluster.clock.call_after(max(fault.seconds, 0.1), lambda: self._flap(fault, silent=not silent))
