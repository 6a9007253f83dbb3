"""Upstream's bootstrap roles and role bindings, which kube-apiserver creates at startup.

rbac_policy.json has one object per line, in the order of creation, without the label and the annotation that all these
objects have. It was recorded from kube-apiserver 1.36 with the feature gates ClusterTrustBundle and
PodCertificateRequest, as their resources are served here. To record another release, run with the kubeconfig of a
newly created cluster:

    kubectl get clusterroles,clusterrolebindings,roles,rolebindings -A -o json \\
        | python -m kcm.runtime.apiserver.bootstrap.policy

Source: kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy (v1.36).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson

from kcm.protocols.objects import Object, name_of, namespace_of
from kcm.runtime.apiserver.registry.policy_rules import Rule, rules_in

FILE = Path(__file__).with_name("rbac_policy.json")
API_VERSION = "rbac.authorization.k8s.io/v1"
KINDS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_KEPT = ("aggregationRule", "rules", "subjects", "roleRef")


def bootstrap_policy() -> list[Object]:
    """Return new copies of the bootstrap objects: roles before bindings, cluster-scoped before namespaced objects."""
    return [_whole(orjson.loads(line)) for line in FILE.read_bytes().splitlines()]


def node_rules() -> tuple[Rule, ...]:
    """Return the RBAC rules that all kubelets share."""
    role = next(role for role in bootstrap_policy() if role["kind"] == "ClusterRole" and name_of(role) == "system:node")
    return rules_in(role)


def _whole(obj: Object) -> Object:
    meta = obj["metadata"]
    meta["labels"] = {**LABELS, **meta.get("labels", {})}
    meta["annotations"] = {AUTO_UPDATE: "true"}
    return {"apiVersion": API_VERSION, **obj}


def condensed(objects: Iterable[Object]) -> list[Object]:
    """Return the bootstrap objects in the form of rbac_policy.json, without the objects that users created."""
    kept = [obj for obj in objects if (obj["metadata"].get("labels") or {}).items() >= LABELS.items()]
    kept.sort(key=lambda obj: (KINDS.index(obj["kind"]), namespace_of(obj), name_of(obj)))
    return [_short(obj) for obj in kept]


def _short(obj: Object) -> Object:
    meta = {field: value for field in ("namespace", "name") if (value := obj["metadata"].get(field))}
    labels = {key: value for key, value in obj["metadata"]["labels"].items() if key not in LABELS}
    if labels:
        meta["labels"] = labels
    return {"kind": obj["kind"], "metadata": meta, **{field: obj[field] for field in _KEPT if field in obj}}


def main(_arguments: Sequence[str] = ()) -> int:
    objects = condensed(orjson.loads(sys.stdin.buffer.read())["items"])
    FILE.write_bytes(b"".join(orjson.dumps(obj) + b"\n" for obj in objects))
    return 0


if __name__ == "__main__":
    sys.exit(main())
