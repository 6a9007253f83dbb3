"""Validation of general options, with the error texts of kube-controller-manager where they exist.

Texts: KubeControllerManagerOptions.Validate and what it calls, Kubernetes 1.36. A controller's own checks are in its
spec (ControllerSpec.checks).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from kcm.actors.options.embedded import EmbeddedServerOptions
from kcm.actors.options.general import ON_LOSS, Logging
from kcm.actors.options.known_controllers import Check
from kcm.actors.options.table import Options
from kcm.protocols.addresses import is_address
from kcm.protocols.admission_plugins import enabled_plugins
from kcm.runtime.cloud.providers import is_known
from kcm.runtime.flags.values import format_duration, quote
from kcm.runtime.process.version import KUBERNETES

TLS_VERSIONS = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
LARGEST_PORT = 65535
METRIC_NAME, LABEL_NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*", "[a-zA-Z_][a-zA-Z0-9_]*"


def faults(options: Options, checks: Iterable[Check]) -> list[str]:
    """Return the errors, each once; empty if the options are valid. checks: validation of single controllers.

    As upstream, errors of the log flags hide the others.
    """
    in_logging = list(logging_faults(options.logging, alpha=options.feature_gates["LoggingAlphaOptions"]))
    if in_logging:
        return in_logging
    found = [
        *_leader_election(options),
        *_cloud(options),
        *(fault for check in checks for fault in check(options)),
        *_serving(options),
        *_metrics(options),
        *_own(options),
    ]
    return list(dict.fromkeys(found))


def unknown_controllers(items: Iterable[str], known: Collection[str]) -> list[str]:
    """Return an error for each unknown controller. "-*" is unknown, as upstream.

    items: the value of --controllers, with aliases resolved.
    """
    return [
        f"{quote(name)} is not in the list of known controllers"
        for name in (item.removeprefix("-") for item in items if item != "*")
        if name not in known
    ]


def _leader_election(options: Options) -> Iterator[str]:
    # Upstream's elector panics on these relations; here they are faults like any other.
    elect = options.leader_election
    if elect.groups:
        if not elect.enabled:
            yield "--leader-elect-groups requires --leader-elect"
        if options.leader_migration.enabled:
            yield "--leader-elect-groups and --enable-leader-migration exclude each other"
        if options.feature_gates["CoordinatedLeaderElection"]:
            yield "--leader-elect-groups and --feature-gates=CoordinatedLeaderElection=true exclude each other"
    if not elect.enabled:
        return
    if elect.resource_lock != "leases":
        yield 'resourceLock value must be "leases"'
    if elect.on_loss not in ON_LOSS:
        yield f"--leader-elect-on-loss is 'exit' or 'standby', but got {quote(elect.on_loss)}"
    if min(elect.lease_duration, elect.renew_deadline, elect.retry_period) <= 0:
        yield "leaseDuration, renewDeadline and retryPeriod must be greater than zero"
        return
    if elect.lease_duration <= elect.renew_deadline:
        yield "leaseDuration must be greater than renewDeadline"
    if elect.renew_deadline <= 1.2 * elect.retry_period:
        yield "renewDeadline must be greater than retryPeriod*JitterFactor"


def _cloud(options: Options) -> Iterator[str]:
    provider = options.cloud.cloud_provider
    if not is_known(provider):
        yield (
            f"cloud provider {quote(provider)} was specified, but built-in cloud providers are disabled. "
            "Please set --cloud-provider=external and migrate to an external cloud provider"
        )
    allocator = options.cloud.cidr_allocator_type
    if allocator != "RangeAllocator":
        yield f"built-in cloud providers are disabled. The ipam {allocator} is not available"


def _serving(options: Options) -> Iterator[str]:
    serving, plain = options.secure_serving, options.plain_serving
    if serving.port > LARGEST_PORT:
        yield f"--secure-port {serving.port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
    if serving.port < 0:
        yield f"--secure-port {serving.port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
    if not 0 <= plain.port <= LARGEST_PORT:
        yield f"--port {plain.port} must be between 0 and 65535, inclusive. 0 for turning off insecure (HTTP) port"
    for name, address in (("bind-address", serving.bind_address), ("address", plain.address)):
        if not is_address(address):
            yield f"--{name} must be an IP address, but got {quote(address)}"
    if bool(serving.tls_cert_file) != bool(serving.tls_private_key_file):
        yield "--tls-cert-file and --tls-private-key-file must be given together"
    if serving.tls_min_version not in {"", *TLS_VERSIONS}:
        yield f"unknown tls version {quote(serving.tls_min_version)}"
    authentication = options.authentication
    if authentication.requestheader_client_ca_file and not authentication.requestheader_username_headers:
        yield "--requestheader-client-ca-file needs --requestheader-username-headers"


def _metrics(options: Options) -> Iterator[str]:
    chosen = options.metrics
    major, minor, *_ = KUBERNETES.split(".")
    previous = f"{major}.{int(minor) - 1}"
    if chosen.show_hidden_metrics_for_version not in ("", previous):
        yield (
            f"metrics.showHiddenMetricsForVersion: Invalid value: {quote(chosen.show_hidden_metrics_for_version)}: "
            f"must be omitted or have the value '{previous}'; only the previous minor version is allowed"
        )
    for name in chosen.disabled_metrics:
        if not re.fullmatch(METRIC_NAME, name):
            yield (
                f"metrics.disabledMetrics: Invalid value: {_json(chosen.disabled_metrics)}: must be fully qualified "
                f"metric names matching {quote(f'^{METRIC_NAME}$')}, got {quote(name)}"
            )
            break
    if fault := allow_list_fault(dict(chosen.allow_metric_labels)):
        yield f"metrics.allowListMapping: {fault}"
    if chosen.allow_metric_labels and chosen.allow_metric_labels_manifest:
        both = {
            "allowListMapping": dict(chosen.allow_metric_labels),
            "allowListMappingManifest": chosen.allow_metric_labels_manifest,
        }
        yield (
            f"metrics: Invalid value: {_json(both)}: cannot specify both allowListMapping and allowListMappingManifest"
        )


def allow_list_fault(values: Mapping[str, str]) -> str:
    """Return the error of an allow list of label values; "" if it is valid. values: by metric and label."""
    if all(re.fullmatch(f"{METRIC_NAME},{LABEL_NAME}", key) for key in values):
        return ""
    return (
        f"Invalid value: {_json(values)}: must have keys with format `metricName,labelName` where metricName matches "
        f"{quote(METRIC_NAME)} and labelName matches {quote(LABEL_NAME)}"
    )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def logging_faults(logging: Logging, *, alpha: bool) -> Iterator[str]:
    """Yield the errors of the log flags. alpha: whether the feature gate LoggingAlphaOptions is enabled.

    Source: kubernetes v1.36 staging/src/k8s.io/component-base/logs/api/v1/options.go, Validate.
    """
    if logging.log_flush_frequency <= 0:
        frequency = quote(format_duration(logging.log_flush_frequency))
        yield f"flushFrequency: Invalid value: {frequency}: Must be greater than zero"
    if logging.format not in {"text", "json"}:
        yield f"format: Invalid value: {quote(logging.format)}: Unsupported log format"
    if logging.format != "text" and logging.vmodule:
        yield "vmodule: Forbidden: Only supported for text log format"
    if alpha:
        return
    for path, is_set in (
        ("text.splitStream", logging.log_text_split_stream),
        ("text.infoBufferSize", logging.log_text_info_buffer_size != "0"),
        ("json.splitStream", logging.log_json_split_stream),
        ("json.infoBufferSize", logging.log_json_info_buffer_size != "0"),
    ):
        if is_set:
            yield f"options.{path}: Forbidden: Feature LoggingAlphaOptions is disabled"


def embedded_server_faults(server: EmbeddedServerOptions) -> Iterator[str]:
    if not 0 <= server.port <= LARGEST_PORT:
        yield f"--embedded-port {server.port} must be between 0 and 65535, inclusive. 0 for a free one"
    if server.durability not in ("full", "relaxed"):
        yield f"--embedded-durability is 'full' or 'relaxed', but got {quote(server.durability)}"
    if server.authorization not in ("rbac", "always-allow"):
        yield f"--embedded-authorization is 'rbac' or 'always-allow', but got {quote(server.authorization)}"
    try:
        enabled_plugins(enable=server.enable_plugins, disable=server.disable_plugins)
    except ValueError as err:
        yield f"--embedded-enable-admission-plugins, --embedded-disable-admission-plugins: {err}"


def _own(options: Options) -> Iterator[str]:
    embedded = options.embedded
    for file in embedded.apply:
        if not file or "://" in file:
            yield f"--apply takes the path of a file, but got {quote(file)}"
    yield from embedded_server_faults(embedded)
    if embedded.hollow_nodes < 0:
        yield f"--hollow-nodes must not be less than 0, but got {embedded.hollow_nodes}"
    if embedded.hollow_zones < 1:
        yield f"--hollow-zones must be greater than 0, but got {embedded.hollow_zones}"
    if options.diagnosis.journal_file_size < 1:
        yield f"--journal-file-size must be greater than 0, but got {options.diagnosis.journal_file_size}"
    if options.diagnosis.journal_files < 1:
        yield f"--journal-files must be greater than 0, but got {options.diagnosis.journal_files}"
    if options.generic.actor_hang_timeout < 1:
        yield "--actor-hang-timeout must not be less than 1s"
    if options.generic.watch_silence_limit <= 0:
        yield "--watch-silence-limit must be greater than zero"
    if options.generic.reconcile_timeout < 0:
        yield "--reconcile-timeout must not be negative"
    yield from _storm_brake(options)
    yield from _health(options)


def _storm_brake(options: Options) -> Iterator[str]:
    brake = options.storm_brake
    if brake.limit < 0:
        yield f"--storm-brake-limit must not be negative, but got {brake.limit}"
    if brake.window <= 0:
        yield "--storm-brake-window must be greater than zero"
    if brake.qps < 0:
        yield f"--storm-brake-qps must not be negative, but got {brake.qps:g}"


def _health(options: Options) -> Iterator[str]:
    health = options.health
    for condition in ("stuck", "starved", "failing", "deaf"):
        if getattr(health, f"{condition}_after") < 0:
            yield f"--health-{condition}-after must not be negative"
    if health.failing_syncs < 1:
        yield f"--health-failing-syncs must be greater than 0, but got {health.failing_syncs}"
    if 0 < health.deaf_after <= options.generic.watch_silence_limit:
        yield "--health-deaf-after must be greater than --watch-silence-limit, or 0"
