"""General flags: the process, its clients, cloud, logs and leader election.

Names, defaults and sections: cmd/kube-controller-manager/app/options/options.go and the option packages that it calls,
Kubernetes 1.36; flags that later releases removed are here with their former meaning.
"""

from __future__ import annotations

from kcm.protocols.quantities import whole_value
from kcm.runtime.flags.declaration import FlagStruct, flag
from kcm.runtime.flags.values import DURATION, FLOAT32, INT, LEVEL, MAP, PAIRS, QUANTITY, VERSION, VMODULE
from kcm.runtime.logs.settings import KLOG_FILE_SIZE, LogSettings

SERVED_BY_JSON = "kcm sends and receives JSON, which every API server supports"
GONE_WITH_CLOUD_PROVIDERS = "cloud providers have no use for it"
GONE_WITH_KLOG = "Kubernetes 1.26 removed it"
GONE = "Kubernetes removed it"


class Debugging(FlagStruct, frozen=True, kw_only=True):
    profiling: bool = flag(True, "Enable profiling via web interface host:port/debug/pprof/.", config="enableProfiling")
    contention_profiling: bool = flag(
        False,
        "Measure how long messages wait for actors, for /debug/pprof/mutex, if profiling is enabled.",
        config="enableContentionProfiling",
    )


class TraceOptions(FlagStruct, frozen=True, kw_only=True):
    config_file: str = flag(
        "",
        "File with tracing configuration: a TracingConfiguration of the group apiserver.config.k8s.io, as for "
        "kube-apiserver. Spans of reconciliations and writes are sent by OTLP over HTTP. Requires kcm[tracing].",
        name="tracing-config-file",
    )


class LeaderMigration(FlagStruct, frozen=True, kw_only=True):
    enabled: bool = flag(
        False,
        "Enable controller leader migration.",
        name="enable-leader-migration",
        config="LeaderMigrationEnabled",
    )
    config_file: str = flag(
        "",
        "Path to the config file for controller leader migration, or empty to use the default configuration of the "
        "controller manager. The file contains a LeaderMigrationConfiguration of the group "
        "controllermanager.config.k8s.io, version v1.",
        name="leader-migration-config",
    )


class Generic(FlagStruct, frozen=True, kw_only=True):
    controllers: tuple[str, ...] = flag(
        ("*",),
        "Controllers to enable: '*' enables all that are on by default, 'foo' enables the controller foo, '-foo' "
        "disables it. The first matching entry counts.",
        config="Controllers",
    )
    controller_start_interval: float = flag(
        0.0,
        "Interval between the starts of two controllers. A random part of it is added each time.",
        kind=DURATION,
        config="ControllerStartInterval",
    )
    controller_shutdown_timeout: float = flag(
        10.0,
        "Maximum time to wait for controllers to finish their current work on shutdown. 0 waits forever.",
        kind=DURATION,
    )
    min_resync_period: float = flag(
        43200.0,
        "Minimum resync period of informers. Each resync happens after a random time between this and twice as long.",
        kind=DURATION,
        config="MinResyncPeriod",
    )
    watch_silence_limit: float = flag(
        120.0, "Time without an event or bookmark after which a watch is closed and opened again.", kind=DURATION
    )
    actor_hang_timeout: float = flag(
        30.0,
        "Time after which an actor that makes no progress is replaced. If the controller manager itself makes no "
        "progress for twice as long, the process ends.",
        kind=DURATION,
    )
    reconcile_timeout: float = flag(
        0.0,
        "Maximum duration of a sync of one key, for queues without a timeout of their own. A longer sync ends with an "
        "error, and its key is retried with backoff once the sync's writes in flight have ended. 0 sets no limit.",
        kind=DURATION,
    )
    cache_mutation_detector: bool = flag(
        False,
        "Raise an error where a controller changes an object of the informer caches in place, which others read as "
        "well. Also set by KUBE_CACHE_MUTATION_DETECTOR=true in the environment. It costs memory and CPU.",
    )
    feature_gate_settings: tuple[tuple[str, str], ...] = flag(
        (),
        "Comma-separated list of Name=true or Name=false pairs that switch alpha and beta features.",
        kind=PAIRS,
        name="feature-gates",
    )
    emulated_version: tuple[str, ...] = flag(
        (),
        "Release whose capabilities are emulated, as kube=1.35, from 1.33 to 1.37: feature gates have the stages and "
        "defaults of that release. The default is 1.36; 1.37 has not been compared with the real programs.",
    )
    min_compatibility_version: tuple[str, ...] = flag(
        (),
        "Oldest release of the control plane to be compatible with, as kube=1.35, from 1.33 to the emulated release. "
        "It is reported; no feature of 1.36 depends on it. The default is the release before the emulated one.",
    )


