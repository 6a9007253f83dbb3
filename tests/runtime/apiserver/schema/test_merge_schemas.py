"""Strategic merge patches of kubectl and of our controllers for built-in kinds, and lists that merge."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.schema.merge_schemas import merge_schema_of
from kcm.runtime.apiserver.schema.strategic_merge import MergeSchema, apply_strategic_merge
from kcm.runtime.schema.api_types import built_in_types


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def schema_of(kind: str) -> MergeSchema:
    """Return the merge schema of a built-in kind in version v1."""
    *_, found = sorted(each for each in built_in_types().kinds if each.endswith(f"v1/{kind}"))
    group, _, version = found.rpartition("/")[0].rpartition("/")
    return merge_schema_of(group, version, kind)


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}
OTHER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u2"}


def test_adopting_adds_an_owner_and_a_finalizer() -> None:
    pod = {"metadata": {"name": "p", "ownerReferences": [OTHER], "finalizers": ["example.com/a"]}}
    patch = {"metadata": {"uid": "p1", "ownerReferences": [OWNER], "finalizers": ["batch.kubernetes.io/job-tracking"]}}
    patched = apply_strategic_merge(pod, patch, schema=schema_of("Pod"))
    assert patched["metadata"]["ownerReferences"] == [OWNER, OTHER]
    assert patched["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking", "example.com/a"]


def test_releasing_removes_the_owner_and_the_finalizer() -> None:
    pod = {"metadata": {"ownerReferences": [OTHER, OWNER], "finalizers": ["example.com/a", "tracking"]}}
    patch = {
        "metadata": {
            "uid": "p1",
            "ownerReferences": [{"$patch": "delete", "uid": "u1"}],
            "$deleteFromPrimitiveList/finalizers": ["tracking"],
        }
    }
    patched = apply_strategic_merge(pod, patch, schema=schema_of("Pod"))
    assert patched["metadata"] == {"uid": "p1", "ownerReferences": [OTHER], "finalizers": ["example.com/a"]}


def test_setting_an_image_touches_one_container_only() -> None:
    deployment = {
        "spec": {
            "replicas": 2,
            "template": {
                "spec": {"containers": [{"name": "a", "image": "a:1", "ports": []}, {"name": "b", "image": "b:1"}]}
            },
        }
    }
    patch = {
        "spec": {
            "template": {
                "spec": {
                    "$setElementOrder/containers": named("a", "b"),
                    "containers": [{"name": "b", "image": "b:2"}],
                }
            }
        }
    }
    patched = apply_strategic_merge(deployment, patch, schema=schema_of("Deployment"))
    assert patched["spec"]["template"]["spec"]["containers"] == [
        {"name": "a", "image": "a:1", "ports": []},
        {"name": "b", "image": "b:2"},
    ]
    assert patched["spec"]["replicas"] == 2


def test_changing_the_strategy_drops_the_parameters_of_the_former() -> None:
    deployment = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    patched = apply_strategic_merge(deployment, patch, schema=schema_of("Deployment"))
    assert patched == {"spec": {"strategy": {"type": "Recreate"}}}


def test_changing_a_volume_s_source_drops_the_former_source() -> None:
    pod = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]}}
    volume = {"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "c"}}
    patched = apply_strategic_merge(pod, {"spec": {"volumes": [volume]}}, schema=schema_of("Pod"))
    assert patched["spec"]["volumes"] == [{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "emptyDir": {}}]


def test_only_the_patched_node_condition_is_replaced() -> None:
    node = {
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}]}
    }
    patch = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
    conditions = apply_strategic_merge(node, patch, schema=schema_of("Node"))["status"]["conditions"]
    assert {condition["type"]: condition["status"] for condition in conditions} == {
        "Ready": "Unknown",
        "DiskPressure": "False",
    }


REPLACED = [
    ("Node", "spec", "taints", [{"key": "a", "effect": "NoSchedule"}], [{"key": "b", "effect": "NoExecute"}]),
    ("Pod", "spec", "tolerations", [{"key": "a"}], [{"key": "b"}]),
    ("Pod", "status", "containerStatuses", named("a"), named("b")),
    ("Service", "spec", "externalIPs", ["1.2.3.4"], ["5.6.7.8"]),
    ("LimitRange", "spec", "limits", [{"type": "Pod"}], [{"type": "Container"}]),
    ("Role", "metadata", "managedFields", [{"manager": "a"}], [{"manager": "b"}]),
]
MERGED = [
    ("Pod", "spec", "containers", named("a"), named("b")),
    ("Pod", "spec", "initContainers", named("a"), named("b")),
    ("Pod", "spec", "ephemeralContainers", named("a"), named("b")),
    ("Pod", "spec", "volumes", named("a"), named("b")),
    ("Pod", "spec", "imagePullSecrets", named("a"), named("b")),
    ("Pod", "spec", "schedulingGates", named("a"), named("b")),
    ("Pod", "spec", "hostAliases", [{"ip": "1.1.1.1"}], [{"ip": "2.2.2.2"}]),
    ("Pod", "spec", "topologySpreadConstraints", [{"topologyKey": "zone"}], [{"topologyKey": "host"}]),
    ("Pod", "status", "podIPs", [{"ip": "10.0.0.1"}], [{"ip": "fd00::1"}]),
    ("Pod", "status", "conditions", [{"type": "Ready"}], [{"type": "Initialized"}]),
    ("Node", "status", "addresses", [{"type": "InternalIP"}], [{"type": "Hostname"}]),
    ("Node", "spec", "podCIDRs", ["10.0.0.0/24"], ["fd00::/64"]),
    ("Service", "spec", "ports", [{"port": 80}], [{"port": 443}]),
    ("Namespace", "status", "conditions", [{"type": "A"}], [{"type": "B"}]),
    ("Event", "metadata", "finalizers", ["a"], ["b"]),
    ("ConfigMap", "metadata", "ownerReferences", [OWNER], [OTHER]),
    ("ResourceClaim", "status", "reservedFor", [{"uid": "a"}], [{"uid": "b"}]),
    ("CSINode", "spec", "drivers", named("a"), named("b")),
]


@pytest.mark.parametrize(("kind", "part", "name", "former", "new"), REPLACED)
def test_atomic_list_is_replaced(kind: str, part: str, name: str, former: list[Any], new: list[Any]) -> None:
    patched = apply_strategic_merge({part: {name: former}}, {part: {name: new}}, schema=schema_of(kind))
    assert patched == {part: {name: new}}


@pytest.mark.parametrize(("kind", "part", "name", "former", "new"), MERGED)
def test_associative_list_is_merged(kind: str, part: str, name: str, former: list[Any], new: list[Any]) -> None:
    patched = apply_strategic_merge({part: {name: former}}, {part: {name: new}}, schema=schema_of(kind))
    assert patched == {part: {name: new + former}}


@pytest.mark.parametrize(
    ("name", "former", "new"),
    [
        ("ports", {"containerPort": 80}, {"containerPort": 81}),
        ("env", {"name": "A"}, {"name": "B"}),
        ("volumeMounts", {"mountPath": "/a"}, {"mountPath": "/b"}),
        ("volumeDevices", {"devicePath": "/a"}, {"devicePath": "/b"}),
    ],
)
@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Pod", ()),
        ("PodTemplate", ("template",)),
        ("ReplicationController", ("spec", "template")),
        ("ReplicaSet", ("spec", "template")),
        ("Deployment", ("spec", "template")),
        ("DaemonSet", ("spec", "template")),
        ("StatefulSet", ("spec", "template")),
        ("Job", ("spec", "template")),
        ("CronJob", ("spec", "jobTemplate", "spec", "template")),
    ],
)
def test_containers_merge_wherever_a_pod_template_is(
    kind: str, path: tuple[str, ...], name: str, former: dict[str, Any], new: dict[str, Any]
) -> None:
    def holding(element: dict[str, Any]) -> dict[str, Any]:
        obj: dict[str, Any] = {"spec": {"containers": [{"name": "c", name: [element]}]}}
        for step in reversed(path):
            obj = {step: obj}
        return obj

    patched = apply_strategic_merge(holding(former), holding(new), schema=schema_of(kind))
    for step in path:
        patched = patched[step]
    assert patched["spec"]["containers"] == [{"name": "c", name: [new, former]}]


def test_the_selector_of_a_disruption_budget_is_replaced() -> None:
    patched = apply_strategic_merge(
        {"spec": {"selector": {"matchLabels": {"a": "1"}}}},
        {"spec": {"selector": {"matchLabels": {"b": "2"}}}},
        schema=schema_of("PodDisruptionBudget"),
    )
    assert patched == {"spec": {"selector": {"matchLabels": {"b": "2"}}}}
