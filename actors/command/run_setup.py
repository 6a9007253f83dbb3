"""Parts of a run, created from its flags: the embedded cluster, fault plan, journal, pages and system."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from kcm.actors.app.local_cluster import LocalCluster, start_local_cluster
from kcm.actors.app.system import ControllerSystem
from kcm.actors.command.embedded_directory import directory_of
from kcm.actors.command.greeting import LiveLine
from kcm.actors.command.program import ControllerProgram
from kcm.actors.command.server_settings import server_settings
from kcm.actors.controllers.apimachinery import garbage_collector, namespace
from kcm.actors.controllers.devices import resource_claim
from kcm.actors.controllers.devices.device_taint_eviction.spec import watched_rules
from kcm.actors.controllers.devices.resource_claim.spec import GROUPS_GATE
from kcm.actors.controllers.identity.options import ServiceAccountOptions
from kcm.actors.controllers.nodes.node_ipam.options import NodeIpamOptions
from kcm.actors.controllers.storage import persistentvolume_binder
from kcm.actors.engine.elector import Candidacy, Election, Migration
from kcm.actors.options import Options
from kcm.actors.options.validation import allow_list_fault
from kcm.actors.options.versions import BINARY
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.admission_plugins import without_controllers
from kcm.protocols.resources import GATES, POD_GROUPS, STABLE_TAINT_RULES, Resource
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.calls.threads import ThreadedCalls
from kcm.runtime.client.api import Transport
from kcm.runtime.client.connection_settings import is_in_cluster
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.cloud.provider import CloudProvider
from kcm.runtime.logs.configuration import LogControl
from kcm.runtime.metrics.families import JOURNAL_WRITING
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.files import DirectoryInUseError, UnsafeDirectoryError, refuse_foreign
from kcm.runtime.process.predecessors import succeed
from kcm.runtime.process.service_manager import ServiceManager
from kcm.runtime.process.termination import Ending
from kcm.runtime.process.version import KUBERNETES, Version, this_version
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.system.journal import JournalWriter, RecordedRun, check_place

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer
    from structlog.typing import FilteringBoundLogger

    from kcm.actors.app.delegation import LateReviews
    from kcm.actors.command.console import RunConsole
    from kcm.actors.engine.elector.groups import ControllerGroups
    from kcm.actors.engine.webhooks.settings import WebhookServing
    from kcm.actors.faults.live import LiveFaults
    from kcm.runtime.faults.plan_file import FaultPlan
    from kcm.runtime.serving.debug_pages import DebugPages
from kcm.runtime.serving.health import HealthChecks

ORPHANED = 10.0  # seconds that an API server may take to end after its manager was killed


class StartError(Exception):
    """The command cannot start. The text is one line for the operator."""


class Interrupted(Exception):
    """A signal arrived before the work began."""


MUTATION_DETECTOR = "KUBE_CACHE_MUTATION_DETECTOR"  # environment variable of client-go
TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})  # as Go reads booleans


def is_true(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "") in TRUE


class Launch(Struct, frozen=True, kw_only=True):
    """Values that the parts of a run need."""

    arguments: tuple[str, ...]
    options: Options
    clock: SystemClock
    environ: Mapping[str, str]
    control: LogControl
    log: FilteringBoundLogger
    stopping: Ending
    program: ControllerProgram
    # Holder identity in the Lease.
    identity: str
    # Whether info lines are hidden, on a terminal.
    quiet: bool
    line: LiveLine
    service: ServiceManager
    # Set when the system has ended by itself: nothing is written any more, and the process must not stay.
    failed: Ending = field(default_factory=Ending)
    # Identities of processes that are proven to have ended.
    ended: list[str] = field(default_factory=list)

    @property
    def embeds_cluster(self) -> bool:
        return self.options.embeds_cluster and not is_in_cluster(self.environ)


def local_cluster(launch: Launch, closing: ExitStack) -> LocalCluster | None:
    """Start the embedded cluster, unless another cluster is given. It is stopped last."""
    options = launch.options
    if not launch.embeds_cluster:
        if options.embedded.apply:
            raise StartError(
                "--apply requires the embedded cluster: omit --kubeconfig and --master, or use kubectl apply"
            )
        return None
    embedded = options.embedded
    directory = directory_of(embedded, given=options.given, closing=closing)
    launch.line.show(f"starting an API server in {directory}")
    try:
        if directory.is_dir():
            refuse_foreign(directory)  # before any file in it is opened
        launch.ended.extend(closing.enter_context(succeed(directory, launch.identity)))
    except DirectoryInUseError as err:
        raise StartError(
            f"{err}: use another --embedded-dir, or join that cluster with --kubeconfig={directory / 'kubeconfig'}"
        ) from err
    except UnsafeDirectoryError as err:
        raise StartError(str(err)) from err
    except OSError as err:
        raise StartError(f"cannot use {directory}: {err.strerror or err}") from err
    enabled = embedded.enable_plugins
    missing = without_controllers(lambda needed: launch.program.runs(needed, options), enable=enabled)
    ranges = options[NodeIpamOptions].service_cluster_ip_range.split(",")
    settings = replace(
        server_settings(embedded, directory),
        log_format=options.logging.format,
        quiet=launch.quiet,
        patience=ORPHANED,
        collect_garbage=not launch.program.runs(garbage_collector.SPEC.name, options),
        empty_namespaces=not launch.program.runs(namespace.SPEC.name, options),
        service_ranges=tuple(cidr.strip() for cidr in ranges if cidr.strip()),
        gates=tuple(gate for gate in GATES if options.feature_gates[gate]),
        emulated_version="" if options.versions.emulation == BINARY else str(options.versions.emulation),
        account_key_file=options[ServiceAccountOptions].private_key_file,
        disable_plugins=tuple(sorted({*embedded.disable_plugins, *missing})),
    )
    local = start_local_cluster(
        settings,
        nodes=embedded.hollow_nodes,
        zones=embedded.hollow_zones,
        volumes=launch.program.runs(persistentvolume_binder.SPEC.name, options),
        attach=launch.program.runs(ATTACH_DETACH, options),
        devices=launch.program.runs(resource_claim.SPEC.name, options),
        taint_rules=_served_rules(options, embedded.runtime_config),
        groups=options.feature_gates[GROUPS_GATE] and _serves(embedded.runtime_config, POD_GROUPS, "api/alpha"),
    )
    closing.callback(local.stop)
    return local


def _served_rules(options: Options, runtime_config: Iterable[str]) -> str:
    """Return the version of DeviceTaintRules that the embedded server serves; "" if there are none or they are off."""
    rules = watched_rules(options)
    if rules is None or rules == STABLE_TAINT_RULES:
        return "" if rules is None else rules.version
    return rules.version if _serves(runtime_config, rules, "api/beta") else ""


def _serves(runtime_config: Iterable[str], resource: Resource, level: str) -> bool:
    """Report whether --embedded-runtime-config enables a resource. level: "api/alpha" or "api/beta"."""
    version = f"{resource.group}/{resource.version}"
    serving = {"api/all", level, version, f"{version}/{resource.plural}"}
    names = (entry.partition("=") for entry in runtime_config)
    return any(name in serving and value != "false" for name, _, value in names)


ATTACH_DETACH = "persistentvolume-attach-detach-controller"


def new_metrics(options: Options) -> Metrics:
    """Return the registry of metrics, with the limits of the flags. Raises StartError for an unusable manifest."""
    chosen = options.metrics
    pairs = chosen.allow_metric_labels
    if chosen.allow_metric_labels_manifest:
        pairs = _read_allow_list(Path(chosen.allow_metric_labels_manifest))
    allowed: dict[tuple[str, str], frozenset[str]] = {}
    for key, values in pairs:
        name, _, label = key.partition(",")
        allowed[name, label] = frozenset(values.split(","))
    return Metrics(disabled=chosen.disabled_metrics, allowed_labels=allowed)


def _read_allow_list(path: Path) -> tuple[tuple[str, str], ...]:
    """Read the file of --allow-metric-labels-manifest. Raises StartError."""
    import yaml  # few runs need it

    what = f'metrics.allowListMappingManifest: Invalid value: "{path}"'
    try:
        found = yaml.safe_load(path.read_bytes()) or {}
    except OSError as err:
        raise StartError(f"{what}: failed to read allow list manifest: {err.strerror}") from err
    except yaml.YAMLError as err:
        raise StartError(f"{what}: failed to parse allow list manifest: {err}") from err
    if not isinstance(found, dict) or not all(isinstance(text, str) for pair in found.items() for text in pair):
        raise StartError(f"{what}: failed to parse allow list manifest: not a map of strings to strings")
    if fault := allow_list_fault(found):
        raise StartError(f"{what}: invalid allow list mapping in manifest: {fault}")
    return tuple(found.items())


class ServedPages(NamedTuple):
    """Pages that are served.

    late: lets the embedded API server review requests; None without it.
    console: shows nothing yet; None if flags disable it.
    """

    urls: tuple[str, ...]
    late: LateReviews | None
    console: RunConsole | None


def serve_pages(
    launch: Launch,
    closing: ExitStack,
    *,
    health: HealthChecks,
    debug: DebugPages,
    metrics: Metrics,
    version: Version,
    descriptors: int,
) -> ServedPages | None:
    """Serve health, metrics and debug pages and the console, if flags enable them. Raises StartError.

    descriptors: limit of this process.
    """
    options = launch.options
    if not options.secure_serving.port and options.plain_http is None:
        return None
    from kcm.actors.app.delegation import delegate
    from kcm.actors.app.serving import build_server  # heavy: a web server, certificates
    from kcm.runtime.serving.cluster_authentication import LookupFailedError
    from kcm.runtime.serving.server import ServingError
    from kcm.runtime.serving.tls_names import TlsError

    console = None
    if options.diagnosis.console and options.secure_serving.port:
        from kcm.actors.command.console import open_console  # nothing of it is loaded if flags disable it

        console = open_console(has_link=launch.embeds_cluster, log=launch.log)
    try:
        delegation = delegate(
            options,
            closing,
            environ=launch.environ,
            clock=launch.clock,
            metrics=metrics,
            log=launch.log,
            wait=launch.stopping.wait,
            embeds_cluster=launch.embeds_cluster,
        )
        server = build_server(
            options,
            delegation=delegation,
            health=health,
            debug=debug,
            metrics=metrics,
            set_verbosity=launch.control.set_verbosity,
            version=version,
            clock=launch.clock,
            log=launch.log,
            descriptors=descriptors,
            embeds_cluster=launch.embeds_cluster,
            console=console.console if console is not None else None,
            key=console.key if console is not None else None,
        )
        if server is None:
            return None
        server.start()
        closing.callback(server.stop)
        if console is not None:
            console.serve_at(server.urls[-1])
            closing.callback(console.console.close)
        return ServedPages(server.urls, delegation.late, console)
    except (LookupFailedError, ServingError, TlsError) as err:
        raise StartError(str(err)) from err


def fault_plan(launch: Launch) -> FaultPlan | None:
    """Read the fault plan. Raises StartError if it is malformed, or the cluster is not the embedded one."""
    chosen = launch.options.diagnosis
    if not chosen.fault_plan:
        return None
    if not launch.embeds_cluster and not chosen.fault_plan_on_any_cluster:
        raise StartError(
            "--fault-plan requires the embedded cluster: omit --kubeconfig and --master, "
            "or allow faults on this cluster with --fault-plan-on-any-cluster"
        )
    from kcm.runtime.faults.plan_file import PlanError, read_plan  # few runs have one

    try:
        return read_plan(Path(chosen.fault_plan))
    except PlanError as err:
        raise StartError(str(err)) from err


def open_tracer(launch: Launch, closing: ExitStack) -> Tracer | None:
    """Open the tracer; None without --tracing-config-file. Raises StartError."""
    file = launch.options.traces.config_file
    if not file:
        return None
    from kcm.runtime.tracing.configuration import TracingError, read_tracing_configuration  # few runs have traces
    from kcm.runtime.tracing.provider import OpenTracer

    try:
        configuration = read_tracing_configuration(Path(file))
        opened = OpenTracer(
            configuration,
            service=launch.program.component,
            instance=launch.identity,
            version=this_version().kcm,
            log=launch.log,
        )
    except TracingError as err:
        raise StartError(str(err)) from err
    closing.callback(opened.close)
    return opened.tracer


def check_journal(options: Options) -> None:
    """Check before the start that --journal can be written and replaces no other file. Raises JournalError."""
    chosen = options.diagnosis
    if chosen.journal:
        check_place(Path(chosen.journal), files=chosen.journal_files)


def build_system(
    launch: Launch,
    closing: ExitStack,
    *,
    transport: Transport | None = None,
    transports: Mapping[str, HttpTransport] | None = None,
    metrics: Metrics,
    cloud: CloudProvider | None,
    plan: FaultPlan | None,
    migration: Migration | None,
    authority: bytes = b"",
    tracer: Tracer | None = None,
) -> ControllerSystem:
    """Build the system, with journal and faults if flags request them.

    transports: by cluster, in place of `transport`, for a program with several; it has no plan of faults.
    authority: see ControllerContext.

    Raises StartError if a controller cannot start.
    """
    options, log = launch.options, launch.log
    controllers = launch.program.controllers
    seed = random.getrandbits(32)
    faults: LiveFaults | None = None
    calls: Calls = ThreadedCalls(clock=launch.clock)
    if plan is not None and transport is not None:
        from kcm.actors.faults.live import LiveFaults

        lease = (options.leader_election.resource_namespace, options.leader_election.resource_name)
        faults = LiveFaults(plan, transport=transport, clock=launch.clock, lease=lease, log=log)
        calls = faults.way_out(calls)
    system = ControllerSystem(
        transport=faults.transport if faults is not None else transport,
        transports=transports,
        log=log,
        controllers=controllers,
        options=options,
        election=_elections(launch, migration, [spec.home_cluster for spec in controllers] if transports else []),
        clock=faults.clock if faults is not None else launch.clock,
        metrics=metrics,
        cloud=cloud,
        calls=calls,
        spawner=faults.spawner if faults is not None else None,
        seed=seed,
        journal=_journal(launch, closing, controllers, seed, metrics),
        authority=authority,
        program=launch.program.component,
        tracer=tracer,
        cache_mutation_detector=options.generic.cache_mutation_detector or is_true(launch.environ, MUTATION_DETECTOR),
        webhooks=_webhook_serving(launch),
    )
    trouble = next(system.trouble_at_start(), None)
    if trouble is not None:
        system.halt()
        raise StartError(trouble)
    if faults is not None:
        system.actors.gates.append(faults.gate)
        system.actors.beginnings.append(faults.beginning)
        closing.callback(faults.stop)
        faults.begin()
    return system


def _webhook_serving(launch: Launch) -> WebhookServing | None:
    """Return how webhooks are served, or None. Raises StartError for invalid names."""
    if not any(spec.admission or spec.conversion for spec in launch.program.controllers):
        return None
    from kcm.actors.engine.webhooks.flags import webhook_serving  # few programs have webhooks

    try:
        return webhook_serving(
            launch.options,
            name=launch.program.name,
            in_cluster=is_in_cluster(launch.environ),
            embeds_cluster=launch.embeds_cluster,
        )
    except (TypeError, ValueError) as err:
        raise StartError(str(err)) from err


def _journal(
    launch: Launch, closing: ExitStack, controllers: Sequence[ControllerSpec], seed: int, metrics: Metrics
) -> JournalWriter | None:
    """Open the journal; None without --journal. Raises JournalError."""
    chosen, log = launch.options.diagnosis, launch.log
    if not chosen.journal:
        return None
    writing = metrics.gauge(JOURNAL_WRITING)

    def ended(why: str) -> None:
        writing.set(0)
        log.error("journal is incomplete, continuing without it", error=why)

    journal = JournalWriter(
        Path(chosen.journal),
        run=RecordedRun(
            version=this_version().kcm,
            seed=seed,
            arguments=launch.arguments,
            controllers=[spec.name for spec in controllers],
        ),
        clock=launch.clock,
        largest=chosen.journal_file_size * 1_000_000,
        files=chosen.journal_files,
        ended=ended,
    )
    writing.set(1)
    closing.callback(journal.close)
    log.info("recording all messages, with the objects that they contain", file=chosen.journal)
    return journal


def candidacy_of(options: Options) -> Candidacy | None:
    """Return the versions for coordinated leader election; None if its feature gate is disabled."""
    if not options.feature_gates["CoordinatedLeaderElection"]:
        return None
    return Candidacy(binary_version=KUBERNETES, emulation_version=f"{options.versions.emulation}.0")


def leader_migration(launch: Launch) -> Migration | None:
    """Return the configuration of leader migration, or None. Raises StartError if its file is invalid."""
    if not launch.options.leader_migration.enabled:
        return None
    from kcm.actors.app.leader_migration import MigrationError, read_migration  # few managers migrate

    try:
        return read_migration(launch.options)
    except MigrationError as err:
        raise StartError(str(err)) from err


def _groups(launch: Launch) -> ControllerGroups | None:
    """Return the groups of --leader-elect-groups, or None. Raises StartError if its file is invalid."""
    if not launch.options.leader_election.groups:
        return None
    from kcm.actors.app.controller_groups import GroupsError, read_groups  # few managers have groups

    try:
        return read_groups(launch.options, launch.program.controllers)
    except GroupsError as err:
        raise StartError(str(err)) from err


def _elections(
    launch: Launch, migration: Migration | None, homes: Iterable[str]
) -> Election | dict[str, Election] | None:
    """Return the settings of leader election; None without. Raises StartError.

    homes: clusters with a Lease, if the program works on several.
    """
    election = _election(launch, migration)
    return dict.fromkeys(homes, election) or election if election is not None else None


def _election(launch: Launch, migration: Migration | None) -> Election | None:
    """Return the settings of leader election, or None. Raises StartError if its durations are invalid."""
    chosen = launch.options.leader_election
    if not chosen.enabled:
        return None
    try:
        return Election(
            identity=launch.identity,
            ended=frozenset(launch.ended),
            lease_duration=chosen.lease_duration,
            renew_deadline=chosen.renew_deadline,
            retry_period=chosen.retry_period,
            namespace=chosen.resource_namespace,
            name=chosen.resource_name,
            component=launch.program.component,
            migration=migration,
            candidacy=candidacy_of(launch.options),
            groups=_groups(launch),
            stand_by=chosen.on_loss == "standby",
        )
    except ValueError as err:
        raise StartError(str(err)) from err
