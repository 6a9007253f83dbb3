from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcm.actors.app.connection import user_agents
from kcm.actors.hollow import behaviour
from kcm.actors.hollow.nodes.reconciler import LEASE_INTERVAL
from kcm.actors.hollow.process import PROGRAMS
from kcm.actors.hollow.specs import hollow_specs
from kcm.actors.simulation.cluster import SimulatedCluster
from kcm.protocols.conditions import is_true
from kcm.protocols.objects import Object, annotations_of
from kcm.protocols.resources import EVENTS, LEASES, NODES, PODS, Resource
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.core.settings import ApiSettings
from kcm.runtime.apiserver.http.user_agents import agent_prefix
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import NODES as ALL_NODES
from kcm.runtime.apiserver.registry.users import User
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.storage.store import MemoryStore


@pytest.fixture
def hollow(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster of three hollow nodes in two zones, one second after its start."""
    cluster.manager(controllers=hollow_specs(nodes=3, zones=2))
    cluster.run_for(1)
    return cluster


def a_pod(name: str, *, annotations: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {"containers": [{"name": "web", "image": "nginx"}], **spec},
    }


def annotate(cluster: SimulatedCluster, resource: Resource, key: str, **annotations: Any) -> None:
    cluster.merge(resource, key, {"metadata": {"annotations": annotations}})


def phases(cluster: SimulatedCluster) -> Object:
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in cluster.list(PODS)}


def events(cluster: SimulatedCluster) -> list[tuple[str, ...]]:
    return [(event["source"]["component"], event["reason"], event["message"]) for event in cluster.list(EVENTS)]


def versions(cluster: SimulatedCluster, resource: Resource) -> list[str]:
    return [obj["metadata"]["resourceVersion"] for obj in cluster.list(resource)]


def test_the_specs_are_three_controllers_with_clients_and_sources_of_their_own() -> None:
    assert [(spec.name, spec.client, spec.component) for spec in hollow_specs(nodes=1, zones=1)] == [
        ("hollow-nodes-controller", "hollow-nodes", "kubelet"),
        ("hollow-kubelet-controller", "hollow-kubelet", "kubelet"),
        ("hollow-scheduler-controller", "hollow-scheduler", "default-scheduler"),
    ]


def test_hollow_clients_have_the_names_of_upstream_programs() -> None:
    clients = {spec.client for spec in hollow_specs(nodes=1, zones=1, volumes=True, devices=True)}
    assert clients == PROGRAMS.keys()
    agents = user_agents("hollow-cluster", PROGRAMS)
    assert {client: agent_prefix(agents.header(client)) for client in clients} == {
        "hollow-nodes": "kubelet",
        "hollow-kubelet": "kubelet",
        "hollow-scheduler": "kube-scheduler",
        "hollow-provisioner": "hollow-provisioner",
        "hollow-attacher": "hollow-attacher",
        "hollow-resizer": "hollow-resizer",
        "hollow-devices": "hollow-devices",
    }


def test_each_kubelet_writes_as_its_node_what_a_node_may_write(hollow: SimulatedCluster) -> None:
    failing = {behaviour.UNPULLABLE: "*"}
    for number in range(6):
        hollow.create(PODS, a_pod(f"p{number}", annotations=failing if number > 2 else None))
    hollow.run_for(LEASE_INTERVAL * 2)
    hollow.delete(PODS, "default/p0")
    hollow.run_for(LEASE_INTERVAL * 2)
    rights = ApiServer(store=MemoryStore(), clock=hollow.clock, settings=ApiSettings(role_based=True))
    rights.ensure_roles()
    asked: dict[tuple[str, ...], set[str]] = {}
    for _, client, request in hollow.network.requests:
        if client in ("hollow-nodes", "hollow-kubelet"):
            wanted = RequestInfo.of(request.method, request.path, request.query)
            assert rights.decide(User(request.user, groups=(ALL_NODES,)), wanted).allowed, wanted
            asked.setdefault((wanted.verb, wanted.resource, wanted.subresource), set()).add(request.user)
        else:
            assert request.user == ""
    nodes = [f"hollow-node-{number}" for number in range(3)]
    users = {f"system:node:{name}" for name in nodes}
    for what in ("create nodes ", "patch nodes status", "create leases ", "patch leases ", "patch pods status"):
        assert asked.pop(tuple(what.split(" "))) == users
    assert asked.pop(("delete", "pods", "")) < users
    assert asked.keys() <= {("create", "events", ""), ("patch", "events", "")}
    of_kubelets = [event for event in hollow.list(EVENTS) if event["source"]["component"] == "kubelet"]
    assert {event["source"]["host"] for event in of_kubelets} <= {*nodes}
    assert of_kubelets


def test_nodes_start_ready_in_their_zones(hollow: SimulatedCluster) -> None:
    nodes = hollow.list(NODES)
    assert [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes] == [
        "zone-a",
        "zone-b",
        "zone-a",
    ]
    assert all(is_true(node["status"]["conditions"], "Ready") for node in nodes)
    assert len({node["status"]["addresses"][0]["address"] for node in nodes}) == 3


def test_heartbeats_renew_leases_and_write_nothing_else(hollow: SimulatedCluster) -> None:
    hollow.run_for(30)
    before = versions(hollow, NODES)
    for _ in range(6):
        hollow.run_for(LEASE_INTERVAL)
        for lease in hollow.list(LEASES):
            assert hollow.clock.now() - parse_time(lease["spec"]["renewTime"]) < 1.1 * LEASE_INTERVAL
    changed = sum(version != other for version, other in zip(before, versions(hollow, NODES), strict=True))
    assert changed <= 1  # the early first repetition of a status


def test_pod_is_scheduled_run_and_deleted(hollow: SimulatedCluster) -> None:
    hollow.create(PODS, a_pod("web"))
    hollow.run_for(1)
    pod = hollow.get(PODS, "default/web")
    assert pod["status"]["phase"] == "Running"
    assert all(is_true(pod["status"]["conditions"], type) for type in ("PodScheduled", "Initialized", "Ready"))
    assert pod["status"]["podIP"].startswith("240.0.")
    node = pod["spec"]["nodeName"]
    assert events(hollow) == [("default-scheduler", "Scheduled", f"Successfully assigned default/web to {node}")]
    hollow.delete(PODS, "default/web")
    hollow.run_for(1)
    assert hollow.get(PODS, "default/web") is None


def test_a_running_pod_is_written_once_and_then_left_alone(hollow: SimulatedCluster) -> None:
    created = hollow.create(PODS, a_pod("web"))
    hollow.run_for(1)
    version = int(hollow.get(PODS, "default/web")["metadata"]["resourceVersion"])
    assert version - int(created["metadata"]["resourceVersion"]) <= 3  # binding, status, and an event between
    hollow.run_for(60)
    assert int(hollow.get(PODS, "default/web")["metadata"]["resourceVersion"]) == version


def test_unschedulable_pod_waits_for_a_suitable_node(hollow: SimulatedCluster) -> None:
    hollow.create(PODS, a_pod("web", nodeSelector={"disk": "ssd"}))
    hollow.run_for(20)
    (recorded,) = events(hollow)
    assert recorded[1:] == (
        "FailedScheduling",
        (
            "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to "
            "deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        ),
    )
    hollow.merge(NODES, "hollow-node-1", {"metadata": {"labels": {"disk": "ssd"}}})
    hollow.run_for(2)
    assert hollow.get(PODS, "default/web")["spec"]["nodeName"] == "hollow-node-1"
    assert phases(hollow) == {"web": "Running"}


def test_pending_pod_is_scheduled_after_a_deletion(make_cluster: Callable[..., Any]) -> None:
    cluster = make_cluster()
    cluster.manager(controllers=hollow_specs(nodes=1, zones=1, pods_per_node=2))
    for name in "abc":
        cluster.create(PODS, a_pod(name))
    cluster.run_for(5)
    (waiting,) = [name for name, phase in phases(cluster).items() if phase == "Pending"]
    running = min(set("abc") - {waiting})
    cluster.delete(PODS, f"default/{running}")
    cluster.run_for(3)
    assert phases(cluster)[waiting] == "Running"


def test_a_cordoned_node_gets_no_pods(hollow: SimulatedCluster) -> None:
    for name in ("hollow-node-0", "hollow-node-2"):
        hollow.merge(NODES, name, {"spec": {"unschedulable": True}})
    hollow.run_for(1)
    for name in "abc":
        hollow.create(PODS, a_pod(name))
    hollow.run_for(1)
    assert {pod["spec"]["nodeName"] for pod in hollow.list(PODS)} == {"hollow-node-1"}


@pytest.mark.parametrize("code, phase", [("0", "Succeeded"), ("1", "Failed")])
def test_a_pod_may_run_to_its_end(hollow: SimulatedCluster, code: str, phase: str) -> None:
    script = {behaviour.RUN_SECONDS: "20", behaviour.EXIT_CODE: code}
    hollow.create(PODS, a_pod("job", annotations=script, restartPolicy="Never"))
    hollow.run_for(10)
    assert phases(hollow) == {"job": "Running"}
    hollow.run_for(15)
    assert phases(hollow) == {"job": phase}


def test_a_crashing_container_is_restarted_with_backoff(hollow: SimulatedCluster) -> None:
    hollow.create(PODS, a_pod("web", annotations={behaviour.RUN_SECONDS: "1", behaviour.EXIT_CODE: "1"}))
    hollow.run_for(60)
    (status,) = hollow.get(PODS, "default/web")["status"]["containerStatuses"]
    assert 3 <= status["restartCount"] <= 4
    assert phases(hollow) == {"web": "Running"}


def container(*command: str, **fields: Any) -> Object:
    return {"name": "web", "image": "nginx", **({"command": list(command)} if command else {}), **fields}


def test_pod_runs_according_to_its_command_line(hollow: SimulatedCluster) -> None:
    commands = {"fails": ("sh", "-c", "sleep 5; exit 3"), "works": ("sleep", "10"), "serves": ("nginx",)}
    for name, command in commands.items():
        hollow.create(PODS, a_pod(name, containers=[container(*command)], restartPolicy="Never"))
    hollow.run_for(3)
    assert set(phases(hollow).values()) == {"Running"}
    hollow.run_for(30)
    assert phases(hollow) == {"fails": "Failed", "works": "Succeeded", "serves": "Running"}
    (over,) = hollow.get(PODS, "default/fails")["status"]["containerStatuses"]
    assert over["state"]["terminated"]["exitCode"] == 3


def test_failed_image_pull_is_reported_and_retried(hollow: SimulatedCluster) -> None:
    hollow.create(PODS, a_pod("web"))
    hollow.create(PODS, a_pod("lost", containers=[container(image="shop/web:404")]))
    hollow.run_for(8)
    assert phases(hollow) == {"web": "Running", "lost": "Pending"}
    reasons = [reason for component, reason, _ in events(hollow) if component == "kubelet"]
    assert sorted(reasons) == ["BackOff", "Failed", "Failed", "Failed", "Pulling"]
    hollow.merge(PODS, "default/lost", {"spec": {"containers": [container(image="shop/web:2")]}})
    hollow.run_for(1)
    assert phases(hollow) == {"web": "Running", "lost": "Running"}


def test_restarted_kubelet_continues_with_its_pods(cluster: SimulatedCluster) -> None:
    cluster.hollow_nodes()
    cluster.run_for(1)
    cluster.create(PODS, a_pod("loop", containers=[container("false")]))
    cluster.create(PODS, a_pod("job", containers=[container("sleep", "100")], restartPolicy="Never"))
    cluster.run_for(50)
    cluster.crash("hollow")
    cluster.run_for(20)
    cluster.start_again("hollow")
    cluster.run_for(40)
    assert phases(cluster) == {"loop": "Running", "job": "Succeeded"}
    (status,) = cluster.get(PODS, "default/loop")["status"]["containerStatuses"]
    assert status["restartCount"] == 4


def test_a_container_that_hangs_is_not_ready_and_then_restarted(hollow: SimulatedCluster) -> None:
    probes = {
        "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 2, "failureThreshold": 1},
        "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 10, "failureThreshold": 2},
    }
    pod = a_pod("web", containers=[container(**probes)], annotations={behaviour.HANG_AFTER: "15"})
    hollow.create(PODS, pod)
    ready = []
    for _ in range(6):
        hollow.run_for(6)
        status = hollow.get(PODS, "default/web")["status"]
        ready.append((is_true(status["conditions"], "Ready"), status["containerStatuses"][0]["restartCount"]))
    assert ready == [(True, 0), (True, 0), (False, 0), (False, 0), (False, 0), (True, 1)]
    reasons = {reason for component, reason, _ in events(hollow) if component == "kubelet"}
    assert reasons == {"Unhealthy", "Killing"}


def test_a_rejected_pod_fails_at_once(hollow: SimulatedCluster) -> None:
    hollow.create(PODS, a_pod("web", annotations={behaviour.REJECT: "true"}))
    hollow.run_for(1)
    assert hollow.get(PODS, "default/web")["status"]["reason"] == "OutOfcpu"


def test_slowly_stopping_pod_exists_until_it_has_stopped(hollow: SimulatedCluster) -> None:
    hollow.create(PODS, a_pod("web", annotations={behaviour.TERMINATE_AFTER: "8"}))
    hollow.run_for(1)
    hollow.delete(PODS, "default/web")
    hollow.run_for(7)
    assert phases(hollow) == {"web": "Running"}
    hollow.run_for(2)
    assert phases(hollow) == {}


def test_silent_node_sends_no_heartbeats_and_stops_no_pods(hollow: SimulatedCluster) -> None:
    hollow.create(PODS, a_pod("web"))
    hollow.run_for(1)
    name = hollow.get(PODS, "default/web")["spec"]["nodeName"]
    annotate(hollow, NODES, name, **{behaviour.SILENT: "true"})
    hollow.run_for(1)
    lease = hollow.get(LEASES, f"kube-node-lease/{name}")
    hollow.delete(PODS, "default/web")
    hollow.run_for(120)
    assert hollow.get(LEASES, f"kube-node-lease/{name}") == lease
    assert phases(hollow) == {"web": "Running"}
    annotate(hollow, NODES, name, **{behaviour.SILENT: None})
    hollow.run_for(1)
    assert behaviour.SILENT not in annotations_of(hollow.get(NODES, name))
    assert hollow.get(LEASES, f"kube-node-lease/{name}") != lease
    assert phases(hollow) == {}


def test_smaller_fleet_deletes_surplus_nodes(cluster: SimulatedCluster) -> None:
    first = cluster.manager(controllers=hollow_specs(nodes=3, zones=1))
    cluster.run_for(1)
    first.halt()
    cluster.manager(controllers=hollow_specs(nodes=2, zones=1))
    cluster.run_for(1)
    assert [node["metadata"]["name"] for node in cluster.list(NODES)] == ["hollow-node-0", "hollow-node-1"]


def test_a_fleet_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="hollow nodes"):
        hollow_specs(nodes=1, zones=0)
