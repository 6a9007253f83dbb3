"""API resources: their ids in messages, their paths and kinds.

A message names a resource by its id, `group/version/plural` (`v1/pods` in the core group), so that decoding needs no
registry, also for custom resources. The key shows whether an object is namespaced.

In a program that works on several clusters, the id begins with the cluster (`edge:v1/pods`), and so does the path of a
request (`/clusters/edge/api/v1/pods`), which the transport of the program takes off again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace  # noqa: TID251
from typing import TYPE_CHECKING, Any, Generic, overload

from kcm.protocols.arguments import check_text
from kcm.protocols.models import codec_of
from kcm.protocols.objects import Object

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    M = TypeVar("M", default=Any)
else:
    from typing import TypeVar

    M = TypeVar("M")

CLUSTERS = "/clusters/"  # beginning of the path of a request to a named cluster
_CLUSTER_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[M]):
    """Resource of the API, as in discovery.

    group: "" for the core group.
    kind: the kind of one object; the kind of a list is `<kind>List`.
    model: the class that a lister reads objects as (protocols/models.py); None: maps. It is ignored when Resources are
        compared, which is why this is a dataclass and not a Struct. Raises TypeError if the class is not a model.
    cluster: the cluster, in a program that works on several; "" in all others. `on` returns the resource of a cluster.
    api_version: as in objects: "v1", "apps/v1".
    id: as in messages: "v1/pods", "apps/v1/replicasets", "edge:v1/pods".
    """

    group: str = ""
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    cluster: str = ""
    model: type[M] | None = field(default=None, repr=False, compare=False)
    api_version: str = field(init=False, repr=False, compare=False)
    id: str = field(init=False, repr=False, compare=False)

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: Resource[Object],
            *,
            group: str = "",
            version: str,
            plural: str,
            kind: str,
            namespaced: bool = True,
            cluster: str = "",
            model: None = None,
        ) -> None: ...

        @overload
        def __init__(
            self,
            *,
            group: str = "",
            version: str,
            plural: str,
            kind: str,
            namespaced: bool = True,
            cluster: str = "",
            model: type[M],
        ) -> None: ...

        def __init__(self, **_: Any) -> None: ...

    def __post_init__(self) -> None:
        check_text("group of a Resource", self.group, may_be_empty=True)
        for name, text in (("version", self.version), ("plural", self.plural), ("kind", self.kind)):
            check_text(f"{name} of a Resource", text)
        if self.model is not None:
            codec_of(self.model)
        api_version = f"{self.group}/{self.version}" if self.group else self.version
        object.__setattr__(self, "api_version", api_version)
        resource_id = f"{api_version}/{self.plural}"
        if self.cluster:
            check_cluster(self.cluster)
            resource_id = f"{self.cluster}:{resource_id}"
        object.__setattr__(self, "id", resource_id)

    @property
    def name(self) -> str:
        """Return the name that kubectl and errors use: "pods", "replicasets.apps", "edge:pods"."""
        return name_of_resource(self.id)

    def on(self, cluster: str) -> Resource[M]:
        """Return this resource of one of several clusters, by the name that it has in `transports`.

        Raises ValueError for an invalid name.
        """
        check_text("cluster of a Resource", cluster)
        return replace(self, cluster=cluster)

    def __str__(self) -> str:
        return self.name


def name_of_resource(resource_id: str) -> str:
    """Return the Resource.name for this id."""
    cluster, plain_id = split_cluster(resource_id)
    parts = plain_id.split("/")
    name = f"{parts[2]}.{parts[0]}" if len(parts) == 3 else parts[-1]
    return f"{cluster}:{name}" if cluster else name


def check_cluster(name: str) -> None:
    """Raise TypeError or ValueError for an invalid name of a cluster."""
    check_text("name of a cluster", name)
    if not _CLUSTER_NAME.fullmatch(name):
        raise ValueError(f"name of a cluster: at most 63 lower case letters, digits and inner '-', not {name!r}")


def split_cluster(resource_id: str) -> tuple[str, str]:
    """Return the cluster of a Resource.id, "" without one, and the rest."""
    cluster, colon, rest = resource_id.partition(":")
    return (cluster, rest) if colon else ("", resource_id)


def cluster_path(cluster: str, path: str) -> str:
    """Return the path under which a request goes to this cluster. cluster: "" in a program with one cluster."""
    return f"{CLUSTERS}{cluster}{path}" if cluster else path


def split_path(path: str) -> tuple[str, str]:
    """Return the cluster of a request's path, "" without one, and the path on its server."""
    if not path.startswith(CLUSTERS):
        return "", path
    cluster, _, rest = path.removeprefix(CLUSTERS).partition("/")
    return cluster, f"/{rest}"


