"""Run of the controller manager after its flags are parsed: connect, serve, lead and work, until it is ended.

Without a given cluster it starts its own (app/local_cluster.py). Exit codes: 0 after a drained shutdown, 130 after
Ctrl-C before the work began, otherwise 1 with one line about the error.

A terminal shows a greeting, a status line, warnings and errors; info log lines appear there with --v.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kcm.actors.app.connection import ServerUnavailableError
from kcm.actors.app.local_cluster import LocalCluster
from kcm.actors.app.system import ControllerSystem
from kcm.actors.command.cluster_connection import ClusterConnection, connect_to_cluster, connect_to_clusters
from kcm.actors.command.greeting import Ask, LiveLine, Welcome, greeting, node_summary, standing_by, summary
from kcm.actors.command.program import ControllerProgram
from kcm.actors.command.run_setup import (
    Interrupted,
    Launch,
    StartError,
    build_system,
    check_journal,
    fault_plan,
    leader_migration,
    local_cluster,
    new_metrics,
    open_tracer,
    serve_pages,
)
from kcm.actors.engine.vitals import ElectorVitals
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import elector_name
from kcm.actors.reconciliation.specs import clusters_of
from kcm.runtime.apiserver.process.launch import LaunchError
from kcm.runtime.client.api import Transport
from kcm.runtime.client.config import ConfigError
from kcm.runtime.client.http_session import OWN_CLIENT
from kcm.runtime.cloud.providers import CloudError, load_provider
from kcm.runtime.logs.configuration import LogSettings, configure_logging, logger_for
from kcm.runtime.metrics.meters import report_build
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.descriptors import FEW, raise_limit
from kcm.runtime.process.memory import RareGarbage, collect_rarely, give_back_freed, keep_one_heap
from kcm.runtime.process.service_manager import ServiceManager
from kcm.runtime.process.standard_streams import is_terminal
from kcm.runtime.process.start_state import StartState
from kcm.runtime.process.termination import SIGINT, Ending, ending_within, on_signals, unique_identity
from kcm.runtime.process.version import Version, this_version
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.serving.debug_pages import DebugPages
from kcm.runtime.serving.health import HealthChecks
from kcm.runtime.system.journal import JournalError

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from kcm.actors.command.console import RunConsole
    from kcm.runtime.cloud.provider import CloudProvider

# Number of connections that are opened before the work begins: half of the pool.
AHEAD = 32
LAST_RESORT = 30.0  # seconds in which the process must end after its system
FAILED_WITHIN = 0.8  # seconds in which it must end after a loss of the lease, or a finding of the watchdog
CHECK_EVERY = 0.2  # seconds between two checks for the end
REFUSALS = (
    ConfigError,
    CloudError,
    ServerUnavailableError,
    LaunchError,
    JournalError,
)


def carry_out(arguments: Sequence[str], options: Options, program: ControllerProgram) -> int:
    """Run until the end of the process, and return its exit code. arguments: the command line of the options."""
    keep_one_heap()
    clock = SystemClock()
    quiet = is_quiet(options)
    try:
        control = configure_logging(replace(log_settings(options), quiet=quiet), now=clock.now)
    except OSError as err:
        print(f"Error: cannot write logs: {err}", file=sys.stderr)
        return 1
    log = logger_for(program.name)
    stopping = on_signals()
    collect_rarely()
    try:
        return run(
            Launch(
                arguments=tuple(arguments),
                options=options,
                clock=clock,
                environ=os.environ,
                control=control,
                log=log,
                stopping=stopping,
                program=program,
                identity=unique_identity(),
                quiet=quiet,
                line=LiveLine(sys.stdout),
                service=ServiceManager(os.environ, now=clock.monotonic),
            )
        )
    except Interrupted:
        return exit_code_of_interrupt(program, stopping)
    except (StartError, *REFUSALS) as err:
        if stopping.is_set():  # the signal is the cause of the failure
            return exit_code_of_interrupt(program, stopping)
        if quiet and not options.logging.settings.directory:
            print(f"Error: {err}", file=sys.stderr)
        else:
            log.error("command failed", error=str(err))
        return 1
    finally:
        control.close()
        clock.close()


def log_settings(options: Options) -> LogSettings:
    """Return the log settings of the flags, with the names of files for --vmodule."""
    settings = options.logging.settings
    if not settings.vmodule:
        return settings
    from kcm.actors.options.log_files import LOG_FILES  # few runs need it

    return replace(settings, vmodule_names=LOG_FILES)


def is_quiet(options: Options) -> bool:
    """Report whether info lines are hidden: on a terminal, unless a flag for logs is given."""
    log_flags = options.given & {"v", "vmodule", "logging-format", "log-text-split-stream", "log-json-split-stream"}
    return not log_flags and is_terminal(sys.stdout) and is_terminal(sys.stderr)


def standing_by_of(system: ControllerSystem, *, now: float) -> str:
    """Return what the process waits for before it may lead; "" while it leads on one of its clusters or on all."""
    electors = [elector_name(cluster) for cluster in system.clusters or ("",)]
    waiting = [standing_by(system.vitals.of(elector, ElectorVitals), now=now) for elector in electors]
    return waiting[0] if all(waiting) else ""


def exit_code_of_interrupt(program: ControllerProgram, stopping: Ending) -> int:
    """Return the exit code for an end before there is anything to drain."""
    print(f"{program.name}: interrupted", file=sys.stderr)
    return 128 + stopping.signal if stopping.signal == SIGINT else 0


def run(launch: Launch) -> int:
    """Connect, serve, lead and work, until a signal or the loss of the lease."""
    version = this_version()
    descriptors = log_start(launch, version)
    load_manifests = manifests_of(launch)
    cloud = load_provider(launch.options.cloud.cloud_provider, config_file=launch.options.cloud.cloud_config)
    plan = fault_plan(launch)
    check_journal(launch.options)
    migration = leader_migration(launch)
    metrics, health, debug = new_metrics(launch.options), HealthChecks(log=launch.log), DebugPages()
    report_build(metrics, version, launch.options.features, versions=launch.options.versions)
    with (
        ending_within(FAILED_WITHIN, launch.failed.wait, code=1, with_stacks=False),
        ExitStack() as closing,
    ):
        closing.callback(launch.line.end)
        tracer = open_tracer(launch, closing)
        pages = serve_pages(
            launch,
            closing,
            health=health,
            debug=debug,
            metrics=metrics,
            version=version,
            descriptors=descriptors,
        )
        console = pages.console if pages is not None else None
        local = local_cluster(launch, closing)
        start = StartState(local.server.kubeconfig.parent) if local is not None else None
        if start is not None:
            closing.callback(start.close)
        check_not_interrupted(launch)
        if clusters := clusters_of(launch.program.controllers):
            return run_on_clusters(
                launch,
                closing,
                clusters,
                metrics=metrics,
                cloud=cloud,
                health=health,
                debug=debug,
                tracer=tracer,
                console=console,
            )
        connection = connect_to_cluster(launch, closing, local=local, metrics=metrics)
        transport = connection.transport
        if local is not None and pages is not None:
            from kcm.actors.command.manager_access import let_users_in  # with certificates

            let_users_in(launch, closing, pages, kubeconfig=local.server.kubeconfig, transport=transport)
        if start is not None:
            start.set("manifests are not applied")
        applied = load_manifests(partial(transport.request, client=OWN_CLIENT, timeout=30.0))
        ways: Transport = transport
        if console is not None and local is not None:
            ways = console.switched(transport, launch.clock)
        system = build_system(
            launch,
            closing,
            transport=ways,
            metrics=metrics,
            cloud=cloud,
            plan=plan,
            migration=migration,
            authority=connection.authority,
            tracer=tracer,
        )
        if local is not None:
            system.neighbours.append(local.view)
        debug.set(system)
        health.set({**system.checks(), **(local.checks() if local is not None else {})}, exists=system.has_check)
        if console is not None:
            console.fill(system, transport)
        welcome = welcome_of(launch, local, connection, applied, console=console.link if console is not None else "")
        check_not_interrupted(launch)
        return work(system, launch, local, welcome, start, ready=partial(transport.open_ahead, AHEAD))


def run_on_clusters(
    launch: Launch,
    closing: ExitStack,
    clusters: Sequence[str],
    *,
    metrics: Metrics,
    cloud: CloudProvider | None,
    health: HealthChecks,
    debug: DebugPages,
    tracer: Tracer | None,
    console: RunConsole | None,
) -> int:
    """Connect to several clusters, lead and work, until a signal."""
    transports = connect_to_clusters(launch, closing, clusters, metrics=metrics)
    system = build_system(
        launch,
        closing,
        transports=transports,
        metrics=metrics,
        cloud=cloud,
        plan=None,
        migration=None,
        tracer=tracer,
    )
    debug.set(system)
    if console is not None:
        console.fill(system)
    health.set(system.checks(), exists=system.has_check)
    welcome = Welcome(
        f"Working on the clusters {', '.join(clusters)}. Press Ctrl-C to stop.",
        nodes=0,
        ask=partial(transports[clusters[0]].request, client=OWN_CLIENT, timeout=5.0),
        say=launch.line.say if launch.quiet else lambda _: None,
    )
    check_not_interrupted(launch)

    def open_ahead() -> None:
        for transport in transports.values():
            transport.open_ahead(AHEAD // len(transports))

    return work(system, launch, None, welcome, None, ready=open_ahead)


def log_start(launch: Launch, version: Version) -> int:
    """Log the start, and warnings about options and limits. Return the limit of open files of this process."""
    log = launch.log
    if launch.control.most >= 1:
        from kcm.actors.options.configz import flag_values  # few runs need it

        for name, value in flag_values(launch.options).items():
            log.info(f'FLAG: --{name}="{value}"', v=1, plain=True)
    log.info("Starting", version=version.git_version, pid=os.getpid())
    for warning in launch.options.warnings:
        log.warning(warning)
    for trouble in launch.program.installed.troubles:
        log.error("installed controller skipped", error=trouble)
    descriptors = raise_limit()
    if descriptors < FEW:
        log.warning("limit of open files and connections is low (ulimit -n)", limit=descriptors)
    return descriptors


def manifests_of(launch: Launch) -> Callable[[Ask], list[str]]:
    """Read and check the files of --apply, and return a function that loads them. Raises ManifestError."""
    if not launch.options.embedded.apply:
        return lambda _ask: []
    from kcm.actors.command.manifests import apply, check_manifests, read_manifests  # with YAML, which few runs need

    manifests = [manifest for path in launch.options.embedded.apply for manifest in read_manifests(Path(path))]
    if launch.embeds_cluster:
        check_manifests(manifests)
    return partial(apply, manifests)


def check_not_interrupted(launch: Launch) -> None:
    """Raise Interrupted after a signal."""
    if launch.stopping.is_set():
        raise Interrupted


def welcome_of(
    launch: Launch,
    local: LocalCluster | None,
    connection: ClusterConnection,
    applied: list[str],
    *,
    console: str,
) -> Welcome:
    """Return the greeting to show. applied: names of the objects that were applied. console: see greeting."""
    return Welcome(
        greeting_of(launch, local, connection.server, applied, console=console),
        nodes=launch.options.embedded.hollow_nodes if local is not None else 0,
        ask=partial(connection.transport.request, client=OWN_CLIENT, timeout=5.0),
        say=launch.line.say if local is not None or launch.quiet else lambda _: None,
    )


def greeting_of(launch: Launch, local: LocalCluster | None, server: str, applied: list[str], *, console: str) -> str:
    embedded = launch.options.embedded
    if local is None:
        return f"Working on {server}. Press Ctrl-C to stop."
    return greeting(
        url=local.server.url,
        kubeconfig=local.server.kubeconfig,
        nodes=embedded.hollow_nodes,
        zones=embedded.hollow_zones,
        applied=applied,
        is_kept=not embedded.in_memory,
        console=console,
    )


def work(
    system: ControllerSystem,
    launch: Launch,
    local: LocalCluster | None,
    welcome: Welcome,
    start: StartState | None,
    *,
    ready: Callable[[], None],
) -> int:
    """Run the system until it ends, a signal arrives, or the embedded cluster has failed.

    ready: called once the system may write and its tables are filled.
    """
    log = launch.log
    listed = leads = False
    garbage, cold = RareGarbage(launch.clock.monotonic()), None
    with ending_within(LAST_RESORT, system.wait, code=1):
        system.start()
        while system.wait(timeout=CHECK_EVERY) is None:
            now = launch.clock.monotonic()
            if not listed and system.synced:
                from kcm.runtime.tables.cold_entries import ColdEntries  # the start does not need it

                listed, cold = True, ColdEntries(now, log)
                give_back_freed()
            garbage.look(system.actors.fenced, now)
            if cold is not None:
                cold.look(system.tables, now)
            standby = standing_by_of(system, now=now)
            if listed and not leads and not standby:
                leads = True
                ready()
            if local is not None:
                local.look(now=now, log=log)
            waiting = welcome.look(now)
            if start is not None:
                missing = waiting or standby or ("" if leads else "controllers have not started")
                start.set(missing, is_ready=not missing)
            # A standby is ready too: it has started, and waits for its turn.
            launch.service.update(
                standby or f"runs {len(system.enabled)} controllers", is_ready=listed or bool(standby)
            )
            if launch.line.live:
                notices = [standby]
                if local is not None:
                    notices.append(local.notice())
                nodes = node_summary(system.tables)
                launch.line.show(" · ".join(filter(None, (*notices, nodes or waiting, summary(system.tables)))))
            if launch.stopping.is_set():
                log.info("Requested to terminate. Exiting.", signal=launch.stopping.signal)
                launch.service.stopping("waiting for writes in flight")
                launch.line.show("shutting down: waiting for writes in flight …")
                drained = system.stop(timeout=system.options.generic.controller_shutdown_timeout + 5.0)
                return 0 if drained else 1
            trouble = local.trouble() if local is not None else None
            if trouble is not None:
                system.halt()
                raise StartError(trouble)
    launch.failed.set()
    log.error(system.end or "ended")
    system.halt()
    return 1
