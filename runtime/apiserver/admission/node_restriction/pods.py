"""Rules for kubelets that write pods.

A kubelet may create mirror pods without references to API objects, and update the status of, evict and delete the pods
of its own node.

Source: kubernetes plugin/pkg/admission/noderestriction/admission.go (admitPod, admitPodStatus, admitPodEviction,
admitPodCertificateRequest), pkg/api/pod/util.go (HasAPIObjectReference) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.mounted_secrets import secret_names
from kcm.protocols.objects import Object, annotations_of, labels_of, make_key, uid_of
from kcm.runtime.apiserver.access.node_graph import config_map_names
from kcm.runtime.apiserver.admission.attributes import CREATE, DELETE
from kcm.runtime.apiserver.admission.node_restriction.kubelet_request import KubeletRequest
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError

MIRROR = "kubernetes.io/config.mirror"  # annotation
# Volume sources that refer to no API object.
_PLAIN = frozenset(
    {
        "awsElasticBlockStore",
        "azureDisk",
        "cephfs",
        "cinder",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    }
)
_LEADING = {
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED = {
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def admit(request: KubeletRequest) -> None:
    """Check that a kubelet creates only mirror pods, and updates, evicts and deletes only pods of its node.

    Raises StatusError (403, 404).
    """
    match request.subresource:
        case "":
            _admit_pod(request)
        case "status":
            _admit_status(request)
        case "eviction":
            if _node_of(request.pod(request.name)) != request.node:
                raise request.refusal(f"node {request.node} can only evict pods with spec.nodeName set to itself")
        case other:
            raise request.refusal(
                f"unexpected pod subresource {quoted(other)}, only 'status' and 'eviction' are allowed"
            )


def admit_certificate_request(request: KubeletRequest) -> None:
    """Check a PodCertificateRequest. Raises StatusError (403, 500).

    Errors that stale caches of a kube-apiserver could cause have the code 500, so that the kubelet retries.
    """
    if request.operation != CREATE or request.new is None:
        raise request.refusal(f"unexpected operation {request.operation}")
    spec, namespace = request.new["spec"], request.call.route.namespace
    if spec.get("nodeName") != request.node:
        raise request.refusal(
            f"PodCertificateRequest.Spec.NodeName={quoted(spec.get('nodeName') or '')}, which is not the requesting "
            f"node {quoted(request.node)}"
        )
    of_pod = f"PodCertificateRequest for pod {quoted(make_key(namespace, spec.get('podName') or ''))}"
    node = _named_object(request, "node", "nodes", spec.get("nodeName") or "")
    if uid_of(node) != spec.get("nodeUID"):
        raise _retriable_error(
            f"{of_pod} names node UID {_quoted(spec, 'nodeUID')}, inconsistent with the running node "
            f"({quoted(uid_of(node))})"
        )
    key = make_key(namespace, spec.get("podName") or "")
    pod = _named_object(request, "pod", "pods", key)
    if uid_of(pod) != spec.get("podUID"):
        difference = (
            f"contains pod UID ({_quoted(spec, 'podUID')}) which differs from running pod {quoted(uid_of(pod))}"
        )
        raise _retriable_error(f"{of_pod} {difference}")
    if _node_of(pod) != request.node:
        raise request.refusal(
            f"pod {quoted(key)} is not running on node {quoted(request.node)} named in the PodCertificateRequest"
        )
    if MIRROR in annotations_of(pod):
        raise request.refusal(f"pod {quoted(key)} is a mirror pod")
    account = pod["spec"].get("serviceAccountName") or ""
    if spec.get("serviceAccountName") != account:
        raise request.refusal(
            f"{of_pod} contains serviceAccountName ({_quoted(spec, 'serviceAccountName')}) that differs from running "
            f"pod ({quoted(account)})"
        )
    known = _named_object(request, "service account", "serviceaccounts", make_key(namespace, account))
    if uid_of(known) != spec.get("serviceAccountUID"):
        raise _retriable_error(
            f"{of_pod} names service account UID {_quoted(spec, 'serviceAccountUID')}, which differs from the running "
            f"service account ({quoted(uid_of(known))})"
        )


def _admit_pod(request: KubeletRequest) -> None:
    node = quoted(request.node)
    if request.operation == DELETE:
        if request.old is not None and _node_of(request.old) != request.node:
            raise request.refusal(f"node {node} can only delete pods with spec.nodeName set to itself")
        return
    if request.operation != CREATE or request.new is None:
        raise request.refusal(
            f"unexpected operation {quoted(request.operation)}, node {node} can only create and delete mirror pods"
        )
    pod = request.new
    if MIRROR not in annotations_of(pod):
        raise request.refusal(f"pod does not have {quoted(MIRROR)} annotation, node {node} can only create mirror pods")
    if _node_of(pod) != request.node:
        raise request.refusal(f"node {node} can only create pods with spec.nodeName set to itself")
    _check_owner(request, pod)
    reference = next(_references(request, pod), "")
    if reference:
        raise request.refusal(f"node {node} can not create pods that reference {reference}")


def _check_owner(request: KubeletRequest, pod: Object) -> None:
    """Check that the only owner of a mirror pod is the kubelet's Node. Raises StatusError (403, 404)."""
    node, owners = quoted(request.node), pod["metadata"].get("ownerReferences") or []
    if len(owners) > 1:
        raise request.refusal(f"node {node} can only create pods with a single owner reference set to itself")
    owner = owners[0] if owners else {}
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", request.node):
        raise request.refusal(f"node {node} can only create pods with an owner reference set to itself")
    if not owner.get("controller"):
        raise request.refusal(f"node {node} can only create pods with a controller owner reference set to itself")
    if owner.get("blockOwnerDeletion"):
        raise request.refusal(f"node {node} must not set blockOwnerDeletion on an owner reference")
    uid, known = owner.get("uid") or "", uid_of(request.stored_object("node", "nodes", request.node))
    if uid != known:
        raise request.refusal(f"node {request.node} UID mismatch: expected {uid} got {known}")


