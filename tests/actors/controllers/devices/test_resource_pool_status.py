"""Tests of the status of resource pools, with upstream's cases.

Source of the cases: kubernetes v1.36 pkg/controller/resourcepoolstatusrequest/controller_test.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.devices.device_taint_eviction.evictions import PoolSlice
from kcm.actors.controllers.devices.resource_pool_status import (
    ERRORS,
    PROCESSED,
    SPEC,
    is_expired,
    pool_statuses,
    request_status,
)
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.device_taints import slice_facts
from kcm.protocols.objects import Object
from kcm.protocols.resources import RESOURCE_CLAIMS, RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.kinds.resource import resource_pool_status_request
from kcm.runtime.faults.vocabulary import parse_faults

DRIVER = "a.example.com"
HOUR, NOW = 3600.0, 1_767_322_800.0  # 2026-01-02T03:00:00Z


def slice_(name: str, pool: str = "p", **more: Any) -> Object:
    """Return a slice with four devices unless `devices` is given."""
    count, generation = more.pop("devices", 4), more.pop("generation", 1)
    expected, driver = more.pop("slices", 1), more.pop("driver", DRIVER)
    spec = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": expected},
        "devices": [{"name": f"{name}-{number}"} for number in range(count)],
        **(more or {"allNodes": True}),
    }
    return {"metadata": {"name": name}, "spec": spec}


def statuses(*slices: Object, allocated: int = 0, pool: str | None = None) -> list[Object]:
    found = [PoolSlice(each["metadata"]["name"], slice_facts(each)) for each in slices]
    return pool_statuses(found, {(DRIVER, "p"): allocated}, DRIVER, pool)


def counts(status: Object) -> tuple[Any, ...]:
    names = ("resourceSliceCount", "totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices")
    return tuple(status.get(name) for name in names)


@pytest.mark.parametrize(
    ("slices", "allocated", "expected"),
    [
        ([slice_("s")], 0, (1, 4, 0, 4, 0)),
        ([slice_("s")], 2, (1, 4, 2, 2, 0)),
        ([slice_("s")], 6, (1, 4, 6, 0, 0)),
        ([slice_("s", slices=2), slice_("t", slices=2, devices=3)], 0, (2, 7, 0, 7, 0)),
        ([slice_("s", generation=2), slice_("t", devices=9)], 0, (1, 4, 0, 4, 0)),
    ],
)
def test_devices_in_the_newest_slices_of_a_pool_are_counted(slices: Any, allocated: int, expected: Any) -> None:
    (status,) = statuses(*slices, allocated=allocated)
    assert counts(status) == expected


def test_pools_of_the_driver_are_sorted_and_filtered() -> None:
    slices = (slice_("c", "z"), slice_("a", "p"), slice_("b", "x", driver="b.example.com"))
    assert [status["poolName"] for status in statuses(*slices)] == ["p", "z"]
    assert [status["poolName"] for status in statuses(*slices, pool="z")] == ["z"]
    assert statuses(*slices, pool="none") == []


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [(("n", "n"), "n"), (("n", "m"), None), ((None, None), None), (("n", None), None), ((None, "n"), None)],
)
def test_node_is_shown_if_all_slices_have_it(nodes: tuple[str | None, ...], expected: str | None) -> None:
    slices = [
        slice_(f"s{number}", slices=2, **({} if node is None else {"nodeName": node}))
        for number, node in enumerate(nodes)
    ]
    (status,) = statuses(*slices)
    assert status.get("nodeName") == expected


def test_incomplete_pool_has_an_error_instead_of_numbers() -> None:
    complete, incomplete = statuses(slice_("s"), slice_("t", "q", slices=3, generation=7))
    assert "validationError" not in complete
    assert incomplete["validationError"] == (f"pool {DRIVER}/q is incomplete: observed 1/3 slices at generation 7")
    assert counts(incomplete) == (None,) * 5


def test_limit_cuts_the_pools_but_not_their_number() -> None:
    pools = [{"poolName": str(number)} for number in range(3)]
    status = request_status(pools, 2, NOW)
    assert (status["poolCount"], status["pools"]) == (3, pools[:2])
    assert status["conditions"][0]["message"] == "Calculated status for 2 pools"
    empty = request_status([], 100, NOW)
    assert (empty["poolCount"], empty.get("pools")) == (0, None)


def request(hours: float, *, condition: str = "", finished: float = 0.0) -> Object:
    found: Object = {"metadata": {"name": "r", "creationTimestamp": format_time(NOW - hours * HOUR)}}
    if condition:
        time = format_time(NOW - finished * HOUR)
        found["status"] = {"conditions": [{"type": condition, "lastTransitionTime": time}]}
    return found


@pytest.mark.parametrize(
    ("of", "expired"),
    [
        (request(23.9), False),
        (request(24.1), True),
        (request(30, condition="Complete", finished=0.9), False),
        (request(30, condition="Complete", finished=1.1), True),
        (request(30, condition="Failed", finished=1.1), True),
        (request(0.9, condition="Other"), False),
        (request(1.1, condition="Other"), True),
        ({"metadata": {"name": "r"}}, False),
        ({"metadata": {"name": "r", "creationTimestamp": "malformed"}}, False),
        ({"metadata": {"name": "r"}, "status": {"conditions": [{"type": "Complete"}]}}, False),
    ],
)
def test_answered_request_expires_after_an_hour_and_unanswered_one_after_a_day(of: Object, expired: bool) -> None:
    assert is_expired(of, NOW) is expired


@pytest.fixture
def scene(cluster: SimulatedCluster) -> SimulatedCluster:
    return with_requests(cluster)


def with_requests(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return the cluster, which serves requests and runs the controller now."""
    cluster.serve(resource_pool_status_request.RESOURCE)
    cluster.restart_server()
    cluster.manager(controllers=[SPEC], options=read_options(["--feature-gates=DRAResourcePoolStatus=true"]))
    cluster.run_for(3.0)
    return cluster


