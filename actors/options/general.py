"""The flags that are no single controller's: the process, its clients, serving, logs, leader election, and our own.

Names, defaults and sections: cmd/kube-controller-manager/app/options/options.go and the option packages that it calls,
Kubernetes 1.36; flags that later releases took away are here with the meaning they had.
"""

from __future__ import annotations

import tempfile

from protocols.late_methods import dataclass
from runtime.flags.declaration import flag
from runtime.flags.values import (
    DURATION,
    FILES,
    FLOAT32,
    INT,
    INTEGERS,
    LEVEL,
    NAMED_PAIRS,
    PAIRS,
    VERSION,
    VMODULE,
)
from runtime.logs.settings import LogSettings

SERVED_BY_JSON = "kcm speaks JSON"
GONE_WITH_CLOUD_PROVIDERS = "cloud providers have no use for it"
GONE_WITH_KLOG = "Kubernetes 1.26 removed it"
GONE = "Kubernetes removed it"
NO_PATH_NEEDS_IT = "what is served depends on names and groups alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Debugging:
    profiling: bool = flag(True, "Serve profiles and stacks below /debug/pprof/.", config="enableProfiling")
    contention_profiling: bool = flag(
        False, "Profile blocking too, when --profiling.", config="enableContentionProfiling", pending=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderMigration:
    enabled: bool = flag(
        False, "Take part in handing controllers over to another manager.", name="enable-leader-migration"
    )
    config_file: str = flag("", "File that says which controllers move.", name="leader-migration-config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Generic:
    controllers: tuple[str, ...] = flag(
        ("*",),
        "Which controllers run: '*' all that are on by default, 'foo' the one named foo, '-foo' not that one; "
        "the first of 'foo' and '-foo' counts.",
        config="Controllers",
    )
    controller_start_interval: float = flag(
        0.0,
        "Pause before a controller starts: this, plus a random part of it.",
        kind=DURATION,
        config="ControllerStartInterval",
    )
    controller_shutdown_timeout: float = flag(
        10.0, "How long controllers may take to finish what they are at; 0 for ever.", kind=DURATION
    )
    min_resync_period: float = flag(
        43200.0,
        "Objects are handed to their controllers again after this, or up to twice as long.",
        kind=DURATION,
        config="MinResyncPeriod",
    )
    watch_silence_limit: float = flag(
        120.0, "A watch without an event or a bookmark for so long is cut and renewed.", kind=DURATION
    )
    actor_hang_timeout: float = flag(
        30.0,
        "An actor that does not respond for so long, as one whose reconciler waits for something, is replaced; the "
        "supervisor of all, after twice as long, ends the process.",
        kind=DURATION,
    )
    cache_mutation_detector: bool = flag(
        False,
        "Raise an error where a controller changes an object of the informer caches in place, which others read as "
        "well. Also set by KUBE_CACHE_MUTATION_DETECTOR=true in the environment. It costs memory and CPU.",
    )
    feature_gate_settings: tuple[tuple[str, str], ...] = flag(
        (),
        "Switch features on and off: Name=true or Name=false, with commas between.",
        kind=PAIRS,
        name="feature-gates",
    )
    emulated_version: tuple[str, ...] = flag((), "Behave as this release did, as kube=1.36.", pending=True)
    min_compatibility_version: tuple[str, ...] = flag(
        (), "The oldest release to stay compatible with, as kube=1.35.", pending=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    kubeconfig: str = flag("", "File that says how to reach the API server.", config="kubeconfig")
    master: str = flag("", "URL of the API server; goes before the one in --kubeconfig.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    qps: float = flag(
        20.0,
        "Requests a second that one controller may send; below 0: no limit; 0: 5, as client-go has it.",
        name="kube-api-qps",
        kind=FLOAT32,
        config="qps",
    )
    burst: int = flag(30, "Requests that one controller may send at once.", name="kube-api-burst", config="burst")
    content_type: str = flag(
        "application/vnd.kubernetes.protobuf",
        "Content type of requests.",
        name="kube-api-content-type",
        config="contentType",
        retired=SERVED_BY_JSON,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    enabled: bool = flag(
        True,
        "Lead before doing work, so that only one of several managers acts.",
        name="leader-elect",
        config="leaderElect",
    )
    lease_duration: float = flag(
        15.0,
        "How long others wait, after the last renewal that they saw, before they take over.",
        name="leader-elect-lease-duration",
        kind=DURATION,
        config="leaseDuration",
    )
    renew_deadline: float = flag(
        10.0,
        "How long the leader tries to renew before it gives up.",
        name="leader-elect-renew-deadline",
        kind=DURATION,
        config="renewDeadline",
    )
    retry_period: float = flag(
        2.0,
        "Pause between two tries to lead or to renew.",
        name="leader-elect-retry-period",
        kind=DURATION,
        config="retryPeriod",
    )
    resource_lock: str = flag(
        "leases", "Kind of the lock; only leases.", name="leader-elect-resource-lock", config="resourceLock"
    )
    resource_name: str = flag(
        "kube-controller-manager", "Name of the Lease.", name="leader-elect-resource-name", config="resourceName"
    )
    resource_namespace: str = flag(
        "kube-system", "Namespace of the Lease.", name="leader-elect-resource-namespace", config="resourceNamespace"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    use_service_account_credentials: bool = flag(
        False, "Let each controller act as a service account of its own.", config="UseServiceAccountCredentials"
    )
    allocate_node_cidrs: bool = flag(False, "Give each node a range of pod addresses.", config="AllocateNodeCIDRs")
    cidr_allocator_type: str = flag("RangeAllocator", "How ranges are chosen.", config="CIDRAllocatorType")
    cloud_config: str = flag("", "File for the cloud provider.", config="CloudProvider.CloudConfigFile")
    cloud_provider: str = flag(
        "",
        "The cloud that nodes and routes are in: nothing, 'external' (another program sees to it), 'fake' (one in "
        "memory) or what an installed package brings along.",
        config="CloudProvider.Name",
    )
    cluster_cidr: str = flag("", "Range of the cluster's pod addresses; two for dual-stack.", config="ClusterCIDR")
    cluster_name: str = flag("kubernetes", "Begins the names of cloud objects.", config="ClusterName")
    configure_cloud_routes: bool = flag(
        True, "Have the cloud route the ranges given to nodes.", config="ConfigureCloudRoutes"
    )
    external_cloud_volume_plugin: str = flag(
        "", "Plugin for volumes with --cloud-provider=external.", config="ExternalCloudVolumePlugin", pending=True
    )
    node_monitor_period: float = flag(
        5.0, "How often the state of nodes is looked at.", kind=DURATION, config="NodeMonitorPeriod"
    )
    route_reconciliation_period: float = flag(
        10.0, "How often cloud routes are looked at.", kind=DURATION, config="RouteReconciliationPeriod"
    )
    allow_untagged_cloud: bool = flag(
        False, "Run without cluster tags.", config="AllowUntaggedCloud", hidden=True, retired=GONE_WITH_CLOUD_PROVIDERS
    )
    node_sync_period: float = flag(
        0.0,
        "How often nodes are synced.",
        kind=DURATION,
        config="NodeSyncPeriod",
        hidden=True,
        retired=GONE_WITH_CLOUD_PROVIDERS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureServing:
    bind_address: str = flag("0.0.0.0", "Address to serve HTTPS on; with an embedded cluster 127.0.0.1, unless given.")
    port: int = flag(
        10257,
        "Port to serve HTTPS on; 0 for none. With an embedded cluster a free one where it is taken, unless given.",
        name="secure-port",
        kind=INT,
    )
    cert_dir: str = flag(
        "", "Where kube-controller-manager.crt and .key are kept; empty: a self-signed pair, in memory."
    )
    tls_cert_file: str = flag("", "File with the certificate to serve with, and its chain.")
    tls_private_key_file: str = flag("", "File with that certificate's key.")
    tls_min_version: str = flag("", "Oldest TLS version to talk: VersionTLS12 or VersionTLS13.")
    tls_sni_cert_key: tuple[tuple[str, str, tuple[str, ...]], ...] = flag(
        (),
        "A further certificate and its key, for clients that ask for one of these names ('*.' for one label), else "
        "for one of the certificate's own; may be repeated.",
        kind=NAMED_PAIRS,
    )
    tls_cipher_suites: tuple[str, ...] = flag(
        (), "Cipher suites to offer, by Go's names; those of TLS 1.3 are always offered."
    )
    tls_curve_preferences: tuple[int, ...] = flag(
        (), "Key exchanges to offer, by Go's numbers; before Python 3.15 a single one.", kind=INTEGERS
    )
    disable_http2_serving: bool = flag(False, "Do not talk HTTP/2.", retired="kcm serves HTTP/1.1 only")
    http2_max_streams_per_connection: int = flag(
        0, "Streams in one HTTP/2 connection.", kind=INT, retired="kcm serves HTTP/1.1 only"
    )
    permit_address_sharing: bool = flag(False, "Listen with SO_REUSEADDR.", retired="kcm always does")
    permit_port_sharing: bool = flag(False, "Listen with SO_REUSEPORT, so that several processes may share the port.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainServing:
    """HTTP without TLS, as the articles have it; on only when one of the two is given.

    Old releases served everybody by default. What has no credentials is for this host, unless told otherwise.
    """

    address: str = flag(
        "127.0.0.1",
        "Address to serve plain HTTP on; served when this or --port is given. 0.0.0.0 opens it to everybody.",
    )
    port: int = flag(10252, "Port to serve plain HTTP on; served when this or --address is given.", kind=INT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    kubeconfig: str = flag(
        "", "How to reach the API server that reviews tokens.", name="authentication-kubeconfig", pending=True
    )
    skip_lookup: bool = flag(
        False, "Do not read the cluster's own settings.", name="authentication-skip-lookup", pending=True
    )
    tolerate_lookup_failure: bool = flag(
        False, "Go on when they cannot be read.", name="authentication-tolerate-lookup-failure", pending=True
    )
    token_webhook_cache_ttl: float = flag(
        10.0,
        "How long a token's review counts.",
        name="authentication-token-webhook-cache-ttl",
        kind=DURATION,
        pending=True,
    )
    client_ca_file: str = flag(
        "", "Authorities: who has a certificate of one of them is the user of its common name; system:masters may all."
    )
    requestheader_client_ca_file: str = flag("", "Authorities of proxies, which say in headers who the user is.")
    requestheader_allowed_names: tuple[str, ...] = flag((), "Common names of proxies; empty for any.")
    requestheader_username_headers: tuple[str, ...] = flag(("x-remote-user",), "Headers with the user.")
    requestheader_group_headers: tuple[str, ...] = flag(("x-remote-group",), "Headers with the groups.")
    requestheader_extra_headers_prefix: tuple[str, ...] = flag(
        ("x-remote-extra-",), "Beginnings of headers with extra facts.", retired=NO_PATH_NEEDS_IT
    )
    requestheader_uid_headers: tuple[str, ...] = flag((), "Headers with the user's uid.", retired=NO_PATH_NEEDS_IT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    always_allow_paths: tuple[str, ...] = flag(
        ("/healthz", "/readyz", "/livez"),
        "Paths that everybody may get over HTTPS; a trailing '*' stands for anything.",
        name="authorization-always-allow-paths",
    )
    kubeconfig: str = flag(
        "", "How to reach the API server that reviews access.", name="authorization-kubeconfig", pending=True
    )
    webhook_cache_authorized_ttl: float = flag(
        10.0,
        "How long a yes counts.",
        name="authorization-webhook-cache-authorized-ttl",
        kind=DURATION,
        pending=True,
    )
    webhook_cache_unauthorized_ttl: float = flag(
        10.0,
        "How long a no counts.",
        name="authorization-webhook-cache-unauthorized-ttl",
        kind=DURATION,
        pending=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOptions:
    allow_metric_labels: str = flag("", "Values that a metric's label may have: metric,label='v1,v2'.")
    allow_metric_labels_manifest: str = flag("", "File with the same.")
    disabled_metrics: tuple[str, ...] = flag((), "Metrics not to serve.")
    show_hidden_metrics_for_version: str = flag("", "Serve the metrics hidden since this release.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Logging:
    format: str = flag("text", "'text' or 'json'.", name="logging-format")
    verbosity: int = flag(
        0,
        "Log verbosity: 0 logs changes, 2 also the start of controllers and the sync of informers, 4 also decisions "
        "without effect.",
        name="v",
        short="v",
        kind=LEVEL,
    )
    vmodule: tuple[tuple[str, str], ...] = flag(
        (), "Other verbosities for the sources that match a pattern.", kind=VMODULE
    )
    log_dir: str = flag("", "Directory to write log files to.")
    logtostderr: bool = flag(True, "Log to standard error; when off, to files, in the temporary directory by default.")
    alsologtostderr: bool = flag(False, "Log to standard error as well as to files.")
    log_flush_frequency: float = flag(
        5.0, "How often logs are flushed.", kind=DURATION, retired="each line is written at once"
    )
    log_text_split_stream: bool = flag(False, "Errors to standard error, the rest to standard output.", pending=True)
    log_text_info_buffer_size: str = flag("0", "Buffer for the rest.", pending=True)
    log_json_split_stream: bool = flag(False, "The same for --logging-format=json.", pending=True)
    log_json_info_buffer_size: str = flag("0", "The same for --logging-format=json.", pending=True)
    log_file: str = flag("", "File to log to.", hidden=True, retired=GONE_WITH_KLOG)
    log_file_max_size: int = flag(1800, "Its largest size in MB.", kind=INT, hidden=True, retired=GONE_WITH_KLOG)
    stderrthreshold: str = flag("2", "Severity to show.", hidden=True, retired=GONE_WITH_KLOG)
    skip_headers: bool = flag(False, "Log without headers.", hidden=True, retired=GONE_WITH_KLOG)
    skip_log_headers: bool = flag(False, "Files without headers.", hidden=True, retired=GONE_WITH_KLOG)
    one_output: bool = flag(False, "Each line to one file.", hidden=True, retired=GONE_WITH_KLOG)
    log_backtrace_at: str = flag("", "Where to log stacks.", hidden=True, retired=GONE_WITH_KLOG)
    add_dir_header: bool = flag(False, "Directory in headers.", hidden=True, retired=GONE_WITH_KLOG)

    @property
    def settings(self) -> LogSettings:
        """--log-dir is enough to get files; in klog it did nothing without --logtostderr=false."""
        return LogSettings(
            format=self.format,
            verbosity=self.verbosity,
            vmodule=tuple((pattern, int(level)) for pattern, level in self.vmodule),
            directory=self.log_dir or ("" if self.logtostderr else tempfile.gettempdir()),
            to_stderr=self.logtostderr or self.alsologtostderr,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """Flags of old releases that have neither a meaning nor a section any more."""

    google_json_key: str = flag("", "Key for a cloud.", hidden=True, retired=GONE)
    approve_kubelet_csrs: str = flag(
        "",
        "Group whose requests are approved.",
        name="insecure-experimental-approve-all-kubelet-csrs-for-group",
        hidden=True,
        retired=GONE,
    )
    node_status_update_retry: int = flag(5, "Tries to update a node's status.", hidden=True, retired=GONE)
    replenishment_resync_period: float = flag(
        43200.0, "How often quotas are replenished.", kind=DURATION, hidden=True, retired=GONE
    )
    volume_host_cidr_denylist: tuple[str, ...] = flag((), "Addresses not to fetch from.", hidden=True, retired=GONE)
    volume_host_allow_local_loopback: bool = flag(True, "Fetch from loopback.", hidden=True, retired=GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServer:
    """The API server of the cluster that kcm starts when none is given. `run-kcm apiserver` has these flags, too."""

    directory: str = flag(".kcm/", "Where its database, certificates and kubeconfig are kept.", name="embedded-dir")
    port: int = flag(
        0, "Port of its API server; 0: the last one if it is free, else any.", name="embedded-port", kind=INT
    )
    in_memory: bool = flag(
        False,
        "Keep the data of the embedded API server in memory, for tests. Certificates and the kubeconfig are written to "
        "a temporary directory, unless --embedded-dir is given.",
        name="embedded-in-memory",
    )
    durability: str = flag(
        "full",
        "When a change is acknowledged: 'full', once it is on disk; 'relaxed', for tests, once the system has it.",
        name="embedded-durability",
    )
    authorization: str = flag(
        "rbac",
        "What users may do there: 'rbac', by roles and bindings, with upstream's from the start; or 'always-allow'.",
        name="embedded-authorization",
    )
    anonymous_auth: bool = flag(
        True,
        "Authorize requests without credentials there as user system:anonymous, in the group system:unauthenticated. "
        "If false, or with --embedded-authorization=always-allow, they get 401.",
        name="embedded-anonymous-auth",
    )
    client_ca_file: str = flag(
        "",
        "Further authorities of client certificates there: the common name is the user, organizations are the groups.",
        name="embedded-client-ca-file",
    )
    audit_policy_file: str = flag(
        "", "What its API server notes of requests: a Policy of audit.k8s.io/v1.", name="embedded-audit-policy-file"
    )
    audit_log_path: str = flag(
        "", "File to note it in, a line of JSON each time; nothing without both.", name="embedded-audit-log-path"
    )
    audit_log_max_size: int = flag(
        100, "Megabytes after which that file is put aside.", name="embedded-audit-log-maxsize", kind=INT
    )
    audit_log_max_age: int = flag(
        0, "Days that a file put aside is kept; 0 for ever.", name="embedded-audit-log-maxage", kind=INT
    )
    audit_log_max_backup: int = flag(
        0, "How many files put aside are kept; 0 for all.", name="embedded-audit-log-maxbackup", kind=INT
    )

    admission_config_file: str = flag(
        "",
        "What admission plugins there are told: an AdmissionConfiguration, of ResourceQuota and PodSecurity.",
        name="embedded-admission-control-config-file",
    )
    enable_plugins: tuple[str, ...] = flag(
        (), "Admission plugins that work beside those on by default.", name="embedded-enable-admission-plugins"
    )
    disable_plugins: tuple[str, ...] = flag(
        (),
        "Admission plugins that do not. Those that rest on controllers that do not run do not anyway.",
        name="embedded-disable-admission-plugins",
    )
    runtime_config: tuple[str, ...] = flag(
        (),
        "Alpha and beta group versions that its API server serves, as of kube-apiserver's --runtime-config: api/all, "
        "api/alpha, api/beta, GROUP/VERSION or GROUP/VERSION/RESOURCE, with =true or =false.",
        name="embedded-runtime-config",
    )
    metrics: bool = flag(
        True,
        "Serve metrics.k8s.io there. If false, the group is left to a metrics-server that you install; its hollow pods "
        "serve the same metrics once they are ready.",
        name="embedded-metrics",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded(EmbeddedServer):
    """The cluster that kcm starts when none is given."""

    hollow_nodes: int = flag(3, "Nodes that run pods in appearance only.", kind=INT)
    hollow_zones: int = flag(2, "Zones that these nodes are spread over.", kind=INT)
    apply: tuple[str, ...] = flag((), "Manifest to load at the start; may be repeated.", kind=FILES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    help: bool = flag(False, "Say this.", short="h")
    version: str = flag(
        "", "Print the version and exit; 'raw' for all of it, 'vX.Y.Z' to report that one.", kind=VERSION
    )
