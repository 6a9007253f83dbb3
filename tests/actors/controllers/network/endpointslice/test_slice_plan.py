"""Tests of the distribution of endpoints over slices, with upstream's cases.

The expected results are the numbers of endpoints in each slice.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.network.endpointslice.reconciler import recycled
from kcm.actors.controllers.network.endpointslice.slice_plan import SlicePlan, labels_for, plan_slices
from kcm.actors.controllers.network.shared.ports import EndpointPort, Ports
from kcm.actors.controllers.network.shared.slices import identity_of
from kcm.protocols.objects import Object

OWNER = "uid-of-web"
LABELS = {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "us"}
HTTP: Ports = (EndpointPort("", 80, "TCP"),)
OTHER: Ports = (EndpointPort("", 81, "TCP"),)


def endpoint(number: int, *, ready: bool = True) -> dict[str, Any]:
    return {
        "addresses": [f"10.{number // 250}.0.{number % 250}"],
        "conditions": {"ready": ready, "serving": ready, "terminating": False},
        "targetRef": {"kind": "Pod", "namespace": "default", "name": f"pod-{number}", "uid": f"uid-{number}"},
    }


def slice_of(name: str, numbers: range, *, owner: str = OWNER, ports: Ports = HTTP, **more: Any) -> Object:
    owners = [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": owner}]
    return {
        "metadata": {"name": name, "labels": dict(LABELS), "ownerReferences": owners},
        "addressType": "IPv4",
        "endpoints": [endpoint(number) for number in numbers],
        "ports": [port.as_object() for port in ports],
        **more,
    }


def planned(
    present: list[Object], wanted: dict[Ports, list[dict[str, Any]]], *, max_endpoints: int = 100, **more: Any
) -> SlicePlan:
    desired = {ports: {identity_of(endpoint): endpoint for endpoint in some} for ports, some in wanted.items()}
    return plan_slices(
        present,
        desired,
        labels=more.get("labels", LABELS),
        owner_uid=OWNER,
        address_type="IPv4",
        max_endpoints=max_endpoints,
    )


def pods(count: int) -> list[dict[str, Any]]:
    return [endpoint(number) for number in range(count)]


def sizes(plan: SlicePlan) -> tuple[list[int], list[int], int]:
    """Return the numbers of endpoints in created and in updated slices, and the number of deleted slices."""
    create, update, gone = recycled(plan, owner_uid=OWNER)
    return (
        sorted((len(slice_["endpoints"]) for slice_ in create), reverse=True),
        sorted((len(slice_["endpoints"]) for slice_ in update), reverse=True),
        len(gone),
    )


TENS = [slice_of(f"s{number}", range(number * 30, number * 30 + 30)) for number in range(10)]


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        pytest.param([], {}, ([0], [], 0), id="no pods: a placeholder"),
        pytest.param([slice_of("a", range(1))], {}, ([], [0], 0), id="its last endpoint goes: it is the placeholder"),
        pytest.param([], {HTTP: pods(250)}, ([100, 100, 50], [], 0), id="250 pods"),
        pytest.param(
            [slice_of("a", range(0, 248, 4)), slice_of("b", range(1, 244, 4))],
            {HTTP: pods(250)},
            ([100], [89], 0),
            id="what is left goes into the slice that it fills best",
        ),
        pytest.param(
            [slice_of("a", range(74)), slice_of("b", range(74, 148))],
            {HTTP: pods(300)},
            ([100, 52], [], 0),
            id="too many for what is free: new slices, and the old ones stay",
        ),
        pytest.param(
            [slice_of("a", range(100)), slice_of("b", range(100, 200)), slice_of("c", range(200, 250))],
            {OTHER: pods(250)},
            ([], [100, 100, 50], 0),
            id="another port: all slices are written anew",
        ),
        pytest.param(TENS, {HTTP: pods(300)}, ([], [], 0), id="half empty slices are not merged"),
        pytest.param(TENS, {OTHER: pods(300)}, ([], [100, 100, 100], 7), id="but for another reason to write them"),
        pytest.param(
            [slice_of("a", range(80)), slice_of("b", range(80, 100))],
            {HTTP: [endpoint(number, ready=number >= 100) for number in range(115)]},
            ([], [95, 20], 0),
            id="slices that are written anyway are filled, the fullest first",
        ),
        pytest.param(
            [slice_of("a", range(5), owner="a predecessor")], {HTTP: pods(5)}, ([5], [], 1), id="of a predecessor"
        ),
        pytest.param(
            [slice_of("a", range(2)), slice_of("b", range(0), ports=())],
            {HTTP: pods(2)},
            ([], [], 1),
            id="a placeholder goes once there are endpoints",
        ),
    ],
)
def test_endpoints_are_distributed_over_slices(
    present: list[Object], wanted: dict[Ports, list[dict[str, Any]]], expected: Any
) -> None:
    assert sizes(planned(present, wanted)) == expected


@pytest.mark.parametrize(
    ("max_endpoints", "expected"),
    [(50, [50] * 5), (80, [80, 80, 80, 10]), (150, [150, 100]), (250, [250]), (500, [250])],
)
def test_slices_do_not_exceed_the_maximum(max_endpoints: int, expected: list[int]) -> None:
    assert sizes(planned([], {HTTP: pods(250)}, max_endpoints=max_endpoints))[0] == expected


def test_pods_with_different_port_numbers_have_their_own_slices() -> None:
    variants = {(EndpointPort("web", 8080 + each, "TCP"),): pods(300)[each::5] for each in range(5)}
    plan = planned([], variants)
    assert sizes(plan)[0] == [60] * 5
    assert {slice_["ports"][0]["port"] for slice_ in plan.create} == set(range(8080, 8085))
    assert {tuple(group) for group in plan.groups.values()} == {(60, 1)}


def test_correct_placeholder_is_kept() -> None:
    there = slice_of("a", range(0), ports=())
    assert sizes(planned([there], {})) == ([], [], 0)
    assert sizes(planned([there], {(): []})) == ([], [], 0)
    assert sizes(planned([there], {}, labels={**LABELS, "tier": "front"})) == ([], [0], 0)


def test_correct_placeholder_is_kept_when_other_slices_are_deleted() -> None:
    """Regression test: the placeholder was written without a change. Found by seed 15005040 of the campaign."""
    there = [slice_of("b", range(3)), slice_of("a", range(0), ports=()), slice_of("c", range(3, 6))]
    assert sizes(planned(there, {})) == ([], [], 2)


def test_placeholder_of_previous_service_is_replaced() -> None:
    assert sizes(planned([slice_of("a", range(0), ports=(), owner="a predecessor")], {})) == ([0], [], 1)


def test_labels_except_reserved_ones_are_corrected() -> None:
    there = slice_of("a", range(2))
    assert sizes(planned([there], {HTTP: pods(2)}, labels={**LABELS, "tier": "front"})) == ([], [2], 0)
    headless = {**LABELS, "service.kubernetes.io/headless": ""}
    assert sizes(planned([there], {HTTP: pods(2)}, labels=headless)) == ([], [], 0)


def test_reserved_labels_of_a_service_are_ignored() -> None:
    service = {"metadata": {"name": "web", "labels": {"a": "b", "kubernetes.io/service-name": "other"}}}
    assert labels_for(service, manager="us", headless=True) == {
        "a": "b",
        **LABELS,
        "service.kubernetes.io/headless": "",
    }


def test_only_the_resource_version_of_the_target_pod_is_ignored() -> None:
    there = slice_of("a", range(1))
    there["endpoints"][0]["targetRef"]["resourceVersion"] = "7"
    assert sizes(planned([there], {HTTP: pods(1)})) == ([], [], 0)
    there["endpoints"][0]["targetRef"]["uid"] = "another pod of this name"
    assert sizes(planned([there], {HTTP: pods(1)})) == ([], [1], 0)
