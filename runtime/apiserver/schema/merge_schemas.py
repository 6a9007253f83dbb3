"""How the lists of the built-in types merge under a strategic merge patch.

Read off the patchStrategy and patchMergeKey tags of k8s.io/api and apimachinery, 1.36. A list that is not here is
replaced as a whole, among them some that one would expect to merge: a Node's taints, a Pod's tolerations and
containerStatuses, a ServiceAccount's imagePullSecrets, a Service's externalIPs. The retainKeys strategy (volumes,
resourceClaims, a Deployment's strategy) matters to who makes patches only: who applies one finds $retainKeys in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.apiserver.schema.strategic_merge import MergeField, MergeSchema


def _type(**fields: MergeField) -> MergeSchema:
    return MergeSchema(fields)


def _map(**fields: MergeField) -> MergeField:
    return MergeField(_type(**fields))


def _by(merge_key: str, element: MergeSchema | None = None) -> MergeField:
    """A list of maps told apart by merge_key."""
    return MergeField(element or MergeSchema(), merge=True, merge_key=merge_key)


_VALUES = MergeField(merge=True)  # a list of strings, merged as a set that keeps its order
_REPLACED = MergeField(replace=True)

_METADATA = _map(ownerReferences=_by("uid"), finalizers=_VALUES)
_CONDITIONS = _map(conditions=_by("type"))

_CONTAINER = _type(
    ports=_by("containerPort"),
    env=_by("name"),
    volumeMounts=_by("mountPath"),
    volumeDevices=_by("devicePath"),
)
_POD_SPEC = _map(
    volumes=_by("name"),
    initContainers=_by("name", _CONTAINER),
    containers=_by("name", _CONTAINER),
    ephemeralContainers=_by("name", _CONTAINER),
    imagePullSecrets=_by("name"),
    hostAliases=_by("ip"),
    topologySpreadConstraints=_by("topologyKey"),
    schedulingGates=_by("name"),
    resourceClaims=_by("name"),
)
_POD_STATUS = _map(
    conditions=_by("type"),
    hostIPs=_by("ip"),
    podIPs=_by("ip"),
    resourceClaimStatuses=_by("name"),
)
_POD_TEMPLATE = _map(metadata=_METADATA, spec=_POD_SPEC)
_WORKLOAD_SPEC = _map(template=_POD_TEMPLATE)
_WEBHOOK = _type(matchConditions=_by("name"))


def _kind(**fields: MergeField) -> MergeSchema:
    return _type(metadata=_METADATA, **fields)


_WORKLOAD = _kind(spec=_WORKLOAD_SPEC, status=_CONDITIONS)
_WITH_CONDITIONS = _kind(status=_CONDITIONS)
_WEBHOOK_CONFIGURATION = _kind(webhooks=_by("name", _WEBHOOK))

_KINDS: Mapping[str, MergeSchema] = {
    "Pod": _kind(spec=_POD_SPEC, status=_POD_STATUS),
    "PodTemplate": _kind(template=_POD_TEMPLATE),
    "ReplicationController": _WORKLOAD,
    "ReplicaSet": _WORKLOAD,
    "Deployment": _WORKLOAD,
    "DaemonSet": _WORKLOAD,
    "StatefulSet": _WORKLOAD,
    "Job": _WORKLOAD,
    "CronJob": _kind(spec=_map(jobTemplate=_map(metadata=_METADATA, spec=_WORKLOAD_SPEC))),
    "HorizontalPodAutoscaler": _WITH_CONDITIONS,
    "PodDisruptionBudget": _kind(spec=_map(selector=_REPLACED), status=_CONDITIONS),
    "Service": _kind(spec=_map(ports=_by("port")), status=_CONDITIONS),
    "ServiceAccount": _kind(secrets=_by("name")),
    "Node": _kind(
        spec=_map(podCIDRs=_VALUES),
        status=_map(conditions=_by("type"), addresses=_by("type")),
    ),
    "Namespace": _WITH_CONDITIONS,
    "PersistentVolumeClaim": _WITH_CONDITIONS,
    "ComponentStatus": _kind(conditions=_by("type")),
    "APIService": _WITH_CONDITIONS,
    "FlowSchema": _WITH_CONDITIONS,
    "PriorityLevelConfiguration": _WITH_CONDITIONS,
    "ServiceCIDR": _WITH_CONDITIONS,
    "CSINode": _kind(spec=_map(drivers=_by("name"))),
    "ResourceClaim": _kind(status=_map(reservedFor=_by("uid"))),
    "ValidatingAdmissionPolicy": _kind(spec=_map(matchConditions=_by("name"), variables=_by("name"))),
    "MutatingAdmissionPolicy": _kind(spec=_map(matchConditions=_by("name"))),
    "ValidatingWebhookConfiguration": _WEBHOOK_CONFIGURATION,
    "MutatingWebhookConfiguration": _WEBHOOK_CONFIGURATION,
}
_PLAIN = _kind()


def merge_schema_of(kind: str) -> MergeSchema:
    """The schema of a built-in kind ("Pod"); one without lists of its own that merge still has metadata's.

    Strategic merge is for built-in types only: a server answers 415 for a custom resource, whatever its kind is called.
    """
    return _KINDS.get(kind, _PLAIN)
