"""NodeRestriction: allow a kubelet to write only its own Node, Lease, CSINode, ResourceSlices and pods.

Source: kubernetes plugin/pkg/admission/noderestriction/admission.go (v1.36). Difference: the error about a forbidden
change of a claim contains the names of the fields, and upstream's a diff.
"""

from __future__ import annotations

import base64
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.access.node import LEASE_NAMESPACE, node_of
from kcm.runtime.apiserver.admission.attributes import CREATE, DELETE, UPDATE
from kcm.runtime.apiserver.admission.node_restriction import nodes, pods, tokens
from kcm.runtime.apiserver.admission.node_restriction.kubelet_request import KubeletRequest
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.registry.users import NODE

_OF_KUBELETS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")  # signer names
_OF_STATUS = (
    "capacity",
    "conditions",
    "allocatedResources",
    "allocatedResourceStatuses",
)  # claim status fields that nodes may change


def admit(cluster: Cluster, call: RoutedRequest, operation: str, new: Object | None, old: Object | None = None) -> None:
    """Check a request of a kubelet; requests of other users are ignored. Raises StatusError (403, 404).

    operation: CREATE, UPDATE or DELETE
    new: the object, or the body of a subresource; None for a deletion
    old: the object that is replaced or deleted; None for a creation
    """
    node = node_of(call.user)
    if node is None:
        return
    request = KubeletRequest(cluster, call, node, operation, new, old)
    if not node:
        raise request.refusal(f"could not determine node from user {quoted(call.user.name)}")
    match call.definition.storage:
        case "pods":
            pods.admit(request)
        case "nodes":
            nodes.admit(request)
        case "persistentvolumeclaims":
            _admit_claim(request)
        case "serviceaccounts":
            tokens.admit(request)
        case "leases.coordination.k8s.io":
            _admit_lease(request)
        case "csinodes.storage.k8s.io":
            _admit_own(request, "CSINode")
        case "resourceslices.resource.k8s.io":
            _admit_slice(request)
        case "podcertificaterequests.certificates.k8s.io":
            pods.admit_certificate_request(request)
        case "certificatesigningrequests.certificates.k8s.io":
            _admit_signing_request(request)


def _admit_lease(request: KubeletRequest) -> None:
    if request.call.route.namespace != LEASE_NAMESPACE:
        raise request.refusal(f"can only access leases in the {quoted(LEASE_NAMESPACE)} system namespace")
    _admit_own(request, "node lease")


def _admit_own(request: KubeletRequest, what: str) -> None:
    if request.name != request.node:
        raise request.refusal(f"can only access {what} with the same name as the requesting node")


def _admit_slice(request: KubeletRequest) -> None:
    """Check creations and deletions of ResourceSlices. The node authorizer checks updates, from the stored slice."""
    verb, obj = ("delete", request.old) if request.operation == DELETE else ("create", request.new)
    if request.operation != UPDATE and obj is not None and obj["spec"].get("nodeName") != request.node:
        raise request.refusal(f"can only {verb} ResourceSlice with the same NodeName as the requesting node")


def _admit_claim(request: KubeletRequest) -> None:
    if request.subresource != "status":
        raise request.refusal("may only update PVC status")
    assert request.new is not None
    assert request.old is not None
    now, before = _without_status(request.new), _without_status(request.old)
    changed = sorted(part for part in {*now, *before} if (now.get(part) or None) != (before.get(part) or None))
    if changed:
        raise request.refusal(
            f"node {quoted(request.node)} is not allowed to update fields other than status.quantity and "
            f"status.conditions: {', '.join(changed)}"
        )


def _without_status(claim: Object) -> dict[str, Any]:
    """Return the fields of a claim that a kubelet may not change, by path ("spec.volumeName")."""
    found: dict[str, Any] = {}
    for part in ("metadata", "spec", "status"):
        found |= {f"{part}.{field}": value for field, value in (claim.get(part) or {}).items()}
    for path in ("metadata.resourceVersion", "metadata.managedFields", *(f"status.{field}" for field in _OF_STATUS)):
        found.pop(path, None)
    return found


def _admit_signing_request(request: KubeletRequest) -> None:
    if request.operation != CREATE or request.new is None or request.new["spec"].get("signerName") not in _OF_KUBELETS:
        return
    from kcm.runtime.x509.requests import facts_of, parse_request  # heavy: cryptography

    try:
        facts = facts_of(parse_request(base64.b64decode(request.new["spec"].get("request") or "")))
    except ValueError as err:
        raise request.refusal(f"unable to parse csr: {err}") from err
    if facts.common_name != f"{NODE}{request.node}":
        raise request.refusal(f"can only create a node CSR with CN={NODE}{request.node}")
