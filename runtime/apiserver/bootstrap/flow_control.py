"""Bootstrap FlowSchemas and PriorityLevelConfigurations, and the Dangling condition of FlowSchemas.

Missing objects are created at startup and then every minute. Existing objects are corrected while their annotation
apf.kubernetes.io/autoupdate-spec allows it. They have no effect on this server, which queues requests by its own rules
(http/priority.py).

Source: apiserver pkg/apis/flowcontrol/bootstrap/default.go, pkg/util/flowcontrol/apf_controller.go (Dangling),
kubernetes pkg/registry/flowcontrol/{ensurer,rest} (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from kcm.protocols.objects import Object, annotations_of, decode_object, name_of
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange
from kcm.runtime.apiserver.verbs.create import create_object

GROUP, VERSION = "flowcontrol.apiserver.k8s.io", "v1"
SCHEMAS, LEVELS = f"flowschemas.{GROUP}", f"prioritylevelconfigurations.{GROUP}"
EVERY = 60.0  # seconds between reconciliations
AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"

_EVERYBODY = ("system:unauthenticated", "system:authenticated")
_ALL_RESOURCES: Mapping[str, Any] = {
    "verbs": ["*"],
    "apiGroups": ["*"],
    "resources": ["*"],
    "clusterScope": True,
    "namespaces": ["*"],
}
_ALL_PATHS: Mapping[str, Any] = {"verbs": ["*"], "nonResourceURLs": ["*"]}
_PROBES: Mapping[str, Any] = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}


def _level(shares: int, lendable: int, queues: int = 0, hand: int = 6) -> Object:
    """Return the spec of a limited priority level.

    shares, lendable: nominal concurrency shares, and the percentage of them that other levels may borrow.
    queues: number of queues; 0 if the level rejects requests instead of queueing them.
    hand: hand size, the number of queues that a flow may use.
    """
    response: Object = {"type": "Reject"}
    if queues:
        queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
        response = {"type": "Queue", "queuing": queuing}
    limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable}
    return {"type": "Limited", "limited": limited}


_LEVEL_SPECS: Mapping[str, Object] = {
    "exempt": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": _level(5, 0),
    "system": _level(30, 33, 64),
    "node-high": _level(40, 25, 64),
    "leader-election": _level(10, 0, 16, hand=4),
    "workload-high": _level(40, 50, 128),
    "workload-low": _level(100, 90, 128),
    "global-default": _level(20, 50, 128),
}


def _groups(*names: str) -> list[Object]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Object]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _accounts(namespace: str) -> Object:
    return {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": "*"}}


def _schema(level: str, precedence: int, by: str, subjects: list[Object], **rules: list[Mapping[str, Any]]) -> Object:
    """Return the spec of a FlowSchema.

    by: type of the distinguisher method; "" if all requests of the schema are one flow.
    rules: resourceRules and nonResourceRules; all requests if there are none.
    """
    listed = rules or {"resourceRules": [_ALL_RESOURCES], "nonResourceRules": [_ALL_PATHS]}
    rule = {"subjects": subjects, **{name: [dict(entry) for entry in entries] for name, entries in listed.items()}}
    spec: Object = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [rule],
    }
    return {**spec, "distinguisherMethod": {"type": by}} if by else spec


_CONTROL_PLANE = _users("system:kube-controller-manager", "system:kube-scheduler")
_LEASES: Mapping[str, Any] = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]}
_SCHEMA_SPECS: Mapping[str, Object] = {
    "exempt": _schema("exempt", 1, "", _groups("system:masters")),
    "probes": _schema("exempt", 2, "", _groups(*_EVERYBODY), nonResourceRules=[_PROBES]),
    "system-leader-election": _schema(
        "leader-election",
        100,
        "ByUser",
        [*_CONTROL_PLANE, _accounts("kube-system")],
        resourceRules=[{"verbs": ["get", "create", "update"], **_LEASES}],
    ),
    "system-node-high": _schema(
        "node-high",
        400,
        "ByUser",
        _groups("system:nodes"),
        resourceRules=[
            {**_ALL_RESOURCES, "apiGroups": [""], "resources": ["nodes", "nodes/status"]},
            {"verbs": ["*"], **_LEASES},
        ],
    ),
    "system-nodes": _schema("system", 500, "ByUser", _groups("system:nodes")),
    "kube-controller-manager": _schema("workload-high", 800, "ByNamespace", _CONTROL_PLANE[:1]),
    "kube-scheduler": _schema("workload-high", 800, "ByNamespace", _CONTROL_PLANE[1:]),
    "kube-system-service-accounts": _schema("workload-high", 900, "ByNamespace", [_accounts("kube-system")]),
    "service-accounts": _schema("workload-low", 9000, "ByUser", _groups("system:serviceaccounts")),
    "global-default": _schema("global-default", 9900, "ByUser", _groups(*_EVERYBODY)),
    "catch-all": _schema("catch-all", 10000, "ByUser", _groups(*_EVERYBODY)),
}


class FlowControl:
    """Creates and corrects the bootstrap objects, and maintains the Dangling condition of FlowSchemas."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next = 0.0

    def is_due(self, now: float) -> bool:
        return now >= self._next

    def tick(self, now: float) -> None:
        self._next = now + EVERY
        self.reconcile()

    def react(self, change: StoreChange) -> None:
        if change.storage == SCHEMAS and change.type != DELETED:
            self._judge(change.key)
        elif change.storage == LEVELS:
            for key in list(self._cluster.state.collection(SCHEMAS).records):
                self._judge(key)

    def undo(self, change: StoreChange) -> None:
        """Do nothing: no state is derived from changes."""

    def reconcile(self) -> None:
        for definition, specs in self._kept():
            state = self._cluster.state
            for name, spec in specs.items():
                record = state.get(definition.storage, name)
                if record is None:
                    head = {"kind": definition.kind, "apiVersion": definition.api_version}
                    meta = {"name": name, "annotations": {AUTO_UPDATE: "true"}}
                    create_object(self._cluster, definition, {**head, "metadata": meta, "spec": deepcopy(spec)})
                else:
                    self._correct(definition, name, decode_object(record.raw), spec)

    def _kept(self) -> Iterator[tuple[ResourceDefinition, Mapping[str, Object]]]:
        """Yield each definition with its bootstrap specs by name.

        Priority levels are first, because FlowSchemas refer to them.
        """
        specs = {"prioritylevelconfigurations": _LEVEL_SPECS, "flowschemas": _SCHEMA_SPECS}
        for plural, wanted in specs.items():
            definition = self._cluster.registry.find(GROUP, VERSION, plural)
            if definition is not None:
                yield definition, wanted

    def _correct(self, definition: ResourceDefinition, name: str, stored: Object, spec: Object) -> None:
        wanted = {**stored, "spec": deepcopy(spec)}
        definition.strategy.set_defaults(wanted)
        if annotations_of(stored).get(AUTO_UPDATE) != "true" or wanted["spec"] == stored["spec"]:
            return
        meta = stored["metadata"]
        wanted["metadata"] = {**meta, "generation": (meta.get("generation") or 0) + 1}
        self._cluster.state.put(definition.storage, name, wanted)

    def _judge(self, key: str) -> None:
        record = self._cluster.state.get(SCHEMAS, key)
        if record is None:
            return
        schema = decode_object(record.raw)
        level = (schema["spec"].get("priorityLevelConfiguration") or {}).get("name") or ""
        is_there = self._cluster.state.get(LEVELS, level) is not None
        condition: Object = {
            "type": "Dangling",
            "status": "False" if is_there else "True",
            "lastTransitionTime": self._cluster.timestamp(),
            "reason": "Found" if is_there else "NotFound",
            "message": _message(level, is_there=is_there),
        }
        conditions = (schema.get("status") or {}).get("conditions") or []
        before: Object = next((entry for entry in conditions if entry.get("type") == "Dangling"), {})
        if before.get("status") == condition["status"]:
            condition["lastTransitionTime"] = before.get("lastTransitionTime")
        if before != condition:
            others = [entry for entry in conditions if entry.get("type") != "Dangling"]
            schema["status"] = {**(schema.get("status") or {}), "conditions": [*others, condition]}
            self._cluster.state.put(SCHEMAS, name_of(schema), schema)


def _message(level: str, *, is_there: bool) -> str:
    named = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    return f"{named} and it exists" if is_there else f"{named} but there is no such object"
