"""What each kind does beyond being stored: its defaults, its checks, its fields for selectors, put together.

Source: kubernetes pkg/registry/*/*/strategy.go and pkg/apis/core/v1/conversion.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from protocols.objects import Object
from runtime.apiserver.kinds.defaults import core, pods, workloads
from runtime.apiserver.kinds.defaults.pod_status import prepare_pod, prepare_pod_status
from runtime.apiserver.kinds.validation import core as check_core
from runtime.apiserver.kinds.validation import custom_resource_definitions as check_definitions
from runtime.apiserver.kinds.validation import pods as check_pods
from runtime.apiserver.kinds.validation import workloads as check_workloads
from runtime.apiserver.kinds.validation.names import dns_label, dns_subdomain
from runtime.apiserver.registry.definitions import FieldGetter, Strategy

EVENT_TTL = 3600.0  # seconds
_UNSUPPORTED = "field label not supported: {}"


def _text_at(*path: str) -> FieldGetter:
    """The text at a path into an object; "" where there is none."""

    def get(obj: Object) -> str:
        value = obj
        for part in path:
            value = value.get(part) or {}
        return str(value) if value else ""

    return get


def _fields(*paths: str) -> Mapping[str, FieldGetter]:
    return {path: _text_at(*path.split(".")) for path in paths}


def _boolean_at(*path: str) -> FieldGetter:
    text = _text_at(*path)
    return lambda obj: "true" if text(obj) else "false"


def _count_at(*path: str) -> FieldGetter:
    text = _text_at(*path)
    return lambda obj: text(obj) or "0"


def _event_source(event: Object) -> str:
    return (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""


def _pod_grace(pod: Object, asked: int | None) -> int:
    """A pod that no node runs, or that has ended, needs no time to end."""
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return 0
    grace: int = pod["spec"].get("terminationGracePeriodSeconds") or 0 if asked is None else asked
    return max(grace, 1) if grace < 0 else grace


def _namespace_is_held(namespace: Object) -> bool:
    return bool((namespace.get("spec") or {}).get("finalizers"))


def _terminate_namespace(namespace: Object) -> None:
    namespace.setdefault("status", {})["phase"] = "Terminating"


PLAIN = Strategy(name_rule=dns_subdomain)
WITH_STATUS = Strategy(name_rule=dns_subdomain, has_status=True, generation=True)

PODS = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    status_keeps=("ownerReferences",),
    generation=True,
    default=pods.default_pod,
    prepare_create=prepare_pod,
    validate=check_pods.validate_pod,
    validate_update=check_pods.validate_pod_update,
    prepare_status=prepare_pod_status,
    validate_status=check_pods.validate_pod_status_update,
    grace=_pod_grace,
    returns_deleted=True,
    unknown_field=_UNSUPPORTED,
    fields={
        **_fields(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
        "spec.hostNetwork": _boolean_at("spec", "hostNetwork"),
        "spec.host": _text_at("spec", "nodeName"),
    },
)
NODES = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    first_status=True,
    default=core.default_node,
    validate=check_core.validate_node,
    validate_update=check_core.validate_node_update,
    unknown_field=_UNSUPPORTED,
    fields={"spec.unschedulable": _boolean_at("spec", "unschedulable")},
)
NAMESPACES = Strategy(
    name_rule=dns_label,
    has_status=True,
    update_keeps=("finalizers",),
    default=core.default_namespace,
    prepare_create=core.prepare_namespace,
    held=_namespace_is_held,
    terminate=_terminate_namespace,
    returns_deleted=True,
    unknown_field=_UNSUPPORTED,
    fields=_fields("status.phase"),
)
REPLICATION_CONTROLLERS = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    zero_status={"replicas": 0},
    generation=True,
    orphans=True,
    default=workloads.default_replication_controller,
    validate=check_workloads.validate_replication_controller,
    validate_status=check_workloads.validate_set_status,
    unknown_field=_UNSUPPORTED,
    fields={"status.replicas": _count_at("status", "replicas")},
)
REPLICASETS = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    zero_status={"replicas": 0},
    generation=True,
    default=workloads.default_replicaset,
    validate=check_workloads.validate_replicaset,
    validate_update=check_workloads.validate_selector_update,
    validate_status=check_workloads.validate_set_status,
    fields={"status.replicas": _count_at("status", "replicas")},
)
DEPLOYMENTS = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    status_keeps=("labels",),
    generation=True,
    annotations_count=True,
    default=workloads.default_deployment,
    validate=check_workloads.validate_deployment,
    validate_update=check_workloads.validate_selector_update,
    validate_status=check_workloads.validate_deployment_status,
)
DAEMONSETS = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    zero_status={"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0},
    generation=True,
    default=workloads.default_daemonset,
    validate=check_workloads.validate_daemonset,
    validate_update=check_workloads.validate_selector_update,
)
STATEFULSETS = Strategy(
    name_rule=dns_label,
    has_status=True,
    zero_status={"replicas": 0, "availableReplicas": 0},
    generation=True,
    default=workloads.default_statefulset,
    validate=check_workloads.validate_statefulset,
    validate_update=check_workloads.validate_selector_update,
)
JOBS = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    generation=True,
    orphans=True,
    default=workloads.default_job,
    prepare_create=workloads.select_own_pods,
    validate=check_workloads.validate_job,
    validate_update=check_workloads.validate_job_update,
    fields={"status.successful": _count_at("status", "succeeded")},
)
CRON_JOBS = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    generation=True,
    default=workloads.default_cron_job,
    validate=check_workloads.validate_cron_job,
)
SERVICES = Strategy(
    name_rule=dns_label,
    has_status=True,
    zero_status={"loadBalancer": {}},
    default=core.default_service,
    validate=check_core.validate_service,
    validate_update=check_core.validate_service_update,
    create_on_update=True,
    returns_deleted=True,
    unknown_field=_UNSUPPORTED,
    fields=_fields("spec.clusterIP", "spec.type"),
)
SECRETS = Strategy(
    name_rule=dns_subdomain,
    default=core.default_secret,
    validate=check_core.validate_secret,
    validate_update=check_core.validate_secret_update,
    unknown_field=_UNSUPPORTED,
    fields=_fields("type"),
)
CONFIG_MAPS = Strategy(
    name_rule=dns_subdomain,
    validate=check_core.validate_config_map,
    validate_update=check_core.validate_config_map_update,
)
EVENTS = Strategy(
    name_rule=dns_subdomain,
    default=core.default_event,
    validate=check_core.validate_event,
    collected=False,
    create_on_update=True,
    ttl=EVENT_TTL,
    unknown_field=_UNSUPPORTED,
    fields={
        **_fields(
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ),
        "source": _event_source,
    },
)
LEASES = Strategy(
    name_rule=dns_subdomain, validate=check_core.validate_lease, unconditional_update=False, create_on_update=True
)
NETWORK_POLICIES = Strategy(name_rule=dns_subdomain, generation=True)
ENDPOINTS = Strategy(name_rule=dns_subdomain, default=core.default_endpoints, create_on_update=True)
ENDPOINT_SLICES = Strategy(name_rule=dns_subdomain, generation=True, default=core.default_endpoint_slice)
SERVICE_ACCOUNTS = Strategy(name_rule=dns_subdomain, returns_deleted=True)
LIMIT_RANGES = Strategy(name_rule=dns_subdomain, default=core.default_limit_range, create_on_update=True)
RESOURCE_QUOTAS = Strategy(name_rule=dns_subdomain, has_status=True, returns_deleted=True)
PERSISTENT_VOLUMES = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    default=core.default_persistent_volume,
    prepare_create=core.prepare_volume,
    returns_deleted=True,
)
PERSISTENT_VOLUME_CLAIMS = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    default=core.default_claim,
    prepare_create=core.prepare_volume,
    returns_deleted=True,
)
DISRUPTION_BUDGETS = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    zero_status={"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    generation=True,
    unconditional_update=False,
)
STORAGE_CLASSES = Strategy(name_rule=dns_subdomain, default=core.default_storage_class, returns_deleted=True)
CSI_NODES = Strategy(name_rule=dns_subdomain, unconditional_update=False, returns_deleted=True)
PRIORITY_CLASSES = Strategy(name_rule=dns_subdomain, generation=True, default=core.default_priority_class)
ACCESS_RULES = Strategy(create_on_update=True)
CUSTOM_RESOURCE_DEFINITIONS = Strategy(
    name_rule=dns_subdomain,
    has_status=True,
    generation=True,
    default=core.default_custom_resource_definition,
    validate=check_definitions.validate_custom_resource_definition,
    validate_update=check_definitions.validate_custom_resource_definition_update,
    unconditional_update=False,
)
