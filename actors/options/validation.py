"""What is wrong with a set of options, in kube-controller-manager's words where it has any.

Order and texts: KubeControllerManagerOptions.Validate and what it calls, Kubernetes 1.36.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator, Mapping

from actors.options.infrastructure import CertificateSigning
from actors.options.node_ranges import cluster_ranges, node_ranges
from actors.options.table import Options
from actors.reconciliation.controller_names import is_enabled
from runtime.cloud.loading import has_provider, is_known
from runtime.flags.values import quote

TLS_VERSIONS = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
LARGEST_PORT = 65535
NODE_IPAM = "node-ipam-controller"


def validate(options: Options, *, known_controllers: Collection[str], aliases: Mapping[str, str]) -> list[str]:
    """Every fault, one line each; empty when all is well. aliases: other name → canonical name."""
    return [
        *_unknown_controllers(options.generic.controllers, known_controllers, aliases),
        *_leader_election(options),
        *_cloud(options),
        *_attach_detach(options),
        *_certificate_signing(options.certificate_signing),
        *_workers(options),
        *_endpoints(options),
        *_service_range(options),
        *(list(_node_ranges(options)) or _routed_ranges(options)),
        *_serving(options),
        *_logging(options),
        *_own(options),
    ]


def _unknown_controllers(
    items: Collection[str], known_controllers: Collection[str], aliases: Mapping[str, str]
) -> Iterator[str]:
    for item in items:
        name = item.removeprefix("-")
        if item != "*" and aliases.get(name, name) not in known_controllers:
            yield f"{quote(item)} is not in the list of known controllers"


def _leader_election(options: Options) -> Iterator[str]:
    # Upstream's elector panics on these relations; here they are told like any other fault.
    elect = options.leader_election
    if not elect.enabled:
        if options.leader_migration.enabled:
            yield "--enable-leader-migration requires --leader-elect"
        return
    if elect.resource_lock != "leases":
        yield 'resourceLock value must be "leases"'
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


def _attach_detach(options: Options) -> Iterator[str]:
    attach = options.attach_detach
    if not attach.disable_reconcile_sync and attach.reconcile_sync_period < 1:
        yield "duration time must be greater than one second as set via command line option reconcile-sync-loop-period"


def _certificate_signing(signing: CertificateSigning) -> Iterator[str]:
    # The names in quotes are upstream's, though two of them are not those of the flags.
    signers = {
        "cluster-signing-kubelet-serving": (signing.kubelet_serving_cert_file, signing.kubelet_serving_key_file),
        "cluster-signing-kube-apiserver-client": (signing.kubelet_client_cert_file, signing.kubelet_client_key_file),
        "cluster-signing-kube-apiserver": (
            signing.kube_apiserver_client_cert_file,
            signing.kube_apiserver_client_key_file,
        ),
        "cluster-signing-legacy-unknown": (signing.legacy_unknown_cert_file, signing.legacy_unknown_key_file),
    }
    for name, (cert_file, key_file) in signers.items():
        if key_file and not cert_file:
            yield f"{quote(name)}: cannot specify key without cert"
        if cert_file and not key_file:
            yield f"{quote(name)}: cannot specify cert without key"
    if (signing.cert_file or signing.key_file) and any(cert or key for cert, key in signers.values()):
        yield (
            "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time"
        )


def _workers(options: Options) -> Iterator[str]:
    """Only these are checked: with 0 workers any other controller does nothing, as upstream."""
    for name, workers in (
        ("concurrent-daemonset-syncs", options.daemon_set.concurrent_syncs),
        ("concurrent-statefulset-syncs", options.stateful_set.concurrent_syncs),
        ("concurrent-ephemeralvolume-syncs", options.ephemeral_volume.concurrent_syncs),
        ("concurrent-horizontal-pod-autoscaler-syncs", options.horizontal_pod_autoscaler.concurrent_syncs),
        ("concurrent-job-syncs", options.job.concurrent_syncs),
        ("concurrent-cron-job-syncs", options.cron_job.concurrent_syncs),
    ):
        if workers < 1:
            yield f"{name} must be greater than 0, but got {workers}"
    if options.device_taint_eviction.concurrent_syncs < 1:
        workers = options.device_taint_eviction.concurrent_syncs
        yield f"concurrent-device-taint-eviction-syncs must be greater than zero, got {workers}"
    if options.resource_claim.concurrent_syncs < 1:
        yield f"concurrent-resourceclaim-syncs must be larger than 0, got {options.resource_claim.concurrent_syncs}"


def _endpoints(options: Options) -> Iterator[str]:
    slices, mirroring = options.endpoint_slice, options.endpoint_slice_mirroring
    for name, value, largest in (
        ("concurrent-service-endpoint-syncs", slices.concurrent_syncs, 50),
        ("max-endpoints-per-slice", slices.max_endpoints, 1000),
        ("mirroring-concurrent-service-endpoint-syncs", mirroring.concurrent_syncs, 50),
        ("mirroring-max-endpoints-per-subset", mirroring.max_endpoints, 1000),
    ):
        if value < 1:
            yield f"{name} must not be less than 1, but got {value}"
        elif value > largest:
            yield f"{name} must not be more than {largest}, but got {value}"


def _service_range(options: Options) -> Iterator[str]:
    if len([one for one in options.node_ipam.service_cluster_ip_range.split(",") if one]) > 2:
        yield "--service-cluster-ip-range can not contain more than two entries"


def _node_ranges(options: Options) -> Iterator[str]:
    """Upstream finds these faults when it builds the controller, which ends it as well."""
    if options.cloud.allocate_node_cidrs and is_enabled(NODE_IPAM, options.generic.controllers, on_by_default=True):
        try:
            node_ranges(options.cloud, options.node_ipam)
        except ValueError as err:
            yield str(err)


def _routed_ranges(options: Options) -> Iterator[str]:
    """Without --cluster-cidr there is nothing to route; what is there has to be understood."""
    cloud = options.cloud
    if has_provider(cloud.cloud_provider) and cloud.configure_cloud_routes and cloud.cluster_cidr.strip():
        try:
            cluster_ranges(cloud.cluster_cidr)
        except ValueError as err:
            yield str(err)


def _serving(options: Options) -> Iterator[str]:
    serving, plain = options.secure_serving, options.plain_serving
    if not 0 <= serving.port <= LARGEST_PORT:
        yield f"--secure-port {serving.port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
    if not 0 <= plain.port <= LARGEST_PORT:
        yield f"--port {plain.port} must be between 0 and 65535, inclusive. 0 for turning off insecure (HTTP) port"
    for name, address in (("bind-address", serving.bind_address), ("address", plain.address)):
        if not _is_address(address):
            yield f"--{name} must be an IP address, but got {quote(address)}"
    if bool(serving.tls_cert_file) != bool(serving.tls_private_key_file):
        yield "--tls-cert-file and --tls-private-key-file must be given together"
    if serving.tls_min_version not in {"", *TLS_VERSIONS}:
        yield f"unknown tls version {quote(serving.tls_min_version)}"
    authentication = options.authentication
    if authentication.requestheader_client_ca_file and not authentication.requestheader_username_headers:
        yield "--requestheader-client-ca-file needs --requestheader-username-headers"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _logging(options: Options) -> Iterator[str]:
    logging = options.logging
    if logging.format not in {"text", "json"}:
        yield f"format: Invalid value: {quote(logging.format)}: Unsupported log format"
    elif logging.format == "json" and logging.vmodule:
        yield "vmodule: Forbidden: Only supported for text log format"


def _own(options: Options) -> Iterator[str]:
    embedded = options.embedded
    for file in embedded.apply:
        if not file or "://" in file:
            yield f"--apply takes the path of a file, but got {quote(file)}"
    if not 0 <= embedded.port <= LARGEST_PORT:
        yield f"--embedded-port {embedded.port} must be between 0 and 65535, inclusive. 0 for a free one"
    if embedded.hollow_nodes < 0:
        yield f"--hollow-nodes must not be less than 0, but got {embedded.hollow_nodes}"
    if embedded.hollow_zones < 1:
        yield f"--hollow-zones must be greater than 0, but got {embedded.hollow_zones}"
    if options.diagnosis.journal_file_size < 1:
        yield f"--journal-file-size must be greater than 0, but got {options.diagnosis.journal_file_size}"
    if options.diagnosis.journal_files < 1:
        yield f"--journal-files must be greater than 0, but got {options.diagnosis.journal_files}"
    if options.generic.watch_silence_limit <= 0:
        yield "--watch-silence-limit must be greater than zero"
