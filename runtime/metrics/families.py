"""Metrics that are shared by several controllers or belong to none, with upstream's names.

Sources, Kubernetes 1.36: component-base/metrics/prometheus/{workqueue,restclient,version,slis},
component-base/metrics/prometheus/clientgo/{fifo,leaderelection},
controller-manager/pkg/{leadermigration,informerfactory}. Metrics named kcm_… have no counterpart upstream.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from operator import mul
from types import MappingProxyType

from kcm.runtime.metrics.registry import Family

QUEUE_BUCKETS = tuple(accumulate([1e-8, *[10.0] * 9], mul))  # with the rounding errors of upstream, which labels show
CLIENT_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
INFORMER_LABELS = ("name", "group", "version", "resource")
SIZE_BUCKETS = (64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0)

WORKQUEUE_DEPTH = Family(
    name="workqueue_depth", kind="gauge", help="Current depth of workqueue", labels=("name",), stability="BETA"
)
WORKQUEUE_ADDS = Family(
    name="workqueue_adds_total",
    kind="counter",
    help="Total number of adds handled by workqueue",
    labels=("name",),
    stability="BETA",
)
WORKQUEUE_RETRIES = Family(
    name="workqueue_retries_total",
    kind="counter",
    help="Total number of retries handled by workqueue",
    labels=("name",),
    stability="BETA",
)
WORKQUEUE_QUEUE_DURATION = Family(
    name="workqueue_queue_duration_seconds",
    kind="histogram",
    help="How long in seconds an item stays in workqueue before being requested.",
    labels=("name",),
    buckets=QUEUE_BUCKETS,
    stability="BETA",
)
WORKQUEUE_WORK_DURATION = Family(
    name="workqueue_work_duration_seconds",
    kind="histogram",
    help="How long in seconds processing an item from workqueue takes.",
    labels=("name",),
    buckets=QUEUE_BUCKETS,
    stability="BETA",
)
WORKQUEUE_UNFINISHED_WORK = Family(
    name="workqueue_unfinished_work_seconds",
    kind="gauge",
    help="How many seconds of work has done that is in progress and hasn't been observed by "
    "work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads "
    "by observing the rate at which this increases.",
    labels=("name",),
    stability="BETA",
)
WORKQUEUE_LONGEST_RUNNING = Family(
    name="workqueue_longest_running_processor_seconds",
    kind="gauge",
    help="How many seconds has the longest running processor for workqueue been running.",
    labels=("name",),
    stability="BETA",
)

REST_CLIENT_REQUESTS = Family(
    name="rest_client_requests_total",
    kind="counter",
    help="Number of HTTP requests, partitioned by status code, method, and host.",
    labels=("code", "method", "host"),
)
REST_CLIENT_REQUEST_DURATION = Family(
    name="rest_client_request_duration_seconds",
    kind="histogram",
    help="Request latency in seconds. Broken down by verb, and host.",
    labels=("verb", "host"),
    buckets=CLIENT_BUCKETS,
)
REST_CLIENT_RATE_LIMITER_DURATION = Family(
    name="rest_client_rate_limiter_duration_seconds",
    kind="histogram",
    help="Client side rate limiter latency in seconds. Broken down by verb, and host.",
    labels=("verb", "host"),
    buckets=CLIENT_BUCKETS,
)
REST_CLIENT_REQUEST_SIZE = Family(
    name="rest_client_request_size_bytes",
    kind="histogram",
    help="Request size in bytes. Broken down by verb and host.",
    labels=("verb", "host"),
    buckets=SIZE_BUCKETS,
)
REST_CLIENT_RESPONSE_SIZE = Family(
    name="rest_client_response_size_bytes",
    kind="histogram",
    help="Response size in bytes. Broken down by verb and host.",
    labels=("verb", "host"),
    buckets=SIZE_BUCKETS,
)
REST_CLIENT_RETRIES = Family(
    name="rest_client_request_retries_total",
    kind="counter",
    help="Number of request retries, partitioned by status code, verb, and host.",
    labels=("code", "verb", "host"),
)
REST_CLIENT_EXEC_PLUGIN_CALLS = Family(
    name="rest_client_exec_plugin_call_total",
    kind="counter",
    help="Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, "
    "plugin_execution_error, plugin_not_found_error, client_internal_error) and an optional exit "
    "code. The exit code will be set to 0 if and only if the plugin call was successful.",
    labels=("code", "call_status"),
)

EXEC_PLUGIN_TTL = Family(
    name="rest_client_exec_plugin_ttl_seconds",
    kind="gauge",
    help="Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec plugin. The "
    "value is in seconds until certificate expiry (negative if already expired). If auth exec plugins are unused or "
    "manage no TLS certificates, the value will be +INF.",
)
EXEC_PLUGIN_CERTIFICATE_AGE = Family(
    name="rest_client_exec_plugin_certificate_rotation_age",
    kind="histogram",
    help="Histogram of the number of seconds the last auth exec plugin client certificate lived before being rotated. "
    "If auth exec plugin client certificates are unused, histogram will contain no data.",
    # Seconds: 10 and 30 minutes, 1 and 4 hours, 1 day, 1 week, 1, 3 and 6 months, 1 and 4 years.
    buckets=(
        *(600.0, 1800.0, 3600.0, 14400.0, 86400.0, 604800.0),
        *(2592000.0, 7776000.0, 15552000.0, 31104000.0, 124416000.0),
    ),
)

TRANSPORTS = Family(
    name="rest_client_transport_cache_entries", kind="gauge", help="Number of transport entries in the internal cache."
)
TRANSPORT_CALLS = Family(
    name="rest_client_transport_create_calls_total",
    kind="counter",
    help="Number of calls to get a new transport, partitioned by the result of the operation hit: "
    "obtained from the cache, miss: created and added to the cache, miss-gc: recreated and added "
    "back to the cache after being garbage collected, uncacheable: created and not cached",
    labels=("result",),
)

CERTIFICATE_ROTATION_GC = Family(
    name="rest_client_transport_cert_rotation_gc_calls_total",
    kind="counter",
    help="Number of times a cert rotation goroutine cancel func is called via GC cleanup of the associated transport",
)

INFORMER_QUEUED_ITEMS = Family(
    name="informer_queued_items",
    kind="gauge",
    help="Number of items currently queued in the FIFO.",
    labels=INFORMER_LABELS,
)
INFORMER_PROCESSING_LATENCY = Family(
    name="informer_processing_latency_seconds",
    kind="histogram",
    help="Time taken to process events after popping from the queue.",
    labels=INFORMER_LABELS,
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)

LEADER_ELECTION_MASTER_STATUS = Family(
    name="leader_election_master_status",
    kind="gauge",
    help="Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 "
    "indicates master. 'name' is the string used to identify the lease. Please make sure to group by "
    "name.",
    labels=("name",),
)
LEADER_ELECTION_SLOWPATH = Family(
    name="leader_election_slowpath_total",
    kind="counter",
    help="Total number of slow path exercised in renewing leader leases. 'name' is the string used to "
    "identify the lease. Please make sure to group by name.",
    labels=("name",),
)

HUNG_CALLS = Family(
    name="kcm_hung_calls",
    kind="gauge",
    help="Calls of what is outside, a cloud's among them, that have not returned in time.",
)

BUILD_INFO = Family(
    name="kubernetes_build_info",
    kind="gauge",
    help="A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree "
    "state, build date, Go version, and compiler from which Kubernetes was built, and platform on "
    "which it is running.",
    labels=(
        "build_date",
        "compiler",
        "git_commit",
        "git_tree_state",
        "git_version",
        "go_version",
        "major",
        "minor",
        "platform",
    ),
    stability="BETA",
)
FEATURE_ENABLED = Family(
    name="kubernetes_feature_enabled",
    kind="gauge",
    help="This metric records the data about the stage and enablement of a k8s feature.",
    labels=("name", "stage"),
    stability="BETA",
)
VERSION_INFO = Family(
    name="version_info",
    kind="gauge",
    help="Provides the compatibility version info of the component. The component label is the name of "
    "the component, usually kube, but is relevant for aggregated-apiservers.",
    labels=("binary", "component", "emulation", "min_compat"),
)
REGISTERED_METRICS = Family(
    name="registered_metrics_total",
    kind="counter",
    help="The count of registered metrics broken by stability level and deprecation version.",
    labels=("stability_level", "deprecated_version"),
    stability="BETA",
)
HIDDEN_METRICS = Family(
    name="hidden_metrics_total", kind="counter", help="The count of hidden metrics.", stability="BETA"
)
DISABLED_METRICS = Family(
    name="disabled_metrics_total", kind="counter", help="The count of disabled metrics.", stability="BETA"
)
UNEXPECTED_LABELS = Family(
    name="cardinality_enforcement_unexpected_categorizations_total",
    kind="counter",
    help="The count of unexpected categorizations during cardinality enforcement.",
)
RUNNING_CONTROLLERS = Family(
    name="running_managed_controllers",
    kind="gauge",
    help="Indicates where instances of a controller are currently running",
    labels=("name", "manager"),
    stability="BETA",
)


def _stale_sync_skips(subsystem: str, kind: str) -> Family:
    return Family(
        name=f"{subsystem}_stale_sync_skips_total",
        kind="counter",
        help=f"Total number of {kind} syncs skipped due to a stale watch cache.",
        labels=("group", "resource"),
    )


# By the controller's name. Upstream has one metric for ReplicaSets and ReplicationControllers.
STALE_SYNC_SKIPS: Mapping[str, Family] = MappingProxyType(
    {
        "daemonset-controller": _stale_sync_skips("daemonset_controller", "DaemonSet"),
        "job-controller": _stale_sync_skips("job_controller", "Job"),
        "replicaset-controller": _stale_sync_skips("replicaset_controller", "ReplicaSet"),
        "replicationcontroller-controller": _stale_sync_skips("replicaset_controller", "ReplicaSet"),
        "statefulset-controller": _stale_sync_skips("statefulset_controller", "StatefulSet"),
    }
)

HEALTHCHECK = Family(
    name="kubernetes_healthcheck",
    kind="gauge",
    help="This metric records the result of a single healthcheck.",
    labels=("name", "type"),
    stability="STABLE",
)
HEALTHCHECKS = Family(
    name="kubernetes_healthchecks_total",
    kind="counter",
    help="This metric records the results of all healthcheck.",
    labels=("name", "type", "status"),
    stability="STABLE",
)

# Metrics of kcm without a counterpart upstream.

RECONCILIATIONS = Family(
    name="kcm_reconciliations_total",
    kind="counter",
    help="Number of reconciliations and periodic passes of a controller, by result: success, error, requeue or "
    "requeue_after.",
    labels=("name", "result"),
)
RECONCILE_ERRORS = Family(
    name="kcm_reconcile_errors_total",
    kind="counter",
    help="Number of reconciliations of a controller that ended with an error, by kind of the error.",
    labels=("name", "kind"),
)

JOURNAL_WRITING = Family(
    name="kcm_journal_writing", kind="gauge", help="1 while --journal is written, 0 once it could not be."
)
HUNG_THREADS = Family(
    name="kcm_hung_threads",
    kind="gauge",
    help="Threads of replaced actors that have not come back from what they hang at.",
    labels=("actor",),
)
CARRIERS = Family(
    name="kcm_carriers",
    kind="gauge",
    help="Threads that actors share: one, and one more for each actor that holds up its thread.",
)
GIVEN_UP_KEYS = Family(
    name="kcm_given_up_keys_total",
    kind="counter",
    help="Keys that failed permanently, or too often, and wait for their next event.",
    labels=("name",),
)
HOT_LOOPS = Family(
    name="kcm_hot_loops",
    kind="gauge",
    help="Objects that the controller has been writing at least once a second for ten minutes.",
    labels=("name",),
)
DISCARDED_EVENTS = Family(
    name="kcm_discarded_events_total",
    kind="counter",
    help="Events that were not written, because their source recorded too many about one object (rate_limit), or "
    "because too many waited to be written (backlog).",
    labels=("name", "reason"),
)
UNREADABLE_OBJECTS = Family(
    name="kcm_unreadable_objects",
    kind="gauge",
    help="Objects that are there and cannot be read: what they may count for is held back.",
    labels=("resource",),
)
CLUSTER_REACHABLE = Family(
    name="kcm_cluster_reachable",
    kind="gauge",
    help="1 while the API server of the cluster responds, otherwise 0; of programs that work on several clusters.",
    labels=("cluster",),
)
DESTRUCTIVE_WRITES = Family(
    name="kcm_destructive_writes_total",
    kind="counter",
    help="Number of deletions and evictions that controllers have sent to the API server.",
)
STORM_BRAKE = Family(
    name="kcm_storm_brake_engaged",
    kind="gauge",
    help="1 while the storm brake holds back deletions and evictions.",
)