class HealthThresholds(FlagStruct, frozen=True, kw_only=True):
    stuck_after: float = flag(
        30.0,
        "Time for which the actor of a controller may handle one message before its health check reports 'stuck'. "
        "0 disables this condition.",
        name="health-stuck-after",
        kind=DURATION,
    )
    starved_after: float = flag(
        600.0,
        "Time for which a key may wait in a work queue before the health check of its controller reports 'starved'. "
        "0 disables this condition.",
        name="health-starved-after",
        kind=DURATION,
    )
    failing_after: float = flag(
        300.0,
        "Time without a successful sync of a work queue whose syncs fail, after which the health check of its "
        "controller reports 'failing'. 0 disables this condition, also for missing rights.",
        name="health-failing-after",
        kind=DURATION,
    )
    failing_syncs: int = flag(
        10,
        "Minimum number of failed syncs of a work queue in a row for the health check to report 'failing'.",
        name="health-failing-syncs",
        kind=INT,
    )
    deaf_after: float = flag(
        0.0,
        "Time without an event or bookmark for an informer cache after which the health checks of its controllers "
        "report 'deaf'. 0 is twice --watch-silence-limit.",
        name="health-deaf-after",
        kind=DURATION,
    )


class Client(FlagStruct, frozen=True, kw_only=True):
    kubeconfig: str = flag("", "Path to a kubeconfig file for the API server.", config="kubeconfig")
    master: str = flag("", "URL of the API server. Overrides the server in --kubeconfig.")


class ClientLimits(FlagStruct, frozen=True, kw_only=True):
    qps: float = flag(
        20.0,
        "Requests per second that one controller may send to the API server. A negative value removes the limit; "
        "0 means 5, as in client-go.",
        name="kube-api-qps",
        kind=FLOAT32,
        config="qps",
    )
    burst: int = flag(
        30, "Burst of requests that one controller may send to the API server.", name="kube-api-burst", config="burst"
    )
    content_type: str = flag(
        "application/vnd.kubernetes.protobuf",
        "Content type of requests to the API server.",
        name="kube-api-content-type",
        config="contentType",
        retired=SERVED_BY_JSON,
    )


class StormBrakeOptions(FlagStruct, frozen=True, kw_only=True):
    limit: int = flag(
        0,
        "Number of deletions and evictions by all controllers within --storm-brake-window above which the storm brake "
        "engages: it holds back further ones until an operator releases it. 0 engages it only on request.",
        name="storm-brake-limit",
        kind=INT,
    )
    window: float = flag(60.0, "Time in which --storm-brake-limit counts.", name="storm-brake-window", kind=DURATION)
    qps: float = flag(
        0.0,
        "Deletions and evictions per second that the storm brake lets through while it is engaged. 0 holds back all.",
        name="storm-brake-qps",
        kind=FLOAT32,
    )


ON_LOSS = ("exit", "standby")  # values of --leader-elect-on-loss


class LeaderElection(FlagStruct, frozen=True, kw_only=True):
    enabled: bool = flag(
        True,
        "Acquire the leader election Lease before starting any controller, so that only one of several managers "
        "is active.",
        name="leader-elect",
        config="leaderElect",
    )
    lease_duration: float = flag(
        15.0,
        "Time that a standby waits after the last observed renewal before it takes over the Lease.",
        name="leader-elect-lease-duration",
        kind=DURATION,
        config="leaseDuration",
    )
    renew_deadline: float = flag(
        10.0,
        "Time for which the leader retries a renewal before it stops leading. Must be less than the lease duration.",
        name="leader-elect-renew-deadline",
        kind=DURATION,
        config="renewDeadline",
    )
    retry_period: float = flag(
        2.0,
        "Interval between two attempts to acquire or renew the Lease.",
        name="leader-elect-retry-period",
        kind=DURATION,
        config="retryPeriod",
    )
    on_loss: str = flag(
        ON_LOSS[0],
        "Action of a leader that has lost the Lease: 'exit' ends the process, 'standby' stops the controllers and "
        "waits for the Lease again.",
        name="leader-elect-on-loss",
    )
    groups: str = flag(
        "",
        "Groups of controllers with a Lease each, which all replicas with this flag share: 'auto' for the built-in "
        "groups, or the path to a YAML file with names of groups and their controllers. Empty: one replica runs all "
        "controllers.",
        name="leader-elect-groups",
    )
    resource_lock: str = flag(
        "leases",
        "Type of the lock object. Only 'leases' is supported.",
        name="leader-elect-resource-lock",
        config="resourceLock",
    )
    resource_name: str = flag(
        "kube-controller-manager", "Name of the Lease.", name="leader-elect-resource-name", config="resourceName"
    )
    resource_namespace: str = flag(
        "kube-system", "Namespace of the Lease.", name="leader-elect-resource-namespace", config="resourceNamespace"
    )


