"""Kinds by the names that kubectl accepts, and the controllers that bring their objects to their desired state."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from kcm.protocols import resources as r
from kcm.protocols.resources import Resource

INGRESSES = Resource(group="networking.k8s.io", version="v1", plural="ingresses", kind="Ingress")
LIMIT_RANGES = Resource(version="v1", plural="limitranges", kind="LimitRange")
PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io", version="v1", plural="priorityclasses", kind="PriorityClass", namespaced=False
)
API_SERVICES = Resource(
    group="apiregistration.k8s.io", version="v1", plural="apiservices", kind="APIService", namespaced=False
)
CERTIFICATE_SIGNING_REQUESTS = Resource(
    group="certificates.k8s.io",
    version="v1",
    plural="certificatesigningrequests",
    kind="CertificateSigningRequest",
    namespaced=False,
)


class KnownKind(Struct, frozen=True):
    """Kind with its short names and its controllers."""

    resource: Resource
    short: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()


GARBAGE_COLLECTOR = "garbage-collector-controller"
KINDS = (
    KnownKind(r.PODS, ("po",)),
    KnownKind(r.DEPLOYMENTS, ("deploy",), ("deployment-controller",)),
    KnownKind(r.REPLICASETS, ("rs",), ("replicaset-controller",)),
    KnownKind(r.REPLICATION_CONTROLLERS, ("rc",), ("replicationcontroller-controller",)),
    KnownKind(r.STATEFULSETS, ("sts",), ("statefulset-controller",)),
    KnownKind(r.DAEMONSETS, ("ds",), ("daemonset-controller",)),
    KnownKind(r.JOBS, (), ("job-controller",)),
    KnownKind(r.CRONJOBS, ("cj",), ("cronjob-controller",)),
    KnownKind(r.HORIZONTAL_POD_AUTOSCALERS, ("hpa",), ("horizontal-pod-autoscaler-controller",)),
    KnownKind(r.POD_DISRUPTION_BUDGETS, ("pdb",), ("disruption-controller",)),
    KnownKind(r.SERVICES, ("svc",), ("endpointslice-controller",)),
    KnownKind(r.ENDPOINTS, ("ep",), ("endpoints-controller",)),
    KnownKind(r.ENDPOINT_SLICES, (), ("endpointslice-controller",)),
    KnownKind(INGRESSES, ("ing",)),
    KnownKind(r.SERVICE_CIDRS, (), ("service-cidr-controller",)),
    KnownKind(r.PERSISTENT_VOLUME_CLAIMS, ("pvc",), ("persistentvolume-binder-controller",)),
    KnownKind(r.PERSISTENT_VOLUMES, ("pv",), ("persistentvolume-binder-controller",)),
    KnownKind(r.STORAGE_CLASSES, ("sc",)),
    KnownKind(r.VOLUME_ATTACHMENTS, (), ("persistentvolume-attach-detach-controller",)),
    KnownKind(r.NAMESPACES, ("ns",), ("namespace-controller",)),
    KnownKind(r.NODES, ("no",), ("node-lifecycle-controller",)),
    KnownKind(r.RESOURCE_QUOTAS, ("quota",), ("resourcequota-controller",)),
    KnownKind(r.CONFIGMAPS, ("cm",)),
    KnownKind(r.SECRETS),
    KnownKind(r.SERVICE_ACCOUNTS, ("sa",)),
    KnownKind(r.RESOURCE_CLAIMS, (), ("resourceclaim-controller",)),
    KnownKind(CERTIFICATE_SIGNING_REQUESTS, ("csr",)),
    KnownKind(API_SERVICES),
    KnownKind(r.CUSTOM_RESOURCE_DEFINITIONS, ("crd", "crds")),
    KnownKind(LIMIT_RANGES, ("limits",)),
    KnownKind(PRIORITY_CLASSES, ("pc",)),
    KnownKind(r.LEASES),
    KnownKind(r.CLUSTER_ROLES, (), ("clusterrole-aggregation-controller",)),
)
_BY_KIND = {(known.resource.group, known.resource.kind): known for known in KINDS}


def _names(known: KnownKind) -> Iterator[str]:
    resource = known.resource
    for name in (resource.kind.lower(), resource.plural, *known.short):
        yield name
        yield f"{name}.{resource.group}"
        yield f"{name}.{resource.version}.{resource.group}"


_BY_NAME = {name: known.resource for known in reversed(KINDS) for name in _names(known)}


def resource_named(name: str) -> Resource | None:
    """Return the resource that kubectl calls by this name: a kind, a plural or a short name, also with its group."""
    return _BY_NAME.get(name.lower())


def resource_of_kind(api_version: str, kind: str) -> Resource | None:
    """Return the resource of a known kind; its version is the known one."""
    group = api_version.rpartition("/")[0]
    known = _BY_KIND.get((group, kind))
    return known.resource if known is not None else None


def controllers_of(resource: Resource) -> tuple[str, ...]:
    """Return the controllers that bring objects of this resource to their desired state."""
    known = _BY_KIND.get((resource.group, resource.kind))
    return known.controllers if known is not None else ()
