"""`run-kcm`: the command line of the controller manager.

Without a cluster given it starts one of its own (actors/local_cluster.py). Exit codes: 0 after a drained shutdown, 1
after anything else, with one line that says what was wrong.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from actors import journal_command
from actors.arguments import known_names, read_options
from actors.catalogue import BUILT_IN
from actors.connection import ServerUnavailableError, connect, wait_for_server
from actors.controller_system import ControllerSystem
from actors.elector import Election
from actors.greeting import LiveLine, greeting, summary
from actors.installed import Installed, installed_controllers
from actors.live_faults import LiveFaults
from actors.local_cluster import LocalCluster, start_local_cluster
from actors.manifests import ManifestError, apply, read_manifest
from actors.options import InvalidOptions, Options, help_text
from actors.serving import build_server
from actors.specs import ControllerSpec
from runtime.client.config import ConfigError
from runtime.client.in_cluster import is_in_cluster
from runtime.client.loading import load_config
from runtime.client.transport import HttpTransport
from runtime.clock import SystemClock
from runtime.cloud.calls import CloudCalls, ThreadedCalls
from runtime.cloud.loading import CloudError, load_provider
from runtime.embedded.launch import LaunchError
from runtime.ending import Ending, on_signals, unique_identity
from runtime.faults.plan_file import FaultPlan, PlanError, read_plan
from runtime.flags import FlagError
from runtime.journal import JournalError, JournalWriter, Run
from runtime.logging import LogControl, configure_logging, logger_for
from runtime.meters import report_build
from runtime.metrics import Metrics
from runtime.serving.certificates import CertificateError
from runtime.serving.health import HealthChecks
from runtime.serving.server import ServingError
from runtime.version import this_version

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

GLANCE = 0.2  # seconds between two looks at whether it is over
REFUSALS = (
    ConfigError,
    CloudError,
    ServerUnavailableError,
    LaunchError,
    ManifestError,
    CertificateError,
    ServingError,
    JournalError,
    PlanError,
)


class StartError(Exception):
    """The command cannot begin its work; the text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the process gives the command."""

    arguments: tuple[str, ...]
    options: Options
    clock: SystemClock
    environ: Mapping[str, str]
    control: LogControl
    log: FilteringBoundLogger
    stopping: Ending
    installed: Installed


def main(argv: Sequence[str] | None = None) -> int:
    """The whole life of the process; answers its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments and arguments[0] == "journal":
        return journal_command.main(arguments[1:])
    installed = installed_controllers()
    controllers = (*BUILT_IN, *installed.specs)
    try:
        options = read_options(arguments, controllers=controllers)
    except (FlagError, InvalidOptions) as err:
        print(f"Error: {err}", file=sys.stderr)
        if "is not in the list of known controllers" in str(err):
            known = sorted(name.canonical for name in known_names(controllers))
            print(f"Known controllers: {', '.join(known)}", file=sys.stderr)
        return 1
    if options.process.help:
        print(help_text(columns=shutil.get_terminal_size().columns))
        return 0
    if options.process.version in ("true", "raw"):
        print(this_version().describe(options.process.version))
        return 0
    clock = SystemClock()
    try:
        control = configure_logging(options.logging.settings, now=clock.now)
    except OSError as err:
        print(f"Error: cannot write logs: {err}", file=sys.stderr)
        return 1
    log = logger_for("kcm")
    try:
        stopping = on_signals()
        return run(Surroundings(tuple(arguments), options, clock, os.environ, control, log, stopping, installed))
    except (StartError, *REFUSALS) as err:
        log.error("command failed", error=str(err))
        return 1
    finally:
        control.close()
        clock.close()


def run(around: Surroundings) -> int:
    """Connect, serve, lead and work, until a signal or the loss of the lease."""
    options, log = around.options, around.log
    version = this_version()
    log.info("Starting", version=version.git_version, pid=os.getpid())
    for warning in options.warnings:
        log.warning(warning)
    for trouble in around.installed.troubles:
        log.error("installed controller left out", error=trouble)
    manifests = [(path, read_manifest(Path(path))) for path in options.embedded.apply]
    cloud = load_provider(options.cloud.cloud_provider, config_file=options.cloud.cloud_config)
    plan = _fault_plan(around)
    metrics, health = Metrics(), HealthChecks(log=log)
    report_build(metrics, version)
    with ExitStack() as closing:
        server = build_server(
            options,
            health=health,
            metrics=metrics,
            control=around.control,
            version=version,
            clock=around.clock,
            log=log,
        )
        if server is not None:
            server.start()
            closing.callback(server.stop)
        local = _local_cluster(around, closing)
        config = load_config(
            kubeconfig=str(local.server.kubeconfig) if local is not None else options.client.kubeconfig,
            master=options.client.master,
            environ=around.environ,
            clock=around.clock,
            metrics=metrics,
        )
        transport = connect(config, clock=around.clock, metrics=metrics, log=log)
        closing.callback(transport.close, timeout=2.0)
        wait_for_server(transport, config, clock=around.clock, stopping=around.stopping)
        applied = []
        for path, objects in manifests:
            applied += apply(objects, partial(transport.request, client="kcm", timeout=30.0), where=path)
        calls = None if cloud is None else ThreadedCalls(cloud, clock=around.clock)
        system = _build_system(around, closing, transport=transport, metrics=metrics, cloud=calls, plan=plan)
        health.set(system.checks())
        if local is not None:
            print(_greeting(local, options, applied), flush=True)
        return work(system, around, local)


