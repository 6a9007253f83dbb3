"""Resize of pods in place, and ephemeral containers, in hollow kubelets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcm.actors.hollow import behaviour
from kcm.actors.hollow.kubelet.resize import Resized, allocated_spec, resized
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object
from kcm.protocols.resources import EVENTS, PODS
from kcm.protocols.times import format_time

NOW = 1_700_000_000.0
ONE, TWO = {"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}
LACKING = "Node didn't have enough resource: cpu, requested: 2000, used: 0, capacity: 1000"
IN_PROGRESS = {"type": "PodResizeInProgress", "status": "True", "lastTransitionTime": format_time(NOW)}


def pod(wanted: Object, has: Object | None, *, conditions: tuple[Object, ...] = (), **container: Any) -> Object:
    """Build a running pod. wanted: resources of its container in the spec. has: those in its status."""
    status: Object = {"name": "c", "containerID": "hollow://1", "state": {"running": {}}}
    if has is not None:
        status |= {"resources": has, "allocatedResources": has["requests"]}
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "generation": 2},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": wanted, **container}]},
        "status": {"containerStatuses": [status], "conditions": list(conditions)},
    }


def look(pod: Object, *, lack: str = "", seconds: float = 0.0, now: float = NOW) -> Resized:
    return resized(pod, lack=lambda: lack, seconds=seconds, now=now)


def reasons(result: Resized) -> list[str]:
    return [event.reason for event in result.events]


def test_resources_of_a_new_container_are_those_of_its_spec() -> None:
    for has in (None, ONE):
        assert look(pod(ONE, has)) == Resized({"c": ONE}, {"c": ONE})


def test_resize_is_applied_at_once() -> None:
    result = look(pod(TWO, ONE))
    assert (result.applied, result.allocated, result.conditions) == ({"c": TWO}, {"c": TWO}, ())
    assert reasons(result) == ["ResizeStarted", "ResizeCompleted"]
    text, _, summary = result.events[0].message.partition(": ")
    assert text == "Pod resize started"
    assert json.loads(summary) == {"containers": [{"name": "c", "resources": TWO}], "generation": 2}


def test_resize_that_does_not_fit_is_deferred() -> None:
    result = look(pod(TWO, ONE), lack=LACKING)
    assert (result.applied, result.allocated, reasons(result)) == ({"c": ONE}, {"c": ONE}, ["ResizeDeferred"])
    (condition,) = result.conditions
    assert (condition["type"], condition["reason"]) == ("PodResizePending", "Deferred")
    assert (condition["message"], condition["observedGeneration"]) == (LACKING, 2)
    again = look(pod(TWO, ONE, conditions=(condition,)), lack=LACKING, now=NOW + 60)
    assert (again.conditions, again.events) == ([condition], [])
    assert look(pod(TWO, ONE, conditions=(condition,)), now=NOW + 60).conditions == ()


def test_resize_takes_the_time_of_the_annotation() -> None:
    started = look(pod(TWO, ONE), seconds=20)
    assert (started.applied, started.allocated, started.due) == ({"c": ONE}, {"c": TWO}, NOW + 20)
    assert reasons(started) == ["ResizeStarted"]
    running = pod(TWO, ONE, conditions=tuple(started.conditions))
    running["status"]["containerStatuses"][0]["allocatedResources"] = TWO["requests"]
    waits = look(running, seconds=20, now=NOW + 10)
    assert (waits.applied, waits.events, waits.conditions) == ({"c": ONE}, [], list(started.conditions))
    over = look(running, seconds=20, now=NOW + 20)
    assert (over.applied, reasons(over), over.conditions) == ({"c": TWO}, ["ResizeCompleted"], ())


def test_change_during_a_resize_starts_another() -> None:
    before = {**IN_PROGRESS, "observedGeneration": 1}
    running = pod({"requests": {"cpu": "3"}}, ONE, conditions=(before,))
    running["status"]["containerStatuses"][0]["allocatedResources"] = TWO["requests"]
    result = look(running, seconds=20, now=NOW + 10)
    assert reasons(result) == ["ResizeStarted"]
    assert (result.conditions[0]["observedGeneration"], result.due) == (2, NOW + 30)


@pytest.mark.parametrize(("resource", "expected"), [("cpu", {"c"}), ("memory", set())])
def test_container_is_restarted_if_its_policy_requires_it(resource: str, expected: set[str]) -> None:
    policies = [{"resourceName": resource, "restartPolicy": "RestartContainer"}]
    assert look(pod(TWO, ONE, resizePolicy=policies)).restarted == expected


def test_allocated_spec_has_the_allocated_requests() -> None:
    assert allocated_spec(pod(TWO, ONE))["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    same = pod(ONE, ONE)
    assert allocated_spec(same) is same["spec"]


def pod_level(wanted: Object, has: Object | None, *, conditions: tuple[Object, ...] = ()) -> Object:
    """Build a running pod with pod-level resources and a container without. has: those in its status."""
    made = pod({}, {"requests": {}}, conditions=conditions)
    made["spec"]["resources"] = wanted
    if has is not None:
        made["status"] |= {"resources": has, "allocatedResources": has["requests"]}
    return made


def test_pod_level_resources_are_reported() -> None:
    for has in (None, ONE):
        assert look(pod_level(ONE, has)).of_pod == {"resources": ONE, "allocatedResources": {"cpu": "1"}}
    assert look(pod(ONE, ONE)).of_pod == {}


def test_pod_level_resources_are_resized() -> None:
    started = look(pod_level(TWO, ONE), seconds=20)
    assert started.of_pod == {"resources": ONE, "allocatedResources": {"cpu": "2"}}
    assert (reasons(started), started.due) == (["ResizeStarted"], NOW + 20)
    running = pod_level(TWO, ONE, conditions=tuple(started.conditions))
    running["status"]["allocatedResources"] = TWO["requests"]
    over = look(running, seconds=20, now=NOW + 20)
    assert over.of_pod == {"resources": TWO, "allocatedResources": {"cpu": "2"}}
    assert (reasons(over), over.restarted) == (["ResizeCompleted"], frozenset())


def test_pod_level_resize_that_does_not_fit_is_deferred() -> None:
    result = look(pod_level(TWO, ONE), lack=LACKING)
    assert (result.of_pod["resources"], reasons(result)) == (ONE, ["ResizeDeferred"])


def test_allocated_spec_has_the_allocated_pod_level_requests() -> None:
    assert allocated_spec(pod_level(TWO, ONE))["resources"]["requests"] == {"cpu": "1"}
    more = pod_level(TWO, {"requests": {"cpu": "1", "memory": "1Gi"}})  # as kubelets that report the containers' too
    assert allocated_spec(more)["resources"]["requests"] == {"cpu": "1"}


# In a cluster.


def create(cluster: SimulatedCluster, name: str, cpu: str, **container: Any) -> None:
    own = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}, **container}
    cluster.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [own]}})


def resize(cluster: SimulatedCluster, name: str, cpu: str) -> None:
    pod = cluster.get(PODS, f"default/{name}")
    assert pod is not None
    own = {**pod["spec"]["containers"][0], "resources": {"requests": {"cpu": cpu}}}
    cluster.merge(PODS, f"default/{name}", {"spec": {"containers": [own]}}, subresource="resize")


def container_status(cluster: SimulatedCluster, name: str) -> Object:
    pod = cluster.get(PODS, f"default/{name}") or {}
    status: Object = pod["status"]["containerStatuses"][0]
    return status


@pytest.fixture
def node(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster of one hollow node with 32 CPUs."""
    cluster.hollow_nodes(nodes=1, zones=1)
    cluster.run_for(2)
    return cluster


