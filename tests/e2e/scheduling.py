"""Scheduling cases with devices, volumes and priorities, for a comparison of schedulers.

The nodes of a case have a label with its name, which its pods select, so that all cases share a cluster. There are no
kubelets: the test deletes the pods that are preempted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

Object = dict[str, Any]
DEVICES = "resource.k8s.io/v1"


class Case(Struct, frozen=True):
    """Objects of a case. pods: are created one after the other, when the one before is scheduled or refused."""

    nodes: Sequence[Object] = ()
    classes: Sequence[Object] = ()
    slices: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    groups: Sequence[Object] = ()
    budgets: Sequence[Object] = ()
    pods: Sequence[Object] = ()


def node(name: str, *, taints: Sequence[Object] = (), labels: Mapping[str, str] = {}, **amounts: str) -> Object:
    resources = {"cpu": "4", "memory": "8Gi", "pods": "20", "ephemeral-storage": "10Gi", **amounts}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m"}],
        },
    }


def pod(
    name: str,
    *,
    claims: Sequence[str] = (),
    cpu: str = "",
    priority: str = "",
    labels: Mapping[str, str] = {},
    **spec: Any,
) -> Object:
    container: Object = {"name": "c", "image": "i"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    if claims:
        container.setdefault("resources", {})["claims"] = [{"name": claim} for claim in claims]
        spec["resourceClaims"] = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    if priority:
        spec["priorityClassName"] = priority
    spec.setdefault("automountServiceAccountToken", False)
    return {"metadata": {"name": name, "labels": dict(labels)}, "spec": {"containers": [container], **spec}}


def selecting(*expressions: str) -> list[Object]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def device_class(name: str, *expressions: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"selectors": selecting(*expressions), **spec}}


def devices(*names: str, **fields: Any) -> list[Object]:
    return [{"name": name, **fields} for name in names]


def resource_slice(
    driver: str,
    pool: str,
    made: Iterable[Object] = (),
    *,
    name: str = "",
    count: int = 1,
    generation: int = 1,
    **spec: Any,
) -> Object:
    """Build a slice; without a selection of nodes its pool is the name of its node."""
    if not spec.keys() & {"allNodes", "nodeSelector", "perDeviceNodeSelection", "nodeName"}:
        spec["nodeName"] = pool
    whole: Object = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        **spec,
    }
    if list(made):
        whole["devices"] = list(made)
    return {"metadata": {"name": name or f"{pool}-{driver}"}, "spec": whole}


def request(device_class: str, name: str = "r", **exactly: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": device_class, **exactly}}


def claim(name: str, *requests: Object, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": list(requests), **spec}}}


def _of_devices() -> dict[str, Case]:
    def simple(prefix: str, made: Sequence[Object], claims: Sequence[Object], pods: Sequence[Object]) -> Case:
        """Build a case with one node that has these devices."""
        driver = f"{prefix}.example.com"
        return Case(
            nodes=[node(f"{prefix}-0")],
            classes=[device_class(prefix, f'device.driver == "{driver}"')],
            slices=[resource_slice(driver, f"{prefix}-0", made)],
            claims=claims,
            pods=pods,
        )

    def attributes(**values: Object) -> Object:
        return values

    model = [
        {"name": "a", "attributes": attributes(model={"string": "small"}, numa={"int": 0})},
        {"name": "b", "attributes": attributes(model={"string": "large"}, numa={"int": 1})},
        {"name": "c", "attributes": attributes(model={"string": "large"}, numa={"int": 1})},
    ]
    taint = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
    return {
        "one": simple(
            "one",
            devices("gpu-0"),
            [claim("one-a", request("one")), claim("one-b", request("one"))],
            [pod("one-a", claims=["one-a"]), pod("one-b", claims=["one-b"])],
        ),
        "shared": simple(
            "shared",
            devices("gpu-0"),
            [claim("shared", request("shared"))],
            [pod("shared-a", claims=["shared"]), pod("shared-b", claims=["shared"])],
        ),
        "selector": simple(
            "selector",
            model,
            [
                claim(
                    "selector",
                    request(
                        "selector", selectors=selecting('device.attributes["selector.example.com"].model == "large"')
                    ),
                )
            ],
            [pod("selector", claims=["selector"])],
        ),
        "broken-selector": simple(
            "broken-selector",
            devices("gpu-0"),
            [
                claim(
                    "broken-selector",
                    request(
                        "broken-selector",
                        selectors=selecting('device.attributes["broken-selector.example.com"].missing == "large"'),
                    ),
                )
            ],
            [pod("broken-selector", claims=["broken-selector"])],
        ),
        "all": simple(
            "all",
            model,
            [claim("all", request("all", allocationMode="All")), claim("all-b", request("all"))],
            [pod("all", claims=["all"]), pod("all-b", claims=["all-b"])],
        ),
        "count": simple(
            "count",
            devices("gpu-0", "gpu-1", "gpu-2"),
            [claim("count-a", request("count", count=2)), claim("count-b", request("count", count=2))],
            [pod("count-a", claims=["count-a"]), pod("count-b", claims=["count-b"])],
        ),
        "match": simple(
            "match",
            model,
            [claim("match", request("match", count=2), constraints=[{"matchAttribute": "match.example.com/numa"}])],
            [pod("match", claims=["match"])],
        ),
        "distinct": simple(
            "distinct",
            model,
            [
                claim(
                    "distinct",
                    request("distinct", "x"),
                    request("distinct", "y"),
                    constraints=[{"distinctAttribute": "distinct.example.com/numa"}],
                )
            ],
            [pod("distinct", claims=["distinct"])],
        ),
        "first": simple(
            "first",
            model,
            [
                claim(
                    "first",
                    {
                        "name": "r",
                        "firstAvailable": [
                            {"name": "many", "deviceClassName": "first", "count": 5},
                            {"name": "one", "deviceClassName": "first"},
                        ],
                    },
                )
            ],
            [pod("first", claims=["first"])],
        ),
        "tainted": simple(
            "tainted",
            devices("gpu-0", taints=[taint]),
            [
                claim("tainted-a", request("tainted")),
                claim("tainted-b", request("tainted", tolerations=[{"key": "broken", "operator": "Exists"}])),
            ],
            [pod("tainted-a", claims=["tainted-a"]), pod("tainted-b", claims=["tainted-b"])],
        ),
        "no-class": Case(
            nodes=[node("no-class-0")],
            claims=[claim("no-class", request("does-not-exist"))],
            pods=[pod("no-class", claims=["no-class"])],
        ),
        "no-claim": Case(nodes=[node("no-claim-0")], pods=[pod("no-claim", claims=["no-claim"])]),
        "incomplete": Case(
            nodes=[node("incomplete-0")],
            classes=[device_class("incomplete", 'device.driver == "incomplete.example.com"')],
            slices=[resource_slice("incomplete.example.com", "incomplete-0", devices("gpu-0"), count=2)],
            claims=[claim("incomplete", request("incomplete"))],
            pods=[pod("incomplete", claims=["incomplete"])],
        ),
        "network": Case(
            nodes=[node("network-0", labels={"rack": "r1"}), node("network-1", labels={"rack": "r2"})],
            classes=[device_class("network", 'device.driver == "network.example.com"')],
            slices=[
                resource_slice(
                    "network.example.com",
                    "rack-2",
                    devices("nic-0"),
                    nodeSelector={
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r2"]}]}
                        ]
                    },
                )
            ],
            claims=[claim("network", request("network"))],
            pods=[pod("network", claims=["network"])],
        ),
        "everywhere": Case(
            nodes=[node("everywhere-0")],
            classes=[
                device_class(
                    "everywhere",
                    'device.driver == "everywhere.example.com"',
                    config=[{"opaque": {"driver": "everywhere.example.com", "parameters": {"speed": "high"}}}],
                )
            ],
            slices=[resource_slice("everywhere.example.com", "pool", devices("nic-0"), allNodes=True)],
            claims=[
                claim(
                    "everywhere",
                    request("everywhere"),
                    config=[
                        {"requests": ["r"], "opaque": {"driver": "everywhere.example.com", "parameters": {"mtu": 9000}}}
                    ],
                )
            ],
            pods=[pod("everywhere", claims=["everywhere"])],
        ),
        "elsewhere": Case(  # the claim is allocated on a node that the second pod does not select
            nodes=[node("elsewhere-0", labels={"disk": "a"}), node("elsewhere-1", labels={"disk": "b"})],
            classes=[device_class("elsewhere", 'device.driver == "elsewhere.example.com"')],
            slices=[resource_slice("elsewhere.example.com", "elsewhere-0", devices("gpu-0"))],
            claims=[claim("elsewhere", request("elsewhere"))],
            pods=[
                pod("elsewhere-a", claims=["elsewhere"]),
                pod("elsewhere-b", claims=["elsewhere"], nodeSelector={"disk": "b"}),
            ],
        ),
        "two-claims": simple(
            "two-claims",
            devices("gpu-0", "gpu-1"),
            [claim("two-claims-a", request("two-claims")), claim("two-claims-b", request("two-claims"))],
            [pod("two-claims", claims=["two-claims-a", "two-claims-b"])],
        ),
        "partitions": Case(
            nodes=[node("partitions-0")],
            classes=[device_class("partitions", 'device.driver == "partitions.example.com"')],
            slices=[
                resource_slice(
                    "partitions.example.com",
                    "partitions-0",
                    name="partitions-counters",
                    count=2,
                    sharedCounters=[{"name": "memory", "counters": {"memory": {"value": "40Gi"}}}],
                ),
                resource_slice(
                    "partitions.example.com",
                    "partitions-0",
                    name="partitions-devices",
                    count=2,
                    made=[
                        {
                            "name": name,
                            "consumesCounters": [{"counterSet": "memory", "counters": {"memory": {"value": "20Gi"}}}],
                        }
                        for name in ("part-0", "part-1", "part-2")
                    ],
                ),
            ],
            claims=[
                claim("partitions-a", request("partitions", count=2)),
                claim("partitions-b", request("partitions")),
            ],
            pods=[pod("partitions-a", claims=["partitions-a"]), pod("partitions-b", claims=["partitions-b"])],
        ),
        "capacity": simple(
            "capacity",
            [
                {
                    "name": "nic-0",
                    "allowMultipleAllocations": True,
                    "capacity": {
                        "bandwidth": {
                            "value": "10Gi",
                            "requestPolicy": {
                                "default": "1Gi",
                                "validRange": {"min": "1Gi", "step": "1Gi", "max": "8Gi"},
                            },
                        }
                    },
                }
            ],
            [
                claim(name, request("capacity", capacity={"requests": {"bandwidth": amount}}))
                for name, amount in (("capacity-a", "5500Mi"), ("capacity-b", "3Gi"), ("capacity-c", "4Gi"))
            ],
            [pod(name, claims=[name]) for name in ("capacity-a", "capacity-b", "capacity-c")],
        ),
    }


def _of_priorities() -> dict[str, Case]:
    def budget(name: str, app: str) -> Object:
        return {
            "metadata": {"name": name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        }

    return {
        "preempts": Case(
            nodes=[node("preempts-0")],
            pods=[
                pod("preempts-a", cpu="2", priority="low"),
                pod("preempts-b", cpu="2", priority="middle"),
                pod("preempts-c", cpu="2", priority="high"),
            ],
        ),
        "never": Case(
            nodes=[node("never-0")],
            pods=[pod("never-a", cpu="3", priority="low"), pod("never-b", cpu="3", priority="polite")],
        ),
        "too-large": Case(
            nodes=[node("too-large-0")],
            pods=[pod("too-large-a", cpu="3", priority="low"), pod("too-large-b", cpu="30", priority="high")],
        ),
        "equal": Case(
            nodes=[node("equal-0")],
            pods=[pod("equal-a", cpu="3", priority="low"), pod("equal-b", cpu="3", priority="low")],
        ),
        "protected": Case(
            nodes=[node("protected-0"), node("protected-1")],
            budgets=[budget("protected", "protected")],
            pods=[
                pod(
                    "protected-a",
                    cpu="3",
                    priority="low",
                    labels={"app": "protected"},
                    nodeSelector={"kubernetes.io/hostname": "protected-0"},
                ),
                pod("protected-b", cpu="3", priority="middle", nodeSelector={"kubernetes.io/hostname": "protected-1"}),
                pod("protected-c", cpu="3", priority="high"),
            ],
        ),
        "least": Case(  # a node with one pod of the lowest priority is better than one with two
            nodes=[node("least-0"), node("least-1")],
            pods=[
                pod("least-a", cpu="2", priority="low", nodeSelector={"kubernetes.io/hostname": "least-0"}),
                pod("least-b", cpu="2", priority="low", nodeSelector={"kubernetes.io/hostname": "least-0"}),
                pod("least-c", cpu="4", priority="low", nodeSelector={"kubernetes.io/hostname": "least-1"}),
                pod("least-d", cpu="4", priority="high"),
            ],
        ),
        "ports": Case(
            nodes=[node("ports-0")],
            pods=[
                pod(
                    "ports-a",
                    priority="low",
                    hostNetwork=True,
                    containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 8080, "hostPort": 8080}]}],
                ),
                pod(
                    "ports-b",
                    priority="high",
                    hostNetwork=True,
                    containers=[{"name": "c", "image": "i", "ports": [{"containerPort": 8080, "hostPort": 8080}]}],
                ),
            ],
        ),
        "tainted-node": Case(
            nodes=[node("tainted-node-0", taints=[{"key": "k", "effect": "NoSchedule"}])],
            pods=[pod("tainted-node", cpu="1", priority="high")],
        ),
        "no-volume": Case(
            nodes=[node("no-volume-0")],
            pods=[pod("no-volume", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}])],
        ),
        "devices-do-not-preempt": Case(
            nodes=[node("rare-0")],
            classes=[device_class("rare", 'device.driver == "rare.example.com"')],
            slices=[resource_slice("rare.example.com", "rare-0", devices("gpu-0"))],
            claims=[claim("rare-a", request("rare")), claim("rare-b", request("rare"))],
            pods=[
                pod("rare-a", claims=["rare-a"], priority="low"),
                pod("rare-b", claims=["rare-b"], priority="high"),
            ],
        ),
    }


CASES: Mapping[str, Case] = {**_of_devices(), **_of_priorities()}
PRIORITIES = {"low": 10, "middle": 100, "high": 1000, "polite": 1000}


def _of_groups() -> dict[str, Case]:
    def member(name: str, group: str, *claims: str) -> Object:
        return pod(name, claims=claims, schedulingGroup={"podGroupName": group})

    def case(prefix: str, number: int, *pods: Object, claims: Sequence[str], shared: Sequence[str]) -> Case:
        """Build a case with one node. number: of its devices; shared: claims of the group."""
        driver, entries = f"{prefix}.example.com", [{"name": name, "resourceClaimName": name} for name in shared]
        group = {"metadata": {"name": prefix}, "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": entries}}
        return Case(
            nodes=[node(f"{prefix}-0")],
            classes=[device_class(prefix, f'device.driver == "{driver}"')],
            slices=[resource_slice(driver, f"{prefix}-0", devices(*(f"gpu-{index}" for index in range(number))))],
            claims=[claim(name, request(prefix)) for name in claims],
            groups=[group],
            pods=pods,
        )

    return {
        "shared": case(
            "pair", 1, member("pair-a", "pair", "all"), member("pair-b", "pair", "all"), claims=["all"], shared=["all"]
        ),
        "own": case(
            "own",
            2,
            member("own-a", "own", "ours", "mine"),
            member("own-b", "own", "ours"),
            claims=["ours", "mine"],
            shared=["ours"],
        ),
        "bare": case("bare", 1, member("bare-a", "bare", "bare"), claims=["bare"], shared=()),
    }


GROUP_CASES = _of_groups()
