"""The cluster that run-kcm brings when it is given none: an API server and hollow nodes, each a process of its own.

with LocalCluster.start("/tmp/cluster", nodes=3) as cluster, api_transport(cluster.kubeconfig) as transport:
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kcm.actors.app.kept_child import KeptChild
from kcm.protocols.admission_plugins import NEED_CONTROLLERS
from kcm.protocols.late_methods import dataclass
from kcm.runtime.apiserver.process.launch import CONTEXT, HOLLOW_NODES, SCHEDULER, EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import FULL, RBAC, ServerSettings
from kcm.runtime.logs.standard_log import standard_log
from kcm.runtime.process.children import start_module
from kcm.runtime.process.termination import ended_by
from kcm.runtime.scheduling.clock import SystemClock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

STOPPED_WITHIN = 5.0  # seconds
MOST_PORT = 65535
GLANCE = 0.5  # seconds between two looks at the nodes
__all__ = ["CONTEXT", "LocalCluster", "start_local_cluster"]
NODES = "hollow-cluster"  # in the log and among the health checks


@dataclass(slots=True)
class LocalCluster:
    """Running; a context manager that ends both processes.

    nodes: None without hollow nodes. clock: by which `start` looks after them.
    """

    server: EmbeddedServer
    nodes: KeptChild | None
    clock: SystemClock | None = None

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
        log: FilteringBoundLogger | None = None,
    ) -> Self:
        """A cluster in this directory, which is made if it is not there; what it held before, it holds again.

        Returns once the API server serves. nodes: how many hollow ones, which run pods in appearance and come when they
        come; zones: over how many zones they are dealt. port: 0 is that of the last time if it is free, else any.
        in_memory: nothing is stored, and what was is not looked at. durability: "full" acknowledges what is on disk,
        "relaxed" what a power cut may take back.
        quiet: the processes log to standard error only what goes wrong. log: as ControllerSystem has it.
        collect_garbage: the API server deletes what has lost its owners itself; False where a garbage collector runs,
        as among BUILT_IN, and for a cluster where nobody does. empty_namespaces: likewise, it empties a namespace that
        is deleted; False where a namespace controller runs. service_ranges: CIDRs of cluster IPs, one for each IP
        family, the default family first; none: 10.96.0.0/16. account_key_file: the private key that a token controller
        signs with (--service-account-private-key-file): the tokens of its Secrets are taken; "" for none.
        authorization: "rbac": roles and bindings say what users may do, upstream's from the start, and the
        administrator may do everything; "always-allow": so may everybody who is let in.
        enable_plugins, disable_plugins: admission plugins that are on beside kube-apiserver's default ones, or off; by
        default those are off that rest on controllers, as ServiceAccount does on the one that makes the accounts.
        volumes: claims get hollow volumes, and pods wait for those of their claims; for clusters where a controller
        binds the two, as persistentvolume-binder-controller among BUILT_IN.

        The processes end with this one, however it ends; nodes that end by themselves are started again.
        Raises LaunchError, as for a directory that another process uses, or that others own or can write.
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
        one = start_local_cluster(settings, nodes=nodes, zones=zones, volumes=volumes)
        if one.nodes is None:
            return cls(one.server, None)
        clock = SystemClock()
        cls._keep_looking(one.nodes, clock, log if log is not None else standard_log("kcm"))
        return cls(one.server, one.nodes, clock)

    @staticmethod
    def _keep_looking(nodes: KeptChild, clock: SystemClock, log: FilteringBoundLogger) -> None:
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
        """Path of the kubeconfig, which contains the administrator's token; its mode is 0600."""
        return self.server.kubeconfig

    def trouble(self) -> str | None:
        """Why it cannot be worked with any more, None while it can."""
        code = self.server.child.exit_code
        if code is not None:
            return f"the embedded API server {ended_by(code)}"
        if self.server.is_lost():
            directory = self.server.kubeconfig.parent
            return f"{directory} was deleted, moved or replaced while the embedded cluster ran: what it held is lost"
        return None

    def look(self, *, now: float, log: FilteringBoundLogger) -> None:
        """Start the hollow nodes again if they have ended; to be called a few times a second, but after `start`.

        now: of the monotonic clock.
        """
        if self.nodes is not None:
            self.nodes.look(now=now, log=log)

    def notice(self) -> str:
        """Return a problem that does not stop the cluster, or "" without a problem."""
        return (self.nodes is not None and self.nodes.trouble) or ""

    def checks(self) -> Mapping[str, Callable[[], str | None]]:
        """Health checks: None when all is well, else why not."""
        nodes = self.nodes
        return {} if nodes is None else {NODES: lambda: nodes.trouble}

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
    settings: ServerSettings, *, nodes: int = 0, zones: int = 1, volumes: bool = False
) -> LocalCluster:
    """Wait until the API server serves; the nodes follow later. Raises LaunchError.

    nodes, zones, volumes: see LocalCluster.start.
    """
    server = launch(settings)
    fleet = None
    if nodes > 0:
        told = [f"--kubeconfig={server.kubeconfig_of(HOLLOW_NODES)}", f"--context={CONTEXT}"]
        told += [f"--scheduler-kubeconfig={server.kubeconfig_of(SCHEDULER)}", f"--nodes={nodes}", f"--zones={zones}"]
        told += [f"--node-key={server.node_key}", f"--logging-format={settings.log_format}"]
        if settings.quiet:
            told.append("--quiet")
        if volumes:
            told.append("--volumes")
        fleet = KeptChild(lambda: start_module("kcm.actors.hollow.process", told), what=NODES)
    return LocalCluster(server, fleet)
