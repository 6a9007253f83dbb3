"""Processes of a simulated cluster: managers and hollow nodes, with start, crash and restart."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.elector import Election
from kcm.actors.engine.webhooks.settings import WebhookServing
from kcm.actors.options import Options
from kcm.actors.reconciliation.derived import frozen_table
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.runtime.cloud.provider import CloudProvider
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.simulation.calls import SimulatedCalls
from kcm.runtime.simulation.network import SimulatedNetwork
from kcm.runtime.simulation.processes import SharedDecoder, SimulatedProcess
from kcm.runtime.simulation.trace import Trace
from kcm.runtime.simulation.transport import SimulatedTransport
from kcm.runtime.simulation.webhooks import SimulatedWebhooks
from kcm.runtime.simulation.world import World

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

Observer = Callable[[str, ControllerSystem], None]  # called with the name of a process and its system
# Self-signed certificate of a simulated API server, although connections do not use TLS.
AUTHORITY = b"""-----BEGIN CERTIFICATE-----
MIIBKzCB0qADAgECAgEBMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMMCXNpbXVsYXRl
ZDAgFw0yNjAxMDEwMDAwMDBaGA8yMTI2MDEwMTAwMDAwMFowFDESMBAGA1UEAwwJ
c2ltdWxhdGVkMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEmzwd/AV1PUWoOZ3U
yT26ST7u8DTUL0Dxyfx3OTlXSPJJc//F/6ynWzyfgstefWMKhZ3UlPtq3gwkFCWg
fxQSSaMTMBEwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiAGLbvT
E/V3tNeuYhTMQxTguxhTIGGPRm8W1yaHkHEU0AIhAIVFGd4CW/ugtcuWZ6HtidCX
iFK2C5/S3SjI/DctbkIN
-----END CERTIFICATE-----
"""


class Running(Struct, frozen=True):
    """Incarnation of a process: the system that runs in it, and the arguments for its restart.

    keep: restart the process when it ends by itself.
    starts: number of starts, including this one.
    webhooks: how its webhooks are served; None: they are not.
    cluster: the one of several clusters that it works on, as on its only one; "" for all.
    """

    process: SimulatedProcess
    system: ControllerSystem
    specs: tuple[ControllerSpec, ...]
    options: Options | None
    election: Election | Mapping[str, Election] | None
    seed: int
    keep: bool
    starts: int
    webhooks: WebhookServing | None = None
    cluster: str = ""


class Processes:
    """Processes of a simulated cluster.

    running: latest incarnation of each process by name, including processes that crashed or ended.
    started: functions called with each process before it starts.
    """

    def __init__(
        self,
        *,
        world: World,
        networks: Mapping[str, SimulatedNetwork],
        calls: SimulatedCalls,
        webhooks: SimulatedWebhooks,
        cloud: CloudProvider | None,
        trace: Trace | None,
        log: FilteringBoundLogger,
    ) -> None:
        """Create it without processes. networks: by cluster; only "" with one cluster."""
        self.world = world
        self._networks, self._trace, self._log = networks, trace, log
        self._calls, self._webhooks, self._cloud = calls, webhooks, cloud
        self.running: dict[str, Running] = {}
        self.started: list[Observer] = []

    def start(
        self,
        kind: str,
        specs: tuple[ControllerSpec, ...],
        *,
        seed: int,
        options: Options | None = None,
        election: Election | Mapping[str, Election] | None = None,
        keep: bool = False,
        webhooks: WebhookServing | None = None,
        cluster: str = "",
    ) -> ControllerSystem:
        """Start a process. The first process of a kind is named `kind`, the next ones "kind-2", "kind-3" and so on.

        cluster: see Running; the name of the process begins with it.
        """
        kind = f"{cluster}-{kind}" if cluster else kind
        names = (kind if number == 1 else f"{kind}-{number}" for number in itertools.count(1))
        name = next(name for name in names if name not in self.running)
        return self._run(
            name, specs, options, election, seed=seed, keep=keep, starts=1, webhooks=webhooks, cluster=cluster
        )

    def crash(self, name: str) -> None:
        running = self.running[name]
        if running.process.alive:
            running.process.crash()
            for network in self._networks.values():
                network.cancel_streams(name)
            self.note(name, "process crashed")

    def start_again(self, name: str) -> None:
        was = self.running[name]
        self.crash(name)
        self.note(name, "process started again")
        self._run(
            name,
            was.specs,
            was.options,
            was.election,
            seed=was.seed,
            keep=was.keep,
            starts=was.starts + 1,
            webhooks=was.webhooks,
            cluster=was.cluster,
        )

    def revive(self) -> None:
        """Restart each process that has ended by itself, if it was started with `keep`."""
        for name, running in list(self.running.items()):
            if running.keep and running.process.alive:
                if running.system.end is not None:
                    self.start_again(name)

    def note(self, process: str, text: str) -> None:
        """Add a text to the trace of the simulation, if there is one. process: name of a process, or ""."""
        if self._trace is not None:
            self._trace.note(self.world.clock.monotonic(), process, "cluster", text)

    def _run(
        self,
        name: str,
        specs: tuple[ControllerSpec, ...],
        options: Options | None,
        election: Election | Mapping[str, Election] | None,
        *,
        seed: int,
        keep: bool,
        starts: int,
        webhooks: WebhookServing | None,
        cluster: str,
    ) -> ControllerSystem:
        metrics = Metrics()
        process = self.world.process(name)
        transports = {
            where: SimulatedTransport(network, name, process.http) for where, network in self._networks.items()
        }
        is_on_one = cluster in transports
        system = ControllerSystem(
            transport=transports[cluster] if is_on_one else None,
            transports=None if is_on_one else transports,
            log=self._log,
            controllers=specs,
            options=options,
            election=election,
            clock=process.clock,
            spawner=process,
            make_table=frozen_table,
            cloud=self._cloud,
            calls=self._calls.of_process(name, process),
            seed=seed,
            authority=AUTHORITY,
            metrics=metrics,
            webhooks=webhooks,
            make_webhook_host=lambda pages: self._webhooks.host(name, process.calls, pages, metrics),
        )
        system.actors.decoder = SharedDecoder()
        system.actors.beginnings.append(process.begins)
        self.running[name] = Running(process, system, specs, options, election, seed, keep, starts, webhooks, cluster)
        for observe in self.started:
            observe(name, system)
        return system.start()