def test_running_pod_is_resized(node: SimulatedCluster) -> None:
    policies = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    create(node, "one", "1")
    create(node, "two", "1", resizePolicy=policies)
    node.run_for(2)
    assert container_status(node, "one")["resources"] == {"requests": {"cpu": "1"}}
    for name in ("one", "two"):
        resize(node, name, "2")
    node.run_for(2)
    restarts = []
    for name in ("one", "two"):
        status = container_status(node, name)
        assert (status["resources"], status["allocatedResources"]) == ({"requests": {"cpu": "2"}}, {"cpu": "2"})
        restarts.append(status["restartCount"])
    assert restarts == [0, 1]
    seen = {event["reason"] for event in node.list(EVENTS) if event["source"]["component"] == "kubelet"}
    assert seen == {"ResizeStarted", "ResizeCompleted", "Killing"}


def test_deferred_resize_is_performed_once_there_is_room(node: SimulatedCluster) -> None:
    create(node, "one", "20")
    create(node, "two", "10")
    node.run_for(2)
    resize(node, "two", "20")
    node.run_for(2)
    pod = node.get(PODS, "default/two")
    assert pod is not None
    condition = find_condition(pod["status"]["conditions"], "PodResizePending")
    assert condition is not None
    assert (
        condition["message"] == "Node didn't have enough resource: cpu, requested: 20000, used: 20000, capacity: 32000"
    )
    create(node, "three", "5")  # the scheduler counts the requested 20 CPUs
    node.run_for(2)
    waiting = node.get(PODS, "default/three")
    assert waiting is not None
    assert not waiting["spec"].get("nodeName")
    node.delete(PODS, "default/one")
    node.run_for(15)
    pod = node.get(PODS, "default/two")
    assert pod is not None
    assert find_condition(pod["status"]["conditions"], "PodResizePending") is None
    assert container_status(node, "two")["resources"] == {"requests": {"cpu": "20"}}
    waiting = node.get(PODS, "default/three")
    assert waiting is not None
    assert waiting["spec"].get("nodeName")


