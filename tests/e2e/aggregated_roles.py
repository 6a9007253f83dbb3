"""User actions on aggregated ClusterRoles, and the resulting rules, for any cluster."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import until

LABEL = "example.com/aggregate-to-monitoring"
GETS = {"verbs": ["get"], "apiGroups": [""], "resources": ["services"]}
LISTS = {"verbs": ["list", "watch"], "apiGroups": ["apps"], "resources": ["deployments", "replicasets"]}
MANAGER = "clusterrole-aggregation-controller"


def role(kubectl: Kubectl, name: str) -> dict[str, Any]:
    return kubectl.api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}")


def rules(kubectl: Kubectl, name: str) -> list[Any]:
    return role(kubectl, name).get("rules") or []


def aggregate(kubectl: Kubectl) -> dict[str, Any]:
    """Returns what was seen on the way, equal wherever roles are aggregated."""
    seen: dict[str, Any] = {}

    def until_rules(wanted: list[Any], what: str) -> None:
        until(lambda: rules(kubectl, "monitoring") == wanted, what, why=lambda: str(role(kubectl, "monitoring")))

    kubectl("create", "clusterrole", "monitoring", f"--aggregation-rule={LABEL}=true")
    kubectl("create", "clusterrole", "zz-services", "--verb=get", "--resource=services")
    kubectl("create", "clusterrole", "aa-workloads", "--verb=list,watch", "--resource=deployments,replicasets.apps")
    kubectl("label", "clusterrole", "zz-services", f"{LABEL}=true")
    until_rules([GETS], "the first")
    kubectl("label", "clusterrole", "aa-workloads", f"{LABEL}=true")
    until(
        lambda: rules(kubectl, "monitoring") == [LISTS, GETS], "by name", why=lambda: str(role(kubectl, "monitoring"))
    )
    fields = [
        entry for entry in role(kubectl, "monitoring")["metadata"]["managedFields"] if entry["manager"] == MANAGER
    ]
    seen["owned"] = [{**entry, "time": ""} for entry in fields]

    kubectl("patch", "clusterrole", "monitoring", "--type=merge", "-p", json.dumps({"rules": [GETS]}))
    until_rules([LISTS, GETS], "a change by hand does not stay")
    kubectl("create", "clusterrole", "copy", "--verb=get", "--resource=services")
    kubectl("label", "clusterrole", "copy", f"{LABEL}=true")
    kubectl("delete", "clusterrole", "zz-services")
    until_rules([LISTS, GETS], "each rule once")
    kubectl("label", "clusterrole", "aa-workloads", "copy", f"{LABEL}-")
    until(
        lambda: rules(kubectl, "monitoring") == [], "nothing is selected", why=lambda: str(role(kubectl, "monitoring"))
    )
    kubectl("label", "clusterrole", "copy", f"{LABEL}=true")
    until_rules([GETS], "and something again")
    seen["table"] = kubectl("get", "clusterrole", "monitoring").split()[:3]
    seen["described"] = [line.split() for line in kubectl("describe", "clusterrole", "monitoring").splitlines()]
    return seen


def clear(kubectl: Kubectl) -> None:
    names = ("monitoring", "zz-services", "aa-workloads", "copy", "stale")
    kubectl("delete", "clusterroles", *names, "--ignore-not-found")
