"""Node authorization, for users system:node:NAME in the group system:nodes.

A kubelet may read what its pods need, and write its own Node, Lease and CSINode. Creations, whose name is not in the
path, are checked by the admission plugin NodeRestriction.

Source: kubernetes plugin/pkg/auth/authorizer/node/node_authorizer.go, pkg/auth/nodeidentifier/default.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from kcm.protocols.objects import make_key
from kcm.runtime.apiserver.access.node_graph import (
    ACCOUNTS,
    CLAIMS,
    CONFIG_MAPS,
    PODS,
    RESOURCE_CLAIMS,
    SECRETS,
    VOLUMES,
    NodeGraph,
)
from kcm.runtime.apiserver.registry.policy_rules import Rule, allows
from kcm.runtime.apiserver.registry.request_info import RequestInfo, required_value
from kcm.runtime.apiserver.registry.users import ALLOWED, NODE, NODES, Decision, User

LEASES, CSI_NODES = "leases.coordination.k8s.io", "csinodes.storage.k8s.io"
SLICES, REQUESTS = "resourceslices.resource.k8s.io", "podcertificaterequests.certificates.k8s.io"
LEASE_NAMESPACE = "kube-node-lease"
_OWN_VERBS = ("get", "create", "update", "patch", "delete")
_READ = ("get", "list", "watch")
_NO = Decision(allowed=False)
# Resources that a node may get by name, but not list.
_GET = frozenset({CLAIMS, VOLUMES, RESOURCE_CLAIMS, "volumeattachments.storage.k8s.io"})


def node_of(user: User) -> str | None:
    """Return the name of the node that the user is.

    None if the user is not a node, "" if the node's name is missing.
    """
    return user.name.removeprefix(NODE) if user.name.startswith(NODE) and NODES in user.groups else None


class NodeAuthorizer:
    def __init__(self, graph: NodeGraph, rules: Sequence[Rule]) -> None:
        """Create an authorizer.

        rules: rules that apply to every node.
        """
        self._graph, self._rules = graph, tuple(rules)

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        node = node_of(user)
        if node is None:
            return _NO
        if not node:
            return _no(f'unknown node for user "{user.name}"')
        if info.is_resource_request:
            what = f"{info.resource}.{info.group}" if info.group else info.resource
            decision = self._resource(node, what, info)
            if decision is not None:
                return decision
        return ALLOWED if any(allows(rule, info) for rule in self._rules) else _NO

    def _resource(self, node: str, what: str, info: RequestInfo) -> Decision | None:
        """Decide a request for a resource with rules of its own. Return None for other resources."""
        if what in (SECRETS, CONFIG_MAPS):
            return self._read(node, what, info)
        if what == CLAIMS and info.subresource == "status":
            if info.verb not in ("update", "patch"):
                return _no("can only get/update/patch this type")
            return self._related(node, what, info)
        if what in _GET:
            return self._get(node, what, info)
        match what:
            case "serviceaccounts":
                return self._account(node, info)
            case "leases.coordination.k8s.io":
                return _lease(node, info)
            case "csinodes.storage.k8s.io":
                return _csi_node(node, info)
            case "resourceslices.resource.k8s.io":
                return self._slice(node, info)
            case "podcertificaterequests.certificates.k8s.io":
                return self._certificate_request(node, info)
            case "nodes":
                return _node(node, info)
            case "pods":
                return self._pod(node, info)
        return None

    def _related(self, node: str, what: str, info: RequestInfo) -> Decision:
        if not info.name:
            return _no("No Object name found")
        if self._graph.is_related(node, what, make_key(info.namespace, info.name)):
            return ALLOWED
        return _no(f"no relationship found between node '{node}' and this object")

    def _get(self, node: str, what: str, info: RequestInfo) -> Decision:
        if info.verb != "get":
            return _no("can only get individual resources of this type")
        if info.subresource:
            return _no("cannot get subresource")
        return self._related(node, what, info)

    def _read(self, node: str, what: str, info: RequestInfo) -> Decision:
        if info.verb not in _READ:
            return _no("can only read resources of this type")
        if info.subresource:
            return _no("cannot read subresource")
        if not info.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, what, info)

    def _account(self, node: str, info: RequestInfo) -> Decision:
        if info.verb == "get" and not info.subresource:
            return self._read(node, ACCOUNTS, info)
        if info.verb != "create" or not info.name:
            return _no("can only create tokens for individual service accounts")
        if info.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._related(node, ACCOUNTS, info)

    def _slice(self, node: str, info: RequestInfo) -> Decision:
        if info.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        match info.verb:
            case "create":
                return ALLOWED
            case "get" | "update" | "patch" | "delete":
                return self._related(node, SLICES, info)
            case "watch" | "list" | "deletecollection":
                if required_value(info.field_selector, "spec.nodeName") == node:
                    return ALLOWED
                return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")
        return _no(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, "
            "delete, deletecollection"
        )

    def _certificate_request(self, node: str, info: RequestInfo) -> Decision:
        if info.subresource:
            return _no("nodes may not access the status subresource of PodCertificateRequests")
        match info.verb:
            case "create":
                return ALLOWED
            case "get":
                return self._related(node, REQUESTS, info)
            case "list" | "watch":
                if required_value(info.field_selector, "spec.nodeName") == node:
                    return ALLOWED
                return _no("can only list/watch podcertificaterequests with nodeName field selector")
        return _no(f"nodes may not {info.verb} podcertificaterequests")

    def _pod(self, node: str, info: RequestInfo) -> Decision:
        match info.subresource, info.verb:
            case "", "get":
                return self._get(node, PODS, info)
            case "", "list" | "watch":
                if required_value(info.field_selector, "spec.nodeName") == node:
                    return ALLOWED
                if info.name:
                    return self._related(node, PODS, info)
                return _no("can only list/watch pods with spec.nodeName field selector")
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return ALLOWED
        return _NO


def _lease(node: str, info: RequestInfo) -> Decision:
    if info.verb not in _OWN_VERBS:
        return _no("can only get, create, update, patch, or delete a node lease")
    if info.namespace != LEASE_NAMESPACE:
        return _no(f'can only access leases in the "{LEASE_NAMESPACE}" system namespace')
    if info.verb != "create" and info.name != node:
        return _no("can only access node lease with the same name as the requesting node")
    return ALLOWED


def _csi_node(node: str, info: RequestInfo) -> Decision:
    if info.verb not in _OWN_VERBS:
        return _no("can only get, create, update, patch, or delete a CSINode")
    if info.subresource:
        return _no("cannot authorize CSINode subresources")
    if info.verb != "create" and info.name != node:
        return _no("can only access CSINode with the same name as the requesting node")
    return ALLOWED


def _node(node: str, info: RequestInfo) -> Decision:
    match info.subresource, info.verb:
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return ALLOWED
        case "", "get" | "list" | "watch" if info.name == node:
            return ALLOWED
        case "", "get" | "list" | "watch" if not info.name:
            return _no(f"node '{node}' cannot read all nodes, only its own Node object")
        case "", "get" | "list" | "watch":
            return _no(f"node '{node}' cannot read '{info.name}', only its own Node object")
    return _NO


def _no(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason)