def _admit_status(request: KubeletRequest) -> None:
    assert request.new is not None
    assert request.old is not None
    node = quoted(request.node)
    if _node_of(request.old) != request.node:
        raise request.refusal(f"node {node} can only update pod status for pods with spec.nodeName set to itself")
    if labels_of(request.new) != labels_of(request.old):
        raise request.refusal(f"node {node} cannot update labels through pod status")
    now, before = request.new.get("status") or {}, request.old.get("status") or {}
    if (now.get("resourceClaimStatuses") or []) != (before.get("resourceClaimStatuses") or []):
        raise request.refusal(f"node {node} cannot update resource claim statues")
    if now.get("extendedResourceClaimStatus") != before.get("extendedResourceClaimStatus"):
        raise request.refusal(f"node {node} cannot update extended resource claim status")


def _references(request: KubeletRequest, pod: Object) -> Iterator[str]:
    """Yield the resources of the API objects that a pod refers to, as phrases for the error.

    Raises StatusError (403) for an unknown volume source.
    """
    spec = pod["spec"]
    if spec.get("serviceAccountName"):
        yield "serviceaccounts"
    if secret_names(pod):
        yield "secrets"
    if any(config_map_names(spec)):
        yield "configmaps"
    if spec.get("resourceClaims"):
        yield "resourceclaims"
    for volume in spec.get("volumes") or ():
        kind = next((field for field in volume if field != "name" and volume[field] is not None), "")
        if kind in _LEADING:
            yield _LEADING[kind]
        elif kind == "projected":
            for source in volume[kind].get("sources") or ():
                yield from (_PROJECTED[field] for field in source if field in _PROJECTED)
        elif kind not in _PLAIN:
            unknown = f"unknown volume type for volume  {quoted(volume['name'])}"
            raise request.refusal(f"error checking mirror pod for API references: {unknown}")


def _named_object(request: KubeletRequest, what: str, storage: str, key: str) -> Object:
    """Return an object that a PodCertificateRequest names. Raises StatusError (500) if it does not exist.

    what: type of the object for the error, such as "service account"
    storage: name of the resource in the store, such as "serviceaccounts"
    key: namespace/name, or the name of a cluster-scoped object
    """
    try:
        return request.stored_object(what.replace(" ", ""), storage, key)
    except StatusError as err:
        raise _retriable_error(
            f"while retrieving {what} {quoted(key)} named in the PodCertificateRequest: {err.message}"
        ) from err


def _retriable_error(text: str) -> StatusError:
    return status_errors.without_reason(text)


def _quoted(spec: Any, field: str) -> str:
    return quoted(spec.get(field) or "")


def _node_of(pod: Object) -> str:
    return pod["spec"].get("nodeName") or ""
