"""Graph of the objects that each node's pods use: service accounts, Secrets, ConfigMaps, claims and volumes.

The graph is empty until the first lookup. After that, objects that change, or whose change is undone, are marked and
read again before the next lookup.

Source: kubernetes plugin/pkg/auth/authorizer/node/{graph,graph_populator}.go, pkg/api/v1/pod/util.go
(VisitPodConfigmapNames), pkg/api/v1/persistentvolume/util.go (VisitPVSecretNames) (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from kcm.protocols.mounted_secrets import secret_names
from kcm.protocols.objects import Key, Object, annotations_of, decode_object, make_key, name_of, namespace_of
from kcm.runtime.apiserver.storage.state import State

PODS, VOLUMES = "pods", "persistentvolumes"
FOLLOWED = frozenset({PODS, VOLUMES})
SECRETS, CONFIG_MAPS, CLAIMS = "secrets", "configmaps", "persistentvolumeclaims"
ACCOUNTS, RESOURCE_CLAIMS = "serviceaccounts", "resourceclaims.resource.k8s.io"
# Storages of objects that belong to the node in spec.nodeName.
OF_ONE_NODE = frozenset(
    {
        PODS,
        "volumeattachments.storage.k8s.io",
        "resourceslices.resource.k8s.io",
        "podcertificaterequests.certificates.k8s.io",
    }
)
_MIRROR = "kubernetes.io/config.mirror"
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
# References to Secrets that kubelets read, by the volume's source.
_SECRET_FIELDS = {
    "cephfs": ("secretRef",),
    "cinder": ("secretRef",),
    "csi": ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"),
    "flexVolume": ("secretRef",),
    "iscsi": ("secretRef",),
    "rbd": ("secretRef",),
    "scaleIO": ("secretRef",),
    "storageos": ("secretRef",),
}

Vertex = tuple[str, Key]  # storage and key of an object


class _Pod(NamedTuple):
    node: str
    leads_to: frozenset[Vertex]


class _Volume(NamedTuple):
    claim: Key
    secrets: frozenset[Key]


class NodeGraph:
    def __init__(self, state: State) -> None:
        self._state = state
        self._follows = False
        self._changed: set[tuple[str, Key]] = set()
        self._pods: dict[Key, _Pod] = {}
        self._nodes_of: dict[Vertex, Counter[str]] = {}  # number of pods by node, for each object they refer to
        self._volumes: dict[Key, _Volume] = {}
        self._volumes_of: dict[Key, set[Key]] = {}  # keys of the volumes that refer to a Secret, by the Secret's key

    def note(self, storage: str, key: Key) -> None:
        """Mark an object to be read again because it changed, or its change was undone.

        storage: one of FOLLOWED
        """
        if self._follows:
            self._changed.add((storage, key))

    def is_related(self, node: str, storage: str, key: Key) -> bool:
        """Report whether the object belongs to the node, or is used by one of the node's pods."""
        self._refresh()
        if storage in OF_ONE_NODE:
            record = self._state.get(storage, key)
            return record is not None and (decode_object(record.raw).get("spec") or {}).get("nodeName") == node
        if storage == VOLUMES:
            return self._leads_to_volume(node, key)
        if self._has(node, (storage, key)):
            return True
        return storage == SECRETS and any(
            self._leads_to_volume(node, volume) for volume in self._volumes_of.get(key, ())
        )

    def _leads_to_volume(self, node: str, key: Key) -> bool:
        volume = self._volumes.get(key)
        return volume is not None and self._has(node, (CLAIMS, volume.claim))

    def _has(self, node: str, vertex: Vertex) -> bool:
        return node in self._nodes_of.get(vertex, ())

    def _refresh(self) -> None:
        if not self._follows:
            self._follows = True
            self._changed = {(storage, key) for storage in FOLLOWED for key in self._state.collection(storage).records}
        for storage, key in self._changed:
            record = self._state.get(storage, key)
            obj = None if record is None else decode_object(record.raw)
            if storage == PODS:
                self._keep_pod(key, None if obj is None else _read_pod(obj))
            else:
                self._keep_volume(key, None if obj is None else _read_volume(obj))
        self._changed.clear()

    def _keep_pod(self, key: Key, pod: _Pod | None) -> None:
        before = self._pods.pop(key, None)
        if pod is not None:
            self._pods[key] = pod
            for vertex in pod.leads_to:
                self._nodes_of.setdefault(vertex, Counter())[pod.node] += 1
        if before is None:
            return
        for vertex in before.leads_to:
            nodes = self._nodes_of[vertex]
            nodes[before.node] -= 1
            if not nodes[before.node]:
                del nodes[before.node]
            if not nodes:
                del self._nodes_of[vertex]

    def _keep_volume(self, key: Key, volume: _Volume | None) -> None:
        before = self._volumes.pop(key, None)
        for secret in () if before is None else before.secrets:
            self._volumes_of[secret].discard(key)
            if not self._volumes_of[secret]:
                del self._volumes_of[secret]
        if volume is not None:
            self._volumes[key] = volume
            for secret in volume.secrets:
                self._volumes_of.setdefault(secret, set()).add(key)