def resource_path(resource_id: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the URL path of a collection, an object or a subresource; empty parts are omitted.

    resource_path("apps/v1/replicasets", "default", "web", "status")
    == "/apis/apps/v1/namespaces/default/replicasets/web/status"

    Raises ValueError if resource_id is not `[group/]version/plural`.
    """
    if ":" in resource_id:
        cluster, plain_id = split_cluster(resource_id)
        return cluster_path(cluster, resource_path(plain_id, namespace, name, subresource))
    group_version, _, plural = resource_id.rpartition("/")
    if not group_version or not plural or group_version.count("/") > 1:
        raise ValueError(f"not a resource id: {resource_id!r}; expected '[group/]version/plural'")
    root = "/apis/" if "/" in group_version else "/api/"
    path = f"{root}{group_version}"
    if namespace:
        path += f"/namespaces/{namespace}"
    path += f"/{plural}"
    if name:
        path += f"/{name}"
    if subresource:
        path += f"/{subresource}"
    return path


PODS = Resource(version="v1", plural="pods", kind="Pod")
NODES = Resource(version="v1", plural="nodes", kind="Node", namespaced=False)
NAMESPACES = Resource(version="v1", plural="namespaces", kind="Namespace", namespaced=False)
EVENTS = Resource(version="v1", plural="events", kind="Event")
CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
SECRETS = Resource(version="v1", plural="secrets", kind="Secret")
SERVICE_ACCOUNTS = Resource(version="v1", plural="serviceaccounts", kind="ServiceAccount")
RESOURCE_QUOTAS = Resource(version="v1", plural="resourcequotas", kind="ResourceQuota")
PERSISTENT_VOLUME_CLAIMS = Resource(version="v1", plural="persistentvolumeclaims", kind="PersistentVolumeClaim")
PERSISTENT_VOLUMES = Resource(version="v1", plural="persistentvolumes", kind="PersistentVolume", namespaced=False)
STORAGE_CLASSES = Resource(
    group="storage.k8s.io", version="v1", plural="storageclasses", kind="StorageClass", namespaced=False
)
VOLUME_ATTRIBUTES_CLASSES = Resource(
    group="storage.k8s.io",
    version="v1",
    plural="volumeattributesclasses",
    kind="VolumeAttributesClass",
    namespaced=False,
)
VOLUME_ATTACHMENTS = Resource(
    group="storage.k8s.io", version="v1", plural="volumeattachments", kind="VolumeAttachment", namespaced=False
)
CSI_DRIVERS = Resource(group="storage.k8s.io", version="v1", plural="csidrivers", kind="CSIDriver", namespaced=False)
CSI_NODES = Resource(group="storage.k8s.io", version="v1", plural="csinodes", kind="CSINode", namespaced=False)
RESOURCE_CLAIMS = Resource(group="resource.k8s.io", version="v1", plural="resourceclaims", kind="ResourceClaim")
RESOURCE_CLAIM_TEMPLATES = Resource(
    group="resource.k8s.io", version="v1", plural="resourceclaimtemplates", kind="ResourceClaimTemplate"
)
RESOURCE_SLICES = Resource(
    group="resource.k8s.io", version="v1", plural="resourceslices", kind="ResourceSlice", namespaced=False
)
DEVICE_CLASSES = Resource(
    group="resource.k8s.io", version="v1", plural="deviceclasses", kind="DeviceClass", namespaced=False
)
DEVICE_TAINT_RULES, STABLE_TAINT_RULES = (
    Resource(
        group="resource.k8s.io", version=version, plural="devicetaintrules", kind="DeviceTaintRule", namespaced=False
    )
    for version in ("v1beta2", "v1")  # v1 from 1.37 on
)
RESOURCE_POOL_STATUS_REQUESTS = Resource(
    group="resource.k8s.io",
    version="v1alpha3",
    plural="resourcepoolstatusrequests",
    kind="ResourcePoolStatusRequest",
    namespaced=False,
)
SERVICES = Resource(version="v1", plural="services", kind="Service")
ENDPOINTS = Resource(version="v1", plural="endpoints", kind="Endpoints")
SERVICE_CIDRS = Resource(
    group="networking.k8s.io", version="v1", plural="servicecidrs", kind="ServiceCIDR", namespaced=False
)
IP_ADDRESSES = Resource(
    group="networking.k8s.io", version="v1", plural="ipaddresses", kind="IPAddress", namespaced=False
)
REPLICATION_CONTROLLERS = Resource(version="v1", plural="replicationcontrollers", kind="ReplicationController")
REPLICASETS = Resource(group="apps", version="v1", plural="replicasets", kind="ReplicaSet")
DEPLOYMENTS = Resource(group="apps", version="v1", plural="deployments", kind="Deployment")
CRONJOBS = Resource(group="batch", version="v1", plural="cronjobs", kind="CronJob")
JOBS = Resource(group="batch", version="v1", plural="jobs", kind="Job")
WORKLOADS = Resource(group="scheduling.k8s.io", version="v1alpha2", plural="workloads", kind="Workload")
POD_GROUPS = Resource(group="scheduling.k8s.io", version="v1alpha2", plural="podgroups", kind="PodGroup")
STATEFULSETS = Resource(group="apps", version="v1", plural="statefulsets", kind="StatefulSet")
DAEMONSETS = Resource(group="apps", version="v1", plural="daemonsets", kind="DaemonSet")
CONTROLLER_REVISIONS = Resource(group="apps", version="v1", plural="controllerrevisions", kind="ControllerRevision")
POD_DISRUPTION_BUDGETS = Resource(
    group="policy", version="v1", plural="poddisruptionbudgets", kind="PodDisruptionBudget"
)
HORIZONTAL_POD_AUTOSCALERS = Resource(
    group="autoscaling", version="v2", plural="horizontalpodautoscalers", kind="HorizontalPodAutoscaler"
)
LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease")
LEASE_CANDIDATES = Resource(
    group="coordination.k8s.io", version="v1beta1", plural="leasecandidates", kind="LeaseCandidate"
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
)
STORAGE_VERSIONS = Resource(
    group="internal.apiserver.k8s.io",
    version="v1alpha1",
    plural="storageversions",
    kind="StorageVersion",
    namespaced=False,
)
STORAGE_VERSION_MIGRATIONS, STABLE_MIGRATIONS = (
    Resource(
        group="storagemigration.k8s.io",
        version=version,
        plural="storageversionmigrations",
        kind="StorageVersionMigration",
        namespaced=False,
    )
    for version in ("v1beta1", "v1")  # v1 from 1.37 on
)
VALIDATING_ADMISSION_POLICIES = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicies",
    kind="ValidatingAdmissionPolicy",
    namespaced=False,
)
ENDPOINT_SLICES = Resource(group="discovery.k8s.io", version="v1", plural="endpointslices", kind="EndpointSlice")
CLUSTER_ROLES = Resource(
    group="rbac.authorization.k8s.io", version="v1", plural="clusterroles", kind="ClusterRole", namespaced=False
)

# Feature gates without which an API server does not serve these kinds, by Resource.id.
GATES_OF_KINDS = {
    WORKLOADS.id: "GenericWorkload",
    POD_GROUPS.id: "GenericWorkload",
    STORAGE_VERSION_MIGRATIONS.id: "StorageVersionMigrator",
}
GATES = tuple(sorted(set(GATES_OF_KINDS.values())))