def test_pod_level_resources_are_resized_in_a_cluster(node: SimulatedCluster) -> None:
    def requesting(cpu: str) -> Object:
        return {"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}

    own = {"name": "c", "image": "nginx"}
    for name, cpu in (("one", "20"), ("two", "10")):
        spec = {**requesting(cpu), "containers": [own]}
        node.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    node.run_for(2)
    node.merge(PODS, "default/two", {"spec": requesting("20")}, subresource="resize")
    node.run_for(2)
    pod = node.get(PODS, "default/two") or {}
    condition = find_condition(pod["status"]["conditions"], "PodResizePending")
    assert condition is not None
    assert condition["reason"] == "Deferred"
    assert pod["status"]["resources"]["requests"]["cpu"] == "10"
    create(node, "three", "5")  # the scheduler counts the requested 20 CPUs
    node.run_for(2)
    assert not (node.get(PODS, "default/three") or {})["spec"].get("nodeName")
    node.delete(PODS, "default/one")
    node.run_for(15)
    pod = node.get(PODS, "default/two") or {}
    assert find_condition(pod["status"]["conditions"], "PodResizePending") is None
    assert (pod["status"]["resources"], pod["status"]["allocatedResources"]) == (
        requesting("20")["resources"],
        {"cpu": "20", "memory": "1Gi"},
    )
    assert (node.get(PODS, "default/three") or {})["spec"].get("nodeName")


def test_resize_in_progress_is_shown(node: SimulatedCluster) -> None:
    create(node, "one", "1")
    node.run_for(2)
    node.merge(PODS, "default/one", {"metadata": {"annotations": {behaviour.RESIZE_SECONDS: "20"}}})
    resize(node, "one", "2")
    node.run_for(5)
    pod = node.get(PODS, "default/one")
    assert pod is not None
    assert find_condition(pod["status"]["conditions"], "PodResizeInProgress") is not None
    status = container_status(node, "one")
    assert (status["resources"], status["allocatedResources"]) == ({"requests": {"cpu": "1"}}, {"cpu": "2"})
    node.run_for(20)
    pod = node.get(PODS, "default/one")
    assert pod is not None
    types = [condition["type"] for condition in pod["status"]["conditions"]]
    assert "PodResizeInProgress" not in types
    assert container_status(node, "one")["resources"] == {"requests": {"cpu": "2"}}


def test_ephemeral_containers_run_in_a_running_pod(node: SimulatedCluster) -> None:
    create(node, "one", "1")
    node.run_for(2)
    debuggers = [
        {"name": "stays", "image": "busybox", "stdin": True},
        {"name": "ends", "image": "busybox", "command": ["sh", "-c", "sleep 3; exit 2"]},
    ]
    node.merge(PODS, "default/one", {"spec": {"ephemeralContainers": debuggers}}, subresource="ephemeralcontainers")
    node.run_for(10)
    pod = node.get(PODS, "default/one")
    assert pod is not None
    statuses = pod["status"]["ephemeralContainerStatuses"]
    assert [status["name"] for status in statuses] == ["stays", "ends"]
    assert "running" in statuses[0]["state"]
    assert (statuses[1]["state"]["terminated"]["exitCode"], statuses[1]["restartCount"]) == (2, 0)
    assert (pod["status"]["phase"], statuses[0]["ready"]) == ("Running", False)
    node.delete(PODS, "default/one")
    node.run_for(5)
    assert node.get(PODS, "default/one") is None
