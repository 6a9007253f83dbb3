"""Embedded cluster of run-kcm: an API server, and hollow nodes, in two child processes.

with LocalCluster.start("/tmp/cluster", nodes=3) as cluster, api_transport(cluster.kubeconfig) as transport:
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from kcm.actors.app.kept_child import KeptChild
from kcm.protocols.admission_plugins import NEED_CONTROLLERS
from kcm.runtime.apiserver.process.launch import CONTEXT, HOLLOW_NODES, SCHEDULER, EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import FULL, RBAC, ServerSettings
from kcm.runtime.logs.standard_log import standard_log
from kcm.runtime.process.children import start_module
from kcm.runtime.process.termination import ended_by
from kcm.runtime.scheduling.clock import SystemClock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.actors.explanation.manager_state import ManagerView

STOPPED_WITHIN = 5.0  # seconds
MOST_PORT = 65535
GLANCE = 0.5  # seconds between two checks of the nodes
__all__ = ["CONTEXT", "LocalCluster", "start_local_cluster"]
NODES = "hollow-cluster"  # in the log and among the health checks


class LocalCluster(Struct):
    """Running embedded cluster; a context manager that stops both processes."""

    server: EmbeddedServer
    nodes: KeptChild | None  # None without hollow nodes
    clock: SystemClock | None = None  # schedules the supervision of the nodes, if `start` created this cluster

    @classmethod
    def start(
        cls,
        directory: str | Path,
        *,
        nodes: int = 0,
        zones: int = 1,
        port: int = 0,
        in_memory: bool = False,
        durability: str = FULL,
        quiet: bool = True,
        collect_garbage: bool = True,
        empty_namespaces: bool = True,
        service_ranges: Sequence[str] = (),
        account_key_file: str = "",
        authorization: str = RBAC,
        enable_plugins: Collection[str] = (),
        disable_plugins: Collection[str] = tuple(NEED_CONTROLLERS),
        volumes: bool = False,
        attach: bool = False,
        devices: bool = False,
        log: FilteringBoundLogger | None = None,
    ) -> Self:
        """Start a cluster in this directory, and return once the API server serves.

        The directory is created if it does not exist. A cluster that was stored there before is loaded.

        nodes: number of hollow nodes, which simulate pods without running them; they register after this returns.
        zones: number of zones over which the nodes are distributed.
        port: 0 selects the port of the last run if it is free, otherwise any.
        in_memory: store nothing, and ignore what is stored.
        durability: "full" acknowledges a write once it is on disk; "relaxed" may lose the last writes in a power cut.
        quiet: the processes log only problems to standard error.
        collect_garbage: the API server itself deletes objects without owners. False if a garbage collector runs, such
            as the one of BUILT_IN, or if nothing should be collected.
        empty_namespaces: the API server itself empties deleted namespaces. False if a namespace controller runs.
        service_ranges: CIDRs of cluster IPs, one for each IP family, the default family first; empty: 10.96.0.0/16.
        account_key_file: private key with which a token controller signs (--service-account-private-key-file); tokens
            of its Secrets are accepted. "": there is no such key.
        authorization: "rbac": roles and bindings apply, with upstream's default roles and an administrator;
            "always-allow": every authenticated user may do everything.
        enable_plugins, disable_plugins: admission plugins to change from kube-apiserver's defaults. By default the
            plugins that need controllers are disabled, such as ServiceAccount.
        volumes: claims get hollow volumes, and pods wait for their claims. For clusters in which a controller binds
            claims, such as persistentvolume-binder-controller of BUILT_IN.
        attach: pods also wait until their volumes are attached. For clusters with an attach-detach controller, such as
            persistentvolume-attach-detach-controller of BUILT_IN.
        devices: nodes publish devices, and pods with ResourceClaims are scheduled.
        log: see ControllerSystem.

        The processes end with this one, however it ends. Nodes that end by themselves are restarted.
        Raises LaunchError, for example if another process uses the directory, or another user owns or can write it.
        """
        if nodes < 0 or zones < 1 or not 0 <= port <= MOST_PORT:
            raise ValueError(f"nodes is 0 or more, zones 1 or more, port 0 to {MOST_PORT}: {nodes}, {zones}, {port}")
        place = Path(directory).expanduser().resolve()
        settings = ServerSettings(
            directory=place,
            port=port,
            in_memory=in_memory,
            durability=durability,
            quiet=quiet,
            collect_garbage=collect_garbage,
            empty_namespaces=empty_namespaces,
            service_ranges=tuple(service_ranges),
            account_key_file=account_key_file,
            authorization=authorization,
            enable_plugins=tuple(enable_plugins),
            disable_plugins=tuple(disable_plugins),
        )
        cluster = start_local_cluster(
            settings, nodes=nodes, zones=zones, volumes=volumes, attach=attach, devices=devices
        )
        if cluster.nodes is None:
            return cls(cluster.server, None)
        clock = SystemClock()
        cls._supervise(cluster.nodes, clock, log if log is not None else standard_log("kcm"))
        return cls(cluster.server, cluster.nodes, clock)

    @staticmethod
    def _supervise(nodes: KeptChild, clock: SystemClock, log: FilteringBoundLogger) -> None:
        def look() -> None:
            now = clock.monotonic()
            nodes.look(now=now, log=log)
            clock.call_at(nodes, now + GLANCE, look)

        look()

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def kubeconfig(self) -> Path:
        """Return the path of the kubeconfig, which contains the administrator's token; its mode is 0600."""
        return self.server.kubeconfig

    def trouble(self) -> str | None:
        """Return why the cluster cannot be used any more, or None while it can."""
        code = self.server.child.exit_code
        if code is not None:
            return f"the embedded API server {ended_by(code)}"
        if self.server.is_lost():
            directory = self.server.kubeconfig.parent
            return f"{directory} was deleted, moved or replaced while the embedded cluster ran: what it held is lost"
        return None

    def look(self, *, now: float, log: FilteringBoundLogger) -> None:
        """Restart the hollow nodes if they have ended. Call it a few times a second, unless `start` does so.

        now: monotonic time.
        """
        if self.nodes is not None:
            self.nodes.look(now=now, log=log)

    def notice(self) -> str:
        """Return a problem that does not stop the cluster, or "" without a problem."""
        return (self.nodes is not None and self.nodes.trouble) or ""

    def checks(self) -> Mapping[str, Callable[[], str | None]]:
        """Return the health checks of the cluster by name."""
        nodes = self.nodes
        return {} if nodes is None else {NODES: lambda: nodes.trouble}

    def view(self) -> ManagerView:
        """Return the state of the hollow nodes' controllers, for one explanation."""
        from kcm.actors.app.neighbours import WITHIN, NeighbourView  # loaded when something is explained

        nodes = self.nodes
        return NeighbourView(lambda body: None if nodes is None else nodes.request(body, WITHIN))

    def stop(self) -> None:
        if self.clock is not None:
            self.clock.close()
        if self.nodes is not None:
            self.nodes.stop(STOPPED_WITHIN)
        self.server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_local_cluster(
    settings: ServerSettings,
    *,
    nodes: int = 0,
    zones: int = 1,
    volumes: bool = False,
    attach: bool = False,
    devices: bool = False,
    taint_rules: str = "",
    groups: bool = False,
) -> LocalCluster:
    """Start a cluster and return once its API server serves; nodes register later. Raises LaunchError.

    nodes, zones, volumes, attach, devices: see LocalCluster.start.
    taint_rules: version of the DeviceTaintRules that pods with ResourceClaims obey; "" for none.
    groups: ResourceClaims can belong to PodGroups, which the server must serve.
    """
    server = launch(settings)
    fleet = None
    if nodes > 0:
        arguments = [f"--kubeconfig={server.kubeconfig_of(HOLLOW_NODES)}", f"--context={CONTEXT}"]
        arguments += [
            f"--scheduler-kubeconfig={server.kubeconfig_of(SCHEDULER)}",
            f"--nodes={nodes}",
            f"--zones={zones}",
        ]
        arguments += [f"--node-key={server.node_key}", f"--logging-format={settings.log_format}"]
        if settings.quiet:
            arguments.append("--quiet")
        if volumes:
            arguments.append("--volumes")
        if attach:
            arguments.append("--attach")
        if devices:
            arguments.append("--devices")
        if taint_rules:
            arguments.append(f"--device-taint-rules={taint_rules}")
        if groups:
            arguments.append("--pod-groups")
        fleet = KeptChild(lambda: start_module("kcm.actors.hollow.process", arguments, read=True), what=NODES)
    return LocalCluster(server, fleet)
