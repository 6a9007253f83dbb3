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
from kcm.runtime.apiserver.admission.node_restriction.asked import Asked
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


def admit(asked: Asked) -> None:
    """Check a kubelet's write of a pod, of its status, or an eviction. Raises StatusError (403, 404)."""
    match asked.subresource:
        case "":
            _admit_pod(asked)
        case "status":
            _admit_status(asked)
        case "eviction":
            if _node_of(asked.pod(asked.name)) != asked.node:
                raise asked.refusal(f"node {asked.node} can only evict pods with spec.nodeName set to itself")
        case other:
            raise asked.refusal(f"unexpected pod subresource {quoted(other)}, only 'status' and 'eviction' are allowed")


def admit_certificate_request(asked: Asked) -> None:
    """Check a PodCertificateRequest. Raises StatusError (403, 500).

    The error is 500 if upstream's caches could be stale, so that the kubelet retries.
    """
    if asked.operation != CREATE or asked.new is None:
        raise asked.refusal(f"unexpected operation {asked.operation}")
    spec, namespace = asked.new["spec"], asked.call.route.namespace
    if spec.get("nodeName") != asked.node:
        raise asked.refusal(
            f"PodCertificateRequest.Spec.NodeName={quoted(spec.get('nodeName') or '')}, which is not the requesting "
            f"node {quoted(asked.node)}"
        )
    of_pod = f"PodCertificateRequest for pod {quoted(make_key(namespace, spec.get('podName') or ''))}"
    node = _named(asked, "node", "nodes", spec.get("nodeName") or "")
    if uid_of(node) != spec.get("nodeUID"):
        raise _later(
            f"{of_pod} names node UID {_quoted(spec, 'nodeUID')}, inconsistent with the running node "
            f"({quoted(uid_of(node))})"
        )
    key = make_key(namespace, spec.get("podName") or "")
    pod = _named(asked, "pod", "pods", key)
    if uid_of(pod) != spec.get("podUID"):
        difference = (
            f"contains pod UID ({_quoted(spec, 'podUID')}) which differs from running pod {quoted(uid_of(pod))}"
        )
        raise _later(f"{of_pod} {difference}")
    if _node_of(pod) != asked.node:
        raise asked.refusal(
            f"pod {quoted(key)} is not running on node {quoted(asked.node)} named in the PodCertificateRequest"
        )
    if MIRROR in annotations_of(pod):
        raise asked.refusal(f"pod {quoted(key)} is a mirror pod")
    account = pod["spec"].get("serviceAccountName") or ""
    if spec.get("serviceAccountName") != account:
        raise asked.refusal(
            f"{of_pod} contains serviceAccountName ({_quoted(spec, 'serviceAccountName')}) that differs from running "
            f"pod ({quoted(account)})"
        )
    known = _named(asked, "service account", "serviceaccounts", make_key(namespace, account))
    if uid_of(known) != spec.get("serviceAccountUID"):
        raise _later(
            f"{of_pod} names service account UID {_quoted(spec, 'serviceAccountUID')}, which differs from the running "
            f"service account ({quoted(uid_of(known))})"
        )


def _admit_pod(asked: Asked) -> None:
    node = quoted(asked.node)
    if asked.operation == DELETE:
        if asked.old is not None and _node_of(asked.old) != asked.node:
            raise asked.refusal(f"node {node} can only delete pods with spec.nodeName set to itself")
        return
    if asked.operation != CREATE or asked.new is None:
        raise asked.refusal(
            f"unexpected operation {quoted(asked.operation)}, node {node} can only create and delete mirror pods"
        )
    pod = asked.new
    if MIRROR not in annotations_of(pod):
        raise asked.refusal(f"pod does not have {quoted(MIRROR)} annotation, node {node} can only create mirror pods")
    if _node_of(pod) != asked.node:
        raise asked.refusal(f"node {node} can only create pods with spec.nodeName set to itself")
    _check_owner(asked, pod)
    reference = next(_references(asked, pod), "")
    if reference:
        raise asked.refusal(f"node {node} can not create pods that reference {reference}")


def _check_owner(asked: Asked, pod: Object) -> None:
    """Check that the only owner of a mirror pod is the kubelet's Node. Raises StatusError (403, 404)."""
    node, owners = quoted(asked.node), pod["metadata"].get("ownerReferences") or []
    if len(owners) > 1:
        raise asked.refusal(f"node {node} can only create pods with a single owner reference set to itself")
    owner = owners[0] if owners else {}
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", asked.node):
        raise asked.refusal(f"node {node} can only create pods with an owner reference set to itself")
    if not owner.get("controller"):
        raise asked.refusal(f"node {node} can only create pods with a controller owner reference set to itself")
    if owner.get("blockOwnerDeletion"):
        raise asked.refusal(f"node {node} must not set blockOwnerDeletion on an owner reference")
    uid, known = owner.get("uid") or "", uid_of(asked.found("node", "nodes", asked.node))
    if uid != known:
        raise asked.refusal(f"node {asked.node} UID mismatch: expected {uid} got {known}")


def _admit_status(asked: Asked) -> None:
    assert asked.new is not None
    assert asked.old is not None
    node = quoted(asked.node)
    if _node_of(asked.old) != asked.node:
        raise asked.refusal(f"node {node} can only update pod status for pods with spec.nodeName set to itself")
    if labels_of(asked.new) != labels_of(asked.old):
        raise asked.refusal(f"node {node} cannot update labels through pod status")
    now, before = asked.new.get("status") or {}, asked.old.get("status") or {}
    if (now.get("resourceClaimStatuses") or []) != (before.get("resourceClaimStatuses") or []):
        raise asked.refusal(f"node {node} cannot update resource claim statues")
    if now.get("extendedResourceClaimStatus") != before.get("extendedResourceClaimStatus"):
        raise asked.refusal(f"node {node} cannot update extended resource claim status")


def _references(asked: Asked, pod: Object) -> Iterator[str]:
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
            raise asked.refusal(f"error checking mirror pod for API references: {unknown}")


def _named(asked: Asked, what: str, storage: str, key: str) -> Object:
    """Return an object that a PodCertificateRequest names. Raises StatusError (500) if it does not exist.

    what: type of the object for the error, such as "service account"
    storage, key: storage key of the resource, and key of the object
    """
    try:
        return asked.found(what.replace(" ", ""), storage, key)
    except StatusError as err:
        raise _later(
            f"while retrieving {what} {quoted(key)} named in the PodCertificateRequest: {err.message}"
        ) from err


def _later(text: str) -> StatusError:
    return status_errors.without_reason(text)


def _quoted(spec: Any, field: str) -> str:
    return quoted(spec.get(field) or "")


def _node_of(pod: Object) -> str:
    return pod["spec"].get("nodeName") or ""
