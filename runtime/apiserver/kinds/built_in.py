"""The built-in resources: a row each. What is special about a kind is in its strategy.

Source: the discovery documents of kube-apiserver v1.36.
"""

from __future__ import annotations

from runtime.apiserver.kinds import event_versions, strategies
from runtime.apiserver.registry.definitions import ResourceDefinition

_ALL = ("all",)
_STATUS = ("status",)
_SCALABLE = ("status", "scale")
_NO_COLLECTION = ("create", "delete", "get", "list", "patch", "update", "watch")

_CORE = (
    ResourceDefinition(
        plural="pods",
        kind="Pod",
        short_names=("po",),
        categories=_ALL,
        subresources=("status", "binding", "eviction"),
        strategy=strategies.PODS,
    ),
    ResourceDefinition(
        plural="nodes",
        kind="Node",
        short_names=("no",),
        namespaced=False,
        subresources=_STATUS,
        strategy=strategies.NODES,
    ),
    ResourceDefinition(
        plural="namespaces",
        kind="Namespace",
        short_names=("ns",),
        namespaced=False,
        verbs=_NO_COLLECTION,
        subresources=("status", "finalize"),
        strategy=strategies.NAMESPACES,
    ),
    ResourceDefinition(plural="events", kind="Event", short_names=("ev",), strategy=strategies.EVENTS),
    ResourceDefinition(
        plural="replicationcontrollers",
        kind="ReplicationController",
        short_names=("rc",),
        categories=_ALL,
        subresources=_SCALABLE,
        strategy=strategies.REPLICATION_CONTROLLERS,
    ),
    ResourceDefinition(
        plural="services",
        kind="Service",
        short_names=("svc",),
        categories=_ALL,
        subresources=_STATUS,
        strategy=strategies.SERVICES,
    ),
    ResourceDefinition(plural="endpoints", kind="Endpoints", short_names=("ep",), strategy=strategies.ENDPOINTS),
    ResourceDefinition(plural="configmaps", kind="ConfigMap", short_names=("cm",), strategy=strategies.CONFIG_MAPS),
    ResourceDefinition(plural="secrets", kind="Secret", strategy=strategies.SECRETS),
    ResourceDefinition(
        plural="serviceaccounts", kind="ServiceAccount", short_names=("sa",), strategy=strategies.SERVICE_ACCOUNTS
    ),
    ResourceDefinition(
        plural="limitranges", kind="LimitRange", short_names=("limits",), strategy=strategies.LIMIT_RANGES
    ),
    ResourceDefinition(
        plural="resourcequotas",
        kind="ResourceQuota",
        short_names=("quota",),
        subresources=_STATUS,
        strategy=strategies.RESOURCE_QUOTAS,
    ),
    ResourceDefinition(
        plural="persistentvolumes",
        kind="PersistentVolume",
        short_names=("pv",),
        namespaced=False,
        subresources=_STATUS,
        strategy=strategies.PERSISTENT_VOLUMES,
    ),
    ResourceDefinition(
        plural="persistentvolumeclaims",
        kind="PersistentVolumeClaim",
        short_names=("pvc",),
        subresources=_STATUS,
        strategy=strategies.PERSISTENT_VOLUME_CLAIMS,
    ),
    ResourceDefinition(plural="podtemplates", kind="PodTemplate", strategy=strategies.PLAIN),
)

_APPS = (
    ResourceDefinition(
        group="apps",
        plural="deployments",
        kind="Deployment",
        short_names=("deploy",),
        categories=_ALL,
        subresources=_SCALABLE,
        strategy=strategies.DEPLOYMENTS,
    ),
    ResourceDefinition(
        group="apps",
        plural="replicasets",
        kind="ReplicaSet",
        short_names=("rs",),
        categories=_ALL,
        subresources=_SCALABLE,
        strategy=strategies.REPLICASETS,
    ),
    ResourceDefinition(
        group="apps",
        plural="statefulsets",
        kind="StatefulSet",
        short_names=("sts",),
        categories=_ALL,
        subresources=_SCALABLE,
        strategy=strategies.STATEFULSETS,
    ),
    ResourceDefinition(
        group="apps",
        plural="daemonsets",
        kind="DaemonSet",
        short_names=("ds",),
        categories=_ALL,
        subresources=_STATUS,
        strategy=strategies.DAEMONSETS,
    ),
    ResourceDefinition(
        group="apps", plural="controllerrevisions", kind="ControllerRevision", strategy=strategies.PLAIN
    ),
)