def ask(cluster: SimulatedCluster, name: str = "r", **spec: Any) -> Object:
    body = {"metadata": {"name": name}, "spec": {"driver": DRIVER, **spec}}
    cluster.create(RESOURCE_POOL_STATUS_REQUESTS, body)
    cluster.run_for(1.0)
    return cluster.get(RESOURCE_POOL_STATUS_REQUESTS, name) or {}


def test_request_is_answered_once_and_deleted_later(scene: SimulatedCluster) -> None:
    scene.create(RESOURCE_SLICES, slice_("s"))
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    scene.create(RESOURCE_CLAIMS, {"metadata": {"name": "c"}, "spec": spec})
    results = [{"request": "r", "driver": DRIVER, "pool": "p", "device": "s-0"}]
    status = {"status": {"allocation": {"devices": {"results": results}}}}
    scene.merge(RESOURCE_CLAIMS, "default/c", status, subresource="status")
    scene.run_for(1.0)
    answered = ask(scene)["status"]
    assert counts(answered["pools"][0]) == (1, 4, 1, 3, 0)
    assert (answered["conditions"][0]["type"], answered["conditions"][0]["status"]) == ("Complete", "True")
    scene.delete(RESOURCE_SLICES, "s")
    scene.run_for(3000.0)
    assert (scene.get(RESOURCE_POOL_STATUS_REQUESTS, "r") or {})["status"] == answered
    scene.run_for(1300.0)
    assert scene.get(RESOURCE_POOL_STATUS_REQUESTS, "r") is None


def test_request_waits_for_the_rest_of_a_pool(scene: SimulatedCluster) -> None:
    scene.create(RESOURCE_SLICES, slice_("s", slices=2))
    scene.run_for(1.0)
    scene.create(RESOURCE_POOL_STATUS_REQUESTS, {"metadata": {"name": "r"}, "spec": {"driver": DRIVER}})
    scene.run_for(0.02)
    assert "status" not in (scene.get(RESOURCE_POOL_STATUS_REQUESTS, "r") or {})
    scene.create(RESOURCE_SLICES, slice_("t", slices=2))
    scene.run_for(5.0)
    assert counts((scene.get(RESOURCE_POOL_STATUS_REQUESTS, "r") or {})["status"]["pools"][0]) == (2, 8, 0, 8, 0)


def test_pool_may_be_completed_later_than_upstream_waits(scene: SimulatedCluster) -> None:
    scene.create(RESOURCE_SLICES, slice_("s", slices=2))
    scene.run_for(1.0)
    assert "status" not in ask(scene)
    scene.run_for(60.0)
    scene.create(RESOURCE_SLICES, slice_("t", slices=2))
    scene.run_for(90.0)  # the backoff doubles: the next attempt is at most 61 s later
    assert counts((scene.get(RESOURCE_POOL_STATUS_REQUESTS, "r") or {})["status"]["pools"][0]) == (2, 8, 0, 8, 0)


def test_status_is_written_after_an_outage_of_its_writes(make_cluster: Callable[..., SimulatedCluster]) -> None:
    # Seed 281130163380 of swarm: upstream gives up after five attempts.
    faults = parse_faults("command-answered 3..13 resource=resourcepoolstatusrequests status=409")
    scene = with_requests(make_cluster(faults=faults))
    assert "status" not in ask(scene)
    scene.run_for(20.0)
    assert (scene.get(RESOURCE_POOL_STATUS_REQUESTS, "r") or {})["status"]["poolCount"] == 0


def test_requests_are_counted_by_driver(scene: SimulatedCluster) -> None:
    ask(scene)
    metrics = scene.processes[next(iter(scene.processes))].system.metrics
    assert metrics.counter(PROCESSED, DRIVER).value == 1
    assert metrics.counter(ERRORS, DRIVER).value == 0


def test_controller_requires_the_feature_gate() -> None:
    assert not SPEC.enabled_if(read_options([]))
    assert SPEC.enabled_if(read_options(["--feature-gates=DRAResourcePoolStatus=true"]))