def _read_pod(pod: Object) -> _Pod | None:
    """Parse a pod. Return None for a pod without a node.

    A mirror pod is created by its kubelet, so the objects that it refers to are ignored.
    """
    node = pod["spec"].get("nodeName")
    if not node:
        return None
    if _MIRROR in annotations_of(pod):
        return _Pod(node, frozenset())
    namespace = namespace_of(pod)
    return _Pod(node, frozenset((storage, make_key(namespace, name)) for storage, name in _references(pod) if name))


def _references(pod: Object) -> Iterator[tuple[str, str]]:
    """Yield storage and name of each object in the pod's namespace that the pod refers to; "" for a missing name."""
    spec, status = pod["spec"], pod.get("status") or {}
    yield ACCOUNTS, spec.get("serviceAccountName") or ""
    yield from ((SECRETS, name) for name in secret_names(pod))
    yield from ((CONFIG_MAPS, name) for name in config_map_names(spec))
    for volume in spec.get("volumes") or ():
        yield CLAIMS, (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
        if volume.get("ephemeral") is not None:
            yield CLAIMS, f"{name_of(pod)}-{volume['name']}"
    made = {claim["name"]: claim.get("resourceClaimName") for claim in status.get("resourceClaimStatuses") or ()}
    for claim in spec.get("resourceClaims") or ():
        yield RESOURCE_CLAIMS, claim.get("resourceClaimName") or made.get(claim["name"]) or ""
    yield RESOURCE_CLAIMS, (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName") or ""


def config_map_names(spec: Object) -> Iterator[str]:
    """Yield the names of the ConfigMaps that a pod refers to; "" for a reference without a name.

    spec: the pod's spec
    """
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            for source in container.get("envFrom") or ():
                yield _name(source.get("configMapRef"))
            for variable in container.get("env") or ():
                yield _name((variable.get("valueFrom") or {}).get("configMapKeyRef"))
    for volume in spec.get("volumes") or ():
        yield _name(volume.get("configMap"))
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield _name(source.get("configMap"))


def _read_volume(volume: Object) -> _Volume | None:
    """Parse a PersistentVolume. Return None for a volume without a claim."""
    spec = volume["spec"]
    claim = spec.get("claimRef")
    if claim is None:
        return None
    namespace = claim.get("namespace", "")
    found = [
        make_key(reference.get("namespace") or namespace, reference.get("name") or "")
        for source, fields in _SECRET_FIELDS.items()
        for field in fields
        if (reference := (spec.get(source) or {}).get(field))
    ]
    azure = spec.get("azureFile") or {}
    if azure.get("secretName"):
        found.append(make_key(azure.get("secretNamespace") or namespace, azure["secretName"]))
    return _Volume(make_key(namespace, claim.get("name", "")), frozenset(found))


def _name(reference: Any) -> str:
    return (reference or {}).get("name") or ""