class Cloud(FlagStruct, frozen=True, kw_only=True):
    use_service_account_credentials: bool = flag(
        False,
        "Use the credentials of a separate service account for each controller.",
        config="UseServiceAccountCredentials",
    )
    allocate_node_cidrs: bool = flag(
        False, "Allocate a pod CIDR to each node. Requires --cluster-cidr.", config="AllocateNodeCIDRs"
    )
    cidr_allocator_type: str = flag("RangeAllocator", "Type of the CIDR allocator.", config="CIDRAllocatorType")
    cloud_config: str = flag(
        "", "Path to the configuration file of the cloud provider.", config="CloudProvider.CloudConfigFile"
    )
    cloud_provider: str = flag(
        "",
        "Cloud provider: empty for none, 'external' if another program runs the cloud controllers, 'fake' for "
        "one in memory, or a provider of an installed package.",
        config="CloudProvider.Name",
    )
    cluster_cidr: str = flag(
        "",
        "CIDR range of the pods in the cluster. Two ranges, separated by a comma, for dual-stack.",
        config="ClusterCIDR",
    )
    cluster_name: str = flag(
        "kubernetes", "Prefix of the names of cloud resources that belong to this cluster.", config="ClusterName"
    )
    configure_cloud_routes: bool = flag(
        True,
        "Configure routes in the cloud provider for the CIDRs that --allocate-node-cidrs allocates.",
        config="ConfigureCloudRoutes",
    )
    external_cloud_volume_plugin: str = flag(
        "",
        "Volume plugin to use with --cloud-provider=external.",
        config="ExternalCloudVolumePlugin",
        retired="/configz reports it, and no controller of Kubernetes 1.36 uses it",
    )
    node_monitor_period: float = flag(
        5.0,
        "Interval at which node-lifecycle-controller syncs the status of nodes.",
        kind=DURATION,
        config="NodeMonitorPeriod",
    )
    route_reconciliation_period: float = flag(
        10.0,
        "Interval at which the routes of the cloud provider are reconciled.",
        kind=DURATION,
        config="RouteReconciliationPeriod",
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


class MetricsOptions(FlagStruct, frozen=True, kw_only=True):
    allow_metric_labels: tuple[tuple[str, str], ...] = flag(
        (),
        "Allowed values of a label of a metric, as metric,label=v1,v2; other values are shown as 'unexpected'. Several "
        """are separated by commas and quoted: '"metric1,label1=v1,v2","metric2,label2=v3"'. May be repeated.""",
        kind=MAP,
    )
    allow_metric_labels_manifest: str = flag(
        "", "Path to a YAML file with such entries: a map from 'metric,label' to 'v1,v2'."
    )
    disabled_metrics: tuple[str, ...] = flag((), "Names of metrics to leave out.")
    show_hidden_metrics_for_version: str = flag(
        "", "Previous release, as 1.35, whose hidden metrics are shown. kcm hides none."
    )


class Logging(FlagStruct, frozen=True, kw_only=True):
    format: str = flag("text", "Log format: 'text' or 'json'.", name="logging-format")
    verbosity: int = flag(
        0,
        "Log verbosity. 0 logs changes of the cluster, 2 adds informers and the start of controllers, 4 adds "
        "decisions without effect.",
        name="v",
        short="v",
        kind=LEVEL,
    )
    vmodule: tuple[tuple[str, str], ...] = flag(
        (),
        "Comma-separated list of pattern=N pairs that raise the verbosity of matching log sources. A pattern matches "
        "the source, as in a log line, or the name of the corresponding file of Kubernetes, without '.go'. Only for "
        "the text format.",
        kind=VMODULE,
    )
    log_dir: str = flag("", "Directory to write log files to.")
    logtostderr: bool = flag(
        True, "Log to standard error. If false, log to files, by default in the temporary directory."
    )
    alsologtostderr: bool = flag(False, "Log to standard error as well as to files.")
    log_flush_frequency: float = flag(
        5.0,
        "Maximum time between two flushes of the buffer of --log-text-info-buffer-size or --log-json-info-buffer-size. "
        "Other lines are written at once.",
        kind=DURATION,
    )
    log_text_split_stream: bool = flag(
        False,
        "[Alpha] With --logging-format=text, write warnings and errors to standard error and info messages to standard "
        "output. Requires the feature gate LoggingAlphaOptions.",
    )
    log_text_info_buffer_size: str = flag(
        "0",
        "[Alpha] With --log-text-split-stream, size in bytes of a buffer for info messages, such as 512, 64Ki or 1M. "
        "0 writes each message at once. Requires the feature gate LoggingAlphaOptions.",
        kind=QUANTITY,
    )
    log_json_split_stream: bool = flag(
        False,
        "[Alpha] With --logging-format=json, write errors to standard error, info messages and warnings to standard "
        "output. Requires the feature gate LoggingAlphaOptions.",
    )
    log_json_info_buffer_size: str = flag(
        "0",
        "[Alpha] With --log-json-split-stream, size in bytes of a buffer for info messages, such as 512, 64Ki or 1M. "
        "0 writes each message at once. Requires the feature gate LoggingAlphaOptions.",
        kind=QUANTITY,
    )
    log_file: str = flag(
        "", "File to log to, used instead of --log-dir. Kubernetes 1.26 removed the flag.", hidden=True
    )
    log_file_max_size: int = flag(
        1800,
        "Size in megabytes at which --log-file is emptied. 0 means no limit. Kubernetes 1.26 removed the flag.",
        kind=INT,
        hidden=True,
    )
    stderrthreshold: str = flag("2", "Severity to show.", hidden=True, retired=GONE_WITH_KLOG)
    skip_headers: bool = flag(False, "Log without headers.", hidden=True, retired=GONE_WITH_KLOG)
    skip_log_headers: bool = flag(False, "Files without headers.", hidden=True, retired=GONE_WITH_KLOG)
    one_output: bool = flag(False, "Each line to one file.", hidden=True, retired=GONE_WITH_KLOG)
    log_backtrace_at: str = flag("", "Where to log stacks.", hidden=True, retired=GONE_WITH_KLOG)
    add_dir_header: bool = flag(False, "Directory in headers.", hidden=True, retired=GONE_WITH_KLOG)

    @property
    def settings(self) -> LogSettings:
        """Return the log settings. Unlike klog, --log-dir or --log-file suffices without --logtostderr=false."""
        is_json = self.format == "json"
        return LogSettings(
            format=self.format,
            verbosity=self.verbosity,
            vmodule=tuple((pattern, int(level)) for pattern, level in self.vmodule),
            directory=self.log_dir or ("" if self.logtostderr else _temporary_directory()),
            file=self.log_file,
            largest_file=self.log_file_max_size * 1024 * 1024 if self.log_file else KLOG_FILE_SIZE,
            to_stderr=self.logtostderr or self.alsologtostderr,
            split_stream=self.log_json_split_stream if is_json else self.log_text_split_stream,
            info_buffer_size=whole_value(self.log_json_info_buffer_size if is_json else self.log_text_info_buffer_size),
            flush_frequency=self.log_flush_frequency,
        )


def _temporary_directory() -> str:
    import tempfile  # heavy: shutil, libraries of archives

    return tempfile.gettempdir()


class Retired(FlagStruct, frozen=True, kw_only=True):
    """Flags of old releases, which have no effect."""

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


class ProcessOptions(FlagStruct, frozen=True, kw_only=True):
    help: bool = flag(False, "Show this help.", short="h")
    version: str = flag(
        "", "Print the version and exit; 'raw' for all of it, 'vX.Y.Z' to report that one.", kind=VERSION
    )
