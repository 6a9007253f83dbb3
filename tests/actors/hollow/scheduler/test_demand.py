from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.hollow.scheduler.demand import (
    UNASKED_CPU,
    UNASKED_MEMORY,
    Demand,
    Port,
    Taint,
    Toleration,
    demand_of,
    pod_requests,
)
from kcm.protocols.objects import Object, OwnerRef
from tests.actors.hollow.objects import unassigned


def container(cpu: str | None = None, memory: str | None = None, **more: str) -> Object:
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": "c", "resources": {"requests": requests}, **more}


def demand(**spec: Any) -> Demand | None:
    return demand_of(unassigned(**spec), controller=None)


SIDECAR = {"restartPolicy": "Always"}
# containers, init containers, other fields of the spec, requests of the pod
REQUESTS = {
    "containers add up": ([container("100m"), container("200m")], [], {}, {"cpu": 300}),
    "cpu is in thousandths, memory in bytes": ([container("1.5", "1Ki")], [], {}, {"cpu": 1500, "memory": 1024}),
    "the largest init container may be more": (
        [container("100m")],
        [container("1"), container("2")],
        {},
        {"cpu": 2000},
    ),
    "or less": ([container("3")], [container("1"), container("2")], {}, {"cpu": 3000}),
    "sidecars count all the time": ([container("1")], [container("1", **SIDECAR)], {}, {"cpu": 2000}),
    "init containers run beside the sidecars before them": (
        [container("1")],
        [container("2", **SIDECAR), container("4"), container("1", **SIDECAR)],
        {},
        {"cpu": 6000},
    ),
    "what is asked for the whole pod stands in for the sum": (
        [container("1", "1Ki"), container("1")],
        [],
        {"resources": {"requests": {"cpu": "5"}}},
        {"cpu": 5000, "memory": 1024},
    ),
    "the overhead comes on top": ([container("1")], [container("2")], {"overhead": {"cpu": "500m"}}, {"cpu": 2500}),
    "nothing": ([{"name": "c"}], [], {}, {}),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_pod_requests_are_the_maximum_of_all_phases(case: str) -> None:
    containers, init, more, expected = REQUESTS[case]
    assert pod_requests({"containers": containers, "initContainers": init, **more}) == expected


def test_pod_without_requests_has_default_requests_for_scoring() -> None:
    asked = demand()
    assert (asked.requests, asked.cpu, asked.memory) == ((), UNASKED_CPU, UNASKED_MEMORY)
    asked = demand(requests={"cpu": "1", "memory": "1Gi", "example.com/gpu": "2"})
    assert asked.requests == (("cpu", 1000), ("example.com/gpu", 2), ("memory", 2**30))
    assert (asked.cpu, asked.memory) == (1000, 2**30)


def test_a_malformed_quantity_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        demand(requests={"cpu": "lots"})


def test_the_owner_is_the_controller() -> None:
    owner = OwnerRef("apps/v1", "ReplicaSet", "rs", "uid-rs")
    assert demand_of(unassigned(), controller=owner).owner == "uid-rs"
    assert demand().owner == ""


def test_equal_pods_have_equal_demands() -> None:
    spec = {"requests": {"cpu": "1"}, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}
    assert demand(**spec) == demand(**spec)
    assert hash(demand(**spec)) == hash(demand(**spec))


TAINT = Taint("k", "v", "NoSchedule")
# toleration, tolerated
TOLERATIONS = [
    ({"key": "k", "value": "v", "effect": "NoSchedule"}, True),
    ({"key": "k", "operator": "Equal", "value": "v"}, True),
    ({"key": "k", "value": "other"}, False),
    ({"key": "k", "operator": "Exists"}, True),
    ({"key": "other", "operator": "Exists"}, False),
    ({"operator": "Exists"}, True),
    ({"operator": "Exists", "effect": "NoExecute"}, False),
    ({"key": "k", "operator": "Gt", "value": "v"}, False),
]


@pytest.mark.parametrize("toleration, tolerated", TOLERATIONS)
def test_a_toleration_is_for_keys_values_and_effects(toleration: Object, tolerated: bool) -> None:
    assert demand(tolerations=[toleration]).tolerates(TAINT) is tolerated


def test_without_tolerations_nothing_is_tolerated() -> None:
    assert not demand().tolerates(TAINT)
    assert not Toleration("", "v", "", False).tolerates(TAINT)


def affinity(*terms: Object) -> Object:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(*names: str, operator: str = "In") -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]} for name in names]}


