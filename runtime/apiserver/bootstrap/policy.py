"""Upstream's bootstrap roles and their bindings: what a kube-apiserver makes at its start.

rbac_policy.json has one object a line, in the order in which they are made, without the label and the annotation that
all of them have. It is what kube-apiserver 1.36 has made, with the feature gates ClusterTrustBundle and
PodCertificateRequest, as their resources are served here. To record that of another release, with a kubeconfig of a
server that nobody has used yet:

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
    """Roles before bindings, of the cluster before those of namespaces; new objects."""
    return [_whole(orjson.loads(line)) for line in FILE.read_bytes().splitlines()]


def node_rules() -> tuple[Rule, ...]:
    """What kubelets may do, as far as it is the same for all."""
    role = next(one for one in bootstrap_policy() if one["kind"] == "ClusterRole" and name_of(one) == "system:node")
    return rules_in(role)


def _whole(one: Object) -> Object:
    meta = one["metadata"]
    meta["labels"] = {**LABELS, **meta.get("labels", {})}
    meta["annotations"] = {AUTO_UPDATE: "true"}
    return {"apiVersion": API_VERSION, **one}


def condensed(objects: Iterable[Object]) -> list[Object]:
    """As they stand in the file. Those that a user has made are left out."""
    kept = [one for one in objects if (one["metadata"].get("labels") or {}).items() >= LABELS.items()]
    kept.sort(key=lambda one: (KINDS.index(one["kind"]), namespace_of(one), name_of(one)))
    return [_short(one) for one in kept]


def _short(one: Object) -> Object:
    meta = {field: value for field in ("namespace", "name") if (value := one["metadata"].get(field))}
    labels = {key: value for key, value in one["metadata"]["labels"].items() if key not in LABELS}
    if labels:
        meta["labels"] = labels
    return {"kind": one["kind"], "metadata": meta, **{field: one[field] for field in _KEPT if field in one}}


def main(_arguments: Sequence[str] = ()) -> int:
    objects = condensed(orjson.loads(sys.stdin.buffer.read())["items"])
    FILE.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in objects))
    return 0


if __name__ == "__main__":
    sys.exit(main())
