"""Rules for kubelets that write Nodes: only their own, without taints, and only labels that kubelets may set.

Source: kubernetes plugin/pkg/admission/noderestriction/admission.go (admitNode), kubelet pkg/apis/well_known_labels.go
(v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from kcm.protocols.objects import Object, labels_of
from kcm.runtime.apiserver.admission.attributes import CREATE, UPDATE
from kcm.runtime.apiserver.admission.node_restriction.kubelet_request import KubeletRequest
from kcm.runtime.apiserver.errors.field_errors import quoted

_RESTRICTED = ("node-restriction.kubernetes.io",)
_OF_KUBERNETES = ("kubernetes.io", "k8s.io")
_OF_KUBELETS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_SET_BY_KUBELETS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
    }
)


def admit(request: KubeletRequest) -> None:
    """Check that a kubelet writes only its own Node, and only fields and labels that it may set.

    Raises StatusError (403).
    """
    node, new, old = quoted(request.node), request.new, request.old
    if request.name != request.node:
        raise request.refusal(f"node {node} is not allowed to modify node {quoted(request.name)}")
    if new is None:
        return
    spec = new.get("spec") or {}
    if request.operation == CREATE:
        if spec.get("configSource") is not None:
            raise request.refusal(f"node {node} is not allowed to create pods with a non-nil configSource")
        forbidden = forbidden_labels(labels_of(new), {})
        if forbidden:
            raise request.refusal(f"node {node} is not allowed to set the following labels: {', '.join(forbidden)}")
    elif request.operation == UPDATE and old is not None:
        before = old.get("spec") or {}
        source = spec.get("configSource")
        if source is not None and source != before.get("configSource"):
            raise request.refusal(f"node {node} is not allowed to update configSource to a new non-nil configSource")
        if (spec.get("taints") or []) != (before.get("taints") or []):
            raise request.refusal(f"node {node} is not allowed to modify taints")
        if _owners(new) != _owners(old):
            raise request.refusal(f"node {node} is not allowed to modify ownerReferences")
        forbidden = forbidden_labels(labels_of(new), labels_of(old))
        if forbidden:
            raise request.refusal(f"is not allowed to modify labels: {', '.join(forbidden)}")


def forbidden_labels(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Return the sorted keys of added, changed and removed labels that a kubelet may not change."""
    changed = {*now.items()} ^ {*before.items()}
    return sorted({label for label, _ in changed if _is_forbidden(label)})


def _is_forbidden(label: str) -> bool:
    prefix, slash, _ = label.partition("/")
    if not slash:
        return False
    if _is_below(prefix, _RESTRICTED):
        return True
    return _is_below(prefix, _OF_KUBERNETES) and not (label in _SET_BY_KUBELETS or _is_below(prefix, _OF_KUBELETS))


def _is_below(prefix: str, domains: tuple[str, ...]) -> bool:
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in domains)


def _owners(node: Object) -> list[Object]:
    return node["metadata"].get("ownerReferences") or []