_BATCH = (
    ResourceDefinition(
        group="batch",
        plural="jobs",
        kind="Job",
        categories=_ALL,
        subresources=_STATUS,
        strategy=strategies.JOBS,
    ),
    ResourceDefinition(
        group="batch",
        plural="cronjobs",
        kind="CronJob",
        short_names=("cj",),
        categories=_ALL,
        subresources=_STATUS,
        strategy=strategies.CRON_JOBS,
    ),
)

_OTHERS = (
    ResourceDefinition(
        group="events.k8s.io",
        plural="events",
        kind="Event",
        short_names=("ev",),
        storage="events",
        to_storage=event_versions.to_core,
        from_storage=event_versions.from_core,
        strategy=event_versions.EVENTS,
    ),
    ResourceDefinition(group="coordination.k8s.io", plural="leases", kind="Lease", strategy=strategies.LEASES),
    ResourceDefinition(
        group="autoscaling",
        version="v2",
        plural="horizontalpodautoscalers",
        kind="HorizontalPodAutoscaler",
        short_names=("hpa",),
        categories=_ALL,
        subresources=_STATUS,
        strategy=strategies.WITH_STATUS,
    ),
    ResourceDefinition(
        group="policy",
        plural="poddisruptionbudgets",
        kind="PodDisruptionBudget",
        short_names=("pdb",),
        subresources=_STATUS,
        strategy=strategies.DISRUPTION_BUDGETS,
    ),
    ResourceDefinition(
        group="discovery.k8s.io",
        plural="endpointslices",
        kind="EndpointSlice",
        strategy=strategies.ENDPOINT_SLICES,
    ),
    ResourceDefinition(
        group="networking.k8s.io",
        plural="ingresses",
        kind="Ingress",
        short_names=("ing",),
        subresources=_STATUS,
        strategy=strategies.WITH_STATUS,
    ),
    ResourceDefinition(
        group="networking.k8s.io",
        plural="networkpolicies",
        kind="NetworkPolicy",
        short_names=("netpol",),
        strategy=strategies.NETWORK_POLICIES,
    ),
    ResourceDefinition(
        group="storage.k8s.io",
        plural="storageclasses",
        kind="StorageClass",
        short_names=("sc",),
        namespaced=False,
        strategy=strategies.STORAGE_CLASSES,
    ),
    ResourceDefinition(
        group="storage.k8s.io", plural="csinodes", kind="CSINode", namespaced=False, strategy=strategies.CSI_NODES
    ),
    ResourceDefinition(
        group="storage.k8s.io", plural="csidrivers", kind="CSIDriver", namespaced=False, strategy=strategies.PLAIN
    ),
    ResourceDefinition(
        group="scheduling.k8s.io",
        plural="priorityclasses",
        kind="PriorityClass",
        short_names=("pc",),
        namespaced=False,
        strategy=strategies.PRIORITY_CLASSES,
    ),
    ResourceDefinition(
        group="apiextensions.k8s.io",
        plural="customresourcedefinitions",
        kind="CustomResourceDefinition",
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        namespaced=False,
        subresources=_STATUS,
        strategy=strategies.CUSTOM_RESOURCE_DEFINITIONS,
    ),
)

_RBAC = tuple(
    ResourceDefinition(
        group="rbac.authorization.k8s.io",
        plural=f"{kind.lower()}s",
        kind=kind,
        namespaced=not kind.startswith("Cluster"),
        strategy=strategies.ACCESS_RULES,
    )
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
)

BUILT_IN: tuple[ResourceDefinition, ...] = (*_CORE, *_APPS, *_BATCH, *_OTHERS, *_RBAC)