LABELS = {"disk": "ssd", "cores": "8"}
# terms, whether a node "n1" with LABELS matches
TERMS = [
    ([expression("disk", "In", "ssd", "nvme")], True),
    ([expression("disk", "In", "hdd")], False),
    ([expression("disk", "NotIn", "hdd")], True),
    ([expression("color", "NotIn", "red")], True),
    ([expression("disk", "Exists")], True),
    ([expression("disk", "DoesNotExist")], False),
    ([expression("cores", "Gt", "4")], True),
    ([expression("cores", "Gt", "8")], False),
    ([expression("cores", "Lt", "9")], True),
    ([expression("disk", "In", "hdd"), expression("disk", "In", "ssd")], True),
    ([{**expression("disk", "In", "ssd"), **named("n2")}], False),
    ([{**expression("disk", "In", "ssd"), **named("n1")}], True),
    ([named("n1")], True),
    ([named("n1", operator="NotIn")], False),
    ([{}], False),
    ([], False),
    ([expression("disk", "Matches", "ssd")], False),
    ([expression("disk", "Matches", "ssd"), expression("disk", "Exists")], True),
    ([expression("cores", "Gt", "many")], False),
    ([{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n1"]}]}], False),
]


@pytest.mark.parametrize("terms, matching", TERMS)
def test_node_affinity_term_must_match_completely(terms: Sequence[Object], matching: bool) -> None:
    compiled = demand(affinity=affinity(*terms)).terms
    assert any(term.matches("n1", LABELS) for term in compiled) is matching


def test_demand_without_node_affinity_has_no_terms() -> None:
    assert demand().terms is None
    assert demand(affinity={"nodeAffinity": {}}).terms is None


# terms, the only nodes that are left
NAMES = [
    ([named("n1")], {"n1"}),
    ([named("n1"), named("n2")], {"n1", "n2"}),
    ([named("n1", "n2")], set()),
    ([named("n1"), expression("disk", "Exists")], None),
    ([named("n1", operator="NotIn")], None),
]


@pytest.mark.parametrize("terms, names", NAMES)
def test_terms_that_all_name_nodes_leave_only_those(terms: Sequence[Object], names: set[str] | None) -> None:
    assert demand(affinity=affinity(*terms)).names == names


PORTS = [
    ({}, [{"containerPort": 80}], ()),
    ({}, [{"containerPort": 80, "hostPort": 8080}], (Port("TCP", "", 8080),)),
    ({}, [{"hostPort": 53, "protocol": "UDP", "hostIP": "127.0.0.1"}], (Port("UDP", "127.0.0.1", 53),)),
    ({}, [{"hostPort": 53, "hostIP": "0.0.0.0"}], (Port("TCP", "", 53),)),
    ({"hostNetwork": True}, [{"containerPort": 80}], (Port("TCP", "", 80),)),
]


@pytest.mark.parametrize("spec, ports, expected", PORTS)
def test_ports_of_the_host_are_part_of_the_demand(
    spec: Object, ports: Sequence[Object], expected: tuple[Port, ...]
) -> None:
    pod = unassigned(**spec)
    pod["spec"]["containers"][0]["ports"] = ports
    assert demand_of(pod, controller=None).ports == expected


def cpu(amount: str) -> Object:
    return {"requests": {"cpu": amount}}


def resizing(at: str, *, wanted: str, allocated: str, applied: str, pending: str = "") -> Object:
    """Build a pod of which the resources of the container, or of the whole pod, are being resized."""
    pod = unassigned()
    given = {"resources": cpu(applied), "allocatedResources": {"cpu": allocated}}
    if at == "container":
        pod["spec"]["containers"][0]["resources"] = cpu(wanted)
        pod["status"]["containerStatuses"] = [{"name": "web", **given}]
    else:
        pod["spec"]["resources"] = cpu(wanted)
        pod["status"] |= given
    if pending:
        pod["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": pending}]
    return pod


@pytest.mark.parametrize("at", ["container", "pod"])
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"wanted": "2", "allocated": "2", "applied": "2"}, 2000),
        ({"wanted": "3", "allocated": "2", "applied": "2"}, 3000),
        ({"wanted": "1", "allocated": "2", "applied": "1"}, 2000),
        ({"wanted": "1", "allocated": "1", "applied": "4"}, 4000),
        ({"wanted": "5", "allocated": "2", "applied": "2", "pending": "Deferred"}, 5000),
        ({"wanted": "5", "allocated": "2", "applied": "1", "pending": "Infeasible"}, 2000),
    ],
)
def test_resized_pod_requests_what_it_uses_and_will_use(at: str, state: dict[str, str], expected: int) -> None:
    """Source: determineEffectiveRequests of component-helpers/resource/helpers.go."""
    found = demand_of(resizing(at, **state), controller=None)
    assert (found.cpu, dict(found.requests)) == (expected, {"cpu": expected})
