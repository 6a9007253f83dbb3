"""Metrics that are shared by several controllers or belong to none, with upstream's names.

Sources, Kubernetes 1.36: component-base/metrics/prometheus/{workqueue,restclient,clientgo/leaderelection,version,slis},
controller-manager/pkg/{leadermigration,informerfactory}. Metrics named kcm_… have no counterpart upstream.
"""

from __future__ import annotations

from kcm.runtime.metrics.registry import Family

QUEUE_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 2))
CLIENT_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZE_BUCKETS = (64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0)

WORKQUEUE_DEPTH = Family(
    name="workqueue_depth", kind="gauge", help="Keys that wait.", labels=("name",), stability="BETA"
)
WORKQUEUE_ADDS = Family(
    name="workqueue_adds_total", kind="counter", help="Keys added.", labels=("name",), stability="BETA"
)
WORKQUEUE_RETRIES = Family(
    name="workqueue_retries_total",
    kind="counter",
    help="Keys added again after a failure.",
    labels=("name",),
    stability="BETA",
)
WORKQUEUE_QUEUE_DURATION = Family(
    name="workqueue_queue_duration_seconds",
    kind="histogram",
    help="How long a key waited before it was taken.",
    labels=("name",),
    buckets=QUEUE_BUCKETS,
    stability="BETA",
)
WORKQUEUE_WORK_DURATION = Family(
    name="workqueue_work_duration_seconds",
    kind="histogram",
    help="How long a key was worked on.",
    labels=("name",),
    buckets=QUEUE_BUCKETS,
    stability="BETA",
)
WORKQUEUE_UNFINISHED_WORK = Family(
    name="workqueue_unfinished_work_seconds",
    kind="gauge",
    help="How long the keys that are being worked on have been so, all together.",
    labels=("name",),
    stability="BETA",
)
WORKQUEUE_LONGEST_RUNNING = Family(
    name="workqueue_longest_running_processor_seconds",
    kind="gauge",
    help="How long the key that has been worked on for longest has been so.",
    labels=("name",),
    stability="BETA",
)

REST_CLIENT_REQUESTS = Family(
    name="rest_client_requests_total",
    kind="counter",
    help="Requests to the API server, by status code.",
    labels=("code", "method", "host"),
)
REST_CLIENT_REQUEST_DURATION = Family(
    name="rest_client_request_duration_seconds",
    kind="histogram",
    help="How long requests took.",
    labels=("verb", "host"),
    buckets=CLIENT_BUCKETS,
)
REST_CLIENT_RATE_LIMITER_DURATION = Family(
    name="rest_client_rate_limiter_duration_seconds",
    kind="histogram",
    help="How long requests waited for our own rate limit.",
    labels=("verb", "host"),
    buckets=CLIENT_BUCKETS,
)
REST_CLIENT_REQUEST_SIZE = Family(
    name="rest_client_request_size_bytes",
    kind="histogram",
    help="Size of requests' bodies.",
    labels=("verb", "host"),
    buckets=SIZE_BUCKETS,
)
REST_CLIENT_RESPONSE_SIZE = Family(
    name="rest_client_response_size_bytes",
    kind="histogram",
    help="Size of responses' bodies.",
    labels=("verb", "host"),
    buckets=SIZE_BUCKETS,
)
REST_CLIENT_RETRIES = Family(
    name="rest_client_request_retries_total",
    kind="counter",
    help="Requests sent again.",
    labels=("code", "verb", "host"),
)
REST_CLIENT_EXEC_PLUGIN_CALLS = Family(
    name="rest_client_exec_plugin_call_total",
    kind="counter",
    help="Runs of credential plugins, by exit code and outcome.",
    labels=("code", "call_status"),
)

TRANSPORTS = Family(
    name="rest_client_transport_cache_entries", kind="gauge", help="Number of connection pools to API servers."
)
TRANSPORT_CALLS = Family(
    name="rest_client_transport_create_calls_total",
    kind="counter",
    help="Number of connection pools that were requested: created (miss), or shared with others (hit).",
    labels=("result",),
)

LEADER_ELECTION_MASTER_STATUS = Family(
    name="leader_election_master_status", kind="gauge", help="1 while this process leads.", labels=("name",)
)
LEADER_ELECTION_SLOWPATH = Family(
    name="leader_election_slowpath_total",
    kind="counter",
    help="Renewals that had to read the Lease first.",
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
    help="1, labelled with the version.",
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
    help="1 where a feature gate is on.",
    labels=("name", "stage"),
    stability="BETA",
)
VERSION_INFO = Family(
    name="version_info",
    kind="gauge",
    help="1, labelled with the version of the binary, the emulated version and the minimum compatibility version.",
    labels=("binary", "component", "emulation", "min_compat"),
)
REGISTERED_METRICS = Family(
    name="registered_metrics_total",
    kind="counter",
    help="Number of metrics, by stability level and deprecation version.",
    labels=("stability_level", "deprecated_version"),
    stability="BETA",
)
HIDDEN_METRICS = Family(name="hidden_metrics_total", kind="counter", help="Number of hidden metrics.", stability="BETA")
DISABLED_METRICS = Family(
    name="disabled_metrics_total", kind="counter", help="Number of disabled metrics.", stability="BETA"
)
UNEXPECTED_LABELS = Family(
    name="cardinality_enforcement_unexpected_categorizations_total",
    kind="counter",
    help="Number of label values that --allow-metric-labels replaced.",
)
RUNNING_CONTROLLERS = Family(
    name="running_managed_controllers",
    kind="gauge",
    help="1 while a controller runs.",
    labels=("name", "manager"),
)

HEALTHCHECK = Family(
    name="kubernetes_healthcheck",
    kind="gauge",
    help="1 when the last run of a health check was fine.",
    labels=("name", "type"),
)
HEALTHCHECKS = Family(
    name="kubernetes_healthchecks_total",
    kind="counter",
    help="Runs of health checks, by result.",
    labels=("name", "type", "status"),
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
UNREADABLE_OBJECTS = Family(
    name="kcm_unreadable_objects",
    kind="gauge",
    help="Objects that are there and cannot be read: what they may count for is held back.",
    labels=("resource",),
)
