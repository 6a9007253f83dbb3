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
from kcm.runtime.apiserver.admission.node_restriction.asked import Asked
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
    asked = Asked(cluster, call, node, operation, new, old)
    if not node:
        raise asked.refusal(f"could not determine node from user {quoted(call.user.name)}")
    match call.definition.storage:
        case "pods":
            pods.admit(asked)
        case "nodes":
            nodes.admit(asked)
        case "persistentvolumeclaims":
            _admit_claim(asked)
        case "serviceaccounts":
            tokens.admit(asked)
        case "leases.coordination.k8s.io":
            _admit_lease(asked)
        case "csinodes.storage.k8s.io":
            _admit_own(asked, "CSINode")
        case "resourceslices.resource.k8s.io":
            _admit_slice(asked)
        case "podcertificaterequests.certificates.k8s.io":
            pods.admit_certificate_request(asked)
        case "certificatesigningrequests.certificates.k8s.io":
            _admit_signing_request(asked)


def _admit_lease(asked: Asked) -> None:
    if asked.call.route.namespace != LEASE_NAMESPACE:
        raise asked.refusal(f"can only access leases in the {quoted(LEASE_NAMESPACE)} system namespace")
    _admit_own(asked, "node lease")


def _admit_own(asked: Asked, what: str) -> None:
    if asked.name != asked.node:
        raise asked.refusal(f"can only access {what} with the same name as the requesting node")


def _admit_slice(asked: Asked) -> None:
    """Check creations and deletions. Updates are left to the node authorizer, which reads the stored slice."""
    verb, obj = ("delete", asked.old) if asked.operation == DELETE else ("create", asked.new)
    if asked.operation != UPDATE and obj is not None and obj["spec"].get("nodeName") != asked.node:
        raise asked.refusal(f"can only {verb} ResourceSlice with the same NodeName as the requesting node")


def _admit_claim(asked: Asked) -> None:
    if asked.subresource != "status":
        raise asked.refusal("may only update PVC status")
    assert asked.new is not None
    assert asked.old is not None
    now, before = _without_status(asked.new), _without_status(asked.old)
    changed = sorted(part for part in {*now, *before} if (now.get(part) or None) != (before.get(part) or None))
    if changed:
        raise asked.refusal(
            f"node {quoted(asked.node)} is not allowed to update fields other than status.quantity and "
            f"status.conditions: {', '.join(changed)}"
        )


def _without_status(claim: Object) -> dict[str, Any]:
    """Return the fields that a kubelet may not change, by path ("spec.volumeName")."""
    found: dict[str, Any] = {}
    for part in ("metadata", "spec", "status"):
        found |= {f"{part}.{field}": value for field, value in (claim.get(part) or {}).items()}
    for path in ("metadata.resourceVersion", "metadata.managedFields", *(f"status.{field}" for field in _OF_STATUS)):
        found.pop(path, None)
    return found


def _admit_signing_request(asked: Asked) -> None:
    if asked.operation != CREATE or asked.new is None or asked.new["spec"].get("signerName") not in _OF_KUBELETS:
        return
    from kcm.runtime.x509.requests import facts_of, parse_request  # heavy: cryptography

    try:
        facts = facts_of(parse_request(base64.b64decode(asked.new["spec"].get("request") or "")))
    except ValueError as err:
        raise asked.refusal(f"unable to parse csr: {err}") from err
    if facts.common_name != f"{NODE}{asked.node}":
        raise asked.refusal(f"can only create a node CSR with CN={NODE}{asked.node}")