def election(options: Options) -> Election | None:
    """Raises StartError on timings that cannot work."""
    chosen = options.leader_election
    if not chosen.enabled:
        return None
    try:
        return Election(
            identity=unique_identity(),
            lease_duration=chosen.lease_duration,
            renew_deadline=chosen.renew_deadline,
            retry_period=chosen.retry_period,
            namespace=chosen.resource_namespace,
            name=chosen.resource_name,
        )
    except ValueError as err:
        raise StartError(str(err)) from err


def work(system: ControllerSystem, around: Surroundings, local: LocalCluster | None) -> int:
    """Run the system until it ends, or somebody wants it to, or its own cluster is gone."""
    log, chosen = around.log, system.options.generic.controllers
    built = {spec.name for spec in system.controllers}
    for name in chosen:
        if name not in built and name != "*" and not name.startswith("-"):
            log.warning("this controller is not part of this release yet", controller=name)
    with _live_line(local) as show:
        system.start()
        while system.wait(timeout=GLANCE) is None:
            if show is not None:
                show(summary(system.tables))
            if around.stopping.is_set():
                log.info("shutting down, asked by a signal")
                drained = system.stop(timeout=system.options.generic.controller_shutdown_timeout + 5.0)
                return 0 if drained else 1
            trouble = local.trouble() if local is not None else None
            if trouble is not None:
                system.halt()
                raise StartError(trouble)
    log.error(system.end or "ended")
    system.halt()
    return 1


def _local_cluster(around: Surroundings, closing: ExitStack) -> LocalCluster | None:
    """The embedded cluster, if no other is named; it is stopped last."""
    options = around.options
    if not options.embeds_cluster or is_in_cluster(around.environ):
        if options.embedded.apply:
            raise StartError(
                "--apply is for the embedded cluster: leave --kubeconfig and --master away, or use kubectl"
            )
        return None
    embedded = options.embedded
    local = start_local_cluster(
        Path(embedded.directory), port=embedded.port, nodes=embedded.hollow_nodes, zones=embedded.hollow_zones
    )
    closing.callback(local.stop)
    return local


def _fault_plan(around: Surroundings) -> FaultPlan | None:
    """Raises PlanError, and StartError where the plan would harm a cluster that is not our own."""
    options = around.options
    chosen = options.diagnosis
    if not chosen.fault_plan:
        return None
    embedded = options.embeds_cluster and not is_in_cluster(around.environ)
    if not embedded and not chosen.fault_plan_on_any_cluster:
        raise StartError(
            "--fault-plan is for the embedded cluster: leave --kubeconfig and --master away, "
            "or say --fault-plan-on-any-cluster if this one may come to harm"
        )
    return read_plan(Path(chosen.fault_plan))


def _build_system(
    around: Surroundings,
    closing: ExitStack,
    *,
    transport: HttpTransport,
    metrics: Metrics,
    cloud: ThreadedCalls | None,
    plan: FaultPlan | None,
) -> ControllerSystem:
    """Not started yet; with a journal and with faults, if they are wanted."""
    options, log = around.options, around.log
    controllers = (*BUILT_IN, *around.installed.specs)
    seed = random.getrandbits(32)
    faults: LiveFaults | None = None
    calls: CloudCalls | None = cloud
    if plan is not None:
        lease = (options.leader_election.resource_namespace, options.leader_election.resource_name)
        faults = LiveFaults(plan, transport=transport, clock=around.clock, lease=lease, log=log)
        calls = None if cloud is None else faults.way_to(cloud)
    system = ControllerSystem(
        transport=faults.transport if faults is not None else transport,
        log=log,
        controllers=controllers,
        options=options,
        election=election(options),
        clock=faults.clock if faults is not None else around.clock,
        metrics=metrics,
        cloud=calls,
        spawner=faults.spawner if faults is not None else None,
        seed=seed,
        journal=_journal(around, closing, controllers, seed),
    )
    if faults is not None:
        system.actors.gates.append(faults.gate)
        closing.callback(faults.stop)
        faults.begin()
    return system


def _journal(
    around: Surroundings, closing: ExitStack, controllers: Sequence[ControllerSpec], seed: int
) -> JournalWriter | None:
    """Raises JournalError."""
    chosen = around.options.diagnosis
    if not chosen.journal:
        return None
    journal = JournalWriter(
        Path(chosen.journal),
        run=Run(
            version=this_version().kcm,
            seed=seed,
            arguments=around.arguments,
            controllers=[spec.name for spec in controllers],
        ),
        clock=around.clock,
        largest=chosen.journal_file_size * 1_000_000,
        files=chosen.journal_files,
    )
    closing.callback(_close_journal, journal, around.log)
    around.log.info("messages are written down, with what they hold", file=chosen.journal)
    return journal


def _close_journal(journal: JournalWriter, log: FilteringBoundLogger) -> None:
    journal.close()
    if journal.trouble is not None:
        log.error("journal is not whole", error=journal.trouble)


def _greeting(local: LocalCluster, options: Options, applied: list[str]) -> str:
    return greeting(
        url=local.server.url,
        kubeconfig=local.server.kubeconfig,
        nodes=options.embedded.hollow_nodes,
        zones=options.embedded.hollow_zones,
        applied=applied,
    )


@contextlib.contextmanager
def _live_line(local: LocalCluster | None) -> Iterator[Callable[[str], None] | None]:
    """Shows a line on a terminal; None where there is none."""
    if local is None or not sys.stdout.isatty():
        yield None
        return
    line = LiveLine(sys.stdout)
    try:
        yield line.show
    finally:
        line.end()


if __name__ == "__main__":
    sys.exit(main())
