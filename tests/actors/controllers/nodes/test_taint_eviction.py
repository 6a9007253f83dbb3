"""Tests of taint eviction: pods on nodes with NoExecute taints, and their tolerationSeconds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import LogCapture

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.nodes.taint_eviction import no_execute_taints, tolerance
from kcm.actors.controllers.workloads import replicaset
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object
from kcm.protocols.resources import NODES, PODS, REPLICASETS
from tests.actors.controllers.nodes.eviction_scene import CANCELLED, MARKED, SPEC, Scene
from tests.actors.controllers.nodes.objects import set_taints, writes
from tests.support.objects import node, pod, taint, toleration

OTHER = taint("other")


# Toleration times.


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        ([], [], (True, math.inf)),
        ([toleration()], [taint()], (True, math.inf)),
        ([toleration(seconds=1), toleration("other", seconds=2)], [taint(), OTHER], (True, 1)),
        ([toleration(seconds=1), toleration("other")], [taint(), OTHER], (True, 1)),
        ([toleration(), toleration("other", seconds=1)], [taint(), OTHER], (True, 1)),
        ([toleration(seconds=5), toleration(seconds=1)], [taint()], (True, 5)),
        ([toleration(seconds=5), toleration("unused", seconds=1)], [taint()], (True, 5)),
        ([toleration(seconds=0)], [taint()], (True, 0)),
        ([toleration(seconds=-3)], [taint()], (True, 0)),
        ([], [taint()], (False, 0)),
        ([toleration(seconds=9)], [taint(), OTHER], (False, 0)),
    ],
)
def test_toleration_time_is_the_shortest_of_the_used_tolerations(tolerations, taints, expected) -> None:
    assert tolerance(tolerations, taints) == expected


@given(st.lists(st.integers(-5, 100) | st.none(), min_size=1, max_size=5))
def test_additional_taints_never_lengthen_the_toleration_time(limits: list[int | None]) -> None:
    tolerations = [toleration(str(number), seconds=seconds) for number, seconds in enumerate(limits)]
    taints = [taint(str(number)) for number in range(len(limits))]
    times = [tolerance(tolerations, taints[: count + 1]).seconds for count in range(len(limits))]
    assert times == sorted(times, reverse=True)


def test_only_no_execute_taints_are_considered() -> None:
    some = [taint("a", "NoSchedule"), taint("b"), taint("c", "PreferNoSchedule"), taint("d")]
    assert [taint["key"] for taint in no_execute_taints(node(taints=some))] == ["b", "d"]
    assert no_execute_taints({"metadata": {"name": "bare"}}) == []


# One node and its pods.


@pytest.fixture
def scene(cluster: SimulatedCluster) -> Scene:
    return Scene(cluster)


@pytest.mark.parametrize(
    ("taints", "tolerations", "evicted"),
    [
        ([], [], False),
        ([taint(effect="NoSchedule")], [], False),
        ([taint()], [], True),
        ([taint()], [toleration(seconds=100)], False),
        ([taint()], [toleration()], False),
        ([taint()], [toleration("other")], True),
        ([taint(), OTHER], [toleration()], True),
    ],
)
def test_new_pod_is_evicted_unless_it_tolerates_the_taints(
    scene: Scene, taints: Sequence[Object], tolerations: Sequence[Object], evicted: bool
) -> None:
    scene.create(on=node(taints=taints))
    scene.cluster.create(PODS, pod("p1", tolerations=tolerations, node="n1"))
    scene.run_for(50.0)
    assert scene.sent() == (["PATCH pods/p1/status", "DELETE pods/p1"] if evicted else [])
    assert scene.events() == ([MARKED] if evicted else [])


@pytest.mark.parametrize(
    ("tolerations", "evicted"), [([], True), ([toleration()], False), ([toleration(seconds=100)], False)]
)
def test_pod_is_processed_when_bound_to_tainted_node(
    scene: Scene, tolerations: Sequence[Object], evicted: bool
) -> None:
    scene.create(pod("p1", tolerations=tolerations), on=node(taints=[taint()]))
    assert scene.sent() == []
    body = {"metadata": {"name": "p1"}, "target": {"kind": "Node", "name": "n1"}}
    assert scene.cluster.request("POST", "/api/v1/namespaces/default/pods/p1/binding", body).status == 201
    scene.run_for(50.0)
    assert list(scene.evictions()) == (["p1"] if evicted else [])


@pytest.mark.parametrize(
    ("taints", "tolerations", "evicted"),
    [
        ([taint()], [], True),
        ([taint()], [toleration(seconds=100)], False),
        ([taint(), OTHER], [toleration()], True),
        ([taint()], [toleration()], False),
        ([taint(effect="NoSchedule")], [], False),
    ],
)
def test_pod_is_processed_when_its_node_is_tainted(
    scene: Scene, taints: Sequence[Object], tolerations: Sequence[Object], evicted: bool
) -> None:
    scene.create(pod("p1", tolerations=tolerations, node="n1"))
    scene.run_for(10.0)
    assert scene.sent() == []
    scene.taint(*taints)
    scene.run_for(50.0)
    assert list(scene.evictions()) == (["p1"] if evicted else [])


def test_each_pod_is_evicted_after_its_own_toleration_time(scene: Scene) -> None:
    scene.create(
        pod("now", node="n1"),
        pod("soon", tolerations=[toleration(seconds=1)], node="n1"),
        pod("never", tolerations=[toleration()], node="n1"),
        pod("later", tolerations=[toleration(seconds=300)], node="n1"),
    )
    scene.taint(taint())
    scene.run_for(3600.0)
    assert scene.evictions() == {
        "now": pytest.approx(0, abs=0.05),
        "soon": pytest.approx(1, abs=0.05),
        "later": pytest.approx(300, abs=0.05),
    }


def test_untolerated_taint_evicts_all_pods_at_once(scene: Scene) -> None:
    scene.create(
        pod("a", node="n1"),
        pod("b", tolerations=[toleration(seconds=1)], node="n1"),
        pod("c", tolerations=[toleration()], node="n1"),
    )
    scene.taint(taint(), OTHER)
    scene.run_for(60.0)
    assert scene.evictions() == dict.fromkeys("abc", pytest.approx(0, abs=0.05))


def test_shorter_toleration_of_two_taints_applies(scene: Scene) -> None:
    scene.create(pod("p1", tolerations=[toleration(seconds=1), toleration("other", seconds=100)], node="n1"))
    scene.taint(taint(), OTHER)
    scene.run_for(200.0)
    assert scene.evictions() == {"p1": pytest.approx(1, abs=0.05)}


def test_condition_is_written_before_the_pod_is_deleted_by_uid(scene: Scene) -> None:
    scene.create(pod("p1", node="n1"), on=node(taints=[taint()]))
    marked, deleted = writes(scene.cluster, client="node-controller")
    found = scene.cluster.get(PODS, "default/p1")
    assert found is not None
    uid = found["metadata"]["uid"]
    assert marked.body["metadata"] == {"uid": uid}
    (condition,) = marked.body["status"]["conditions"]
    assert condition.pop("lastTransitionTime")
    condition.pop("observedGeneration", None)
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
    }
    assert deleted.body["preconditions"] == {"uid": uid}
    assert "gracePeriodSeconds" not in deleted.body, "the pod's own grace period"
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30


# Changes during the toleration time.


def test_pod_is_kept_if_the_taint_is_removed_in_time(scene: Scene) -> None:
    scene.create(pod("p1", tolerations=[toleration(seconds=10)], node="n1"))
    scene.taint(taint())
    scene.run_for(5.0)
    scene.taint()
    scene.run_for(100.0)
    assert scene.evictions() == {}
    assert scene.events() == [CANCELLED]


def test_other_taints_and_times_do_not_change_the_eviction_time(scene: Scene) -> None:
    scene.create(pod("p1", tolerations=[toleration(seconds=10), toleration("other", seconds=3)], node="n1"))
    scene.taint(taint())
    scene.run_for(5.0)
    scene.taint(OTHER)
    scene.run_for(4.0)
    scene.taint(taint(timeAdded="2026-01-01T00:00:00Z"), OTHER)
    scene.run_for(50.0)
    assert scene.evictions() == {"p1": pytest.approx(10, abs=0.05)}
    assert scene.events() == [MARKED]


@pytest.mark.parametrize("seconds", [0, 100])
def test_changed_toleration_does_not_change_the_eviction_time(scene: Scene, seconds: int) -> None:
    scene.create(pod("p1", tolerations=[toleration(seconds=7)], node="n1"), on=node(taints=[taint()]))
    scene.run_for(2.0)
    found = scene.cluster.get(PODS, "default/p1")
    assert found is not None
    others = [toleration for toleration in found["spec"]["tolerations"] if toleration["key"] != "drain"]
    changed = {"spec": {"tolerations": [*others, toleration(seconds=7), toleration("drain", seconds=seconds)]}}
    scene.cluster.merge(PODS, "default/p1", changed)
    scene.run_for(50.0)
    # Since the pod was first seen: it was created half a second before the scene began.
    assert scene.evictions() == {"p1": pytest.approx(6.5, abs=0.05)}


def test_untolerated_second_taint_evicts_at_once(scene: Scene) -> None:
    scene.create(pod("p1", tolerations=[toleration(seconds=100)], node="n1"))
    scene.taint(taint())
    scene.run_for(5.0)
    scene.taint(taint(), OTHER)
    scene.run_for(200.0)
    assert scene.evictions() == {"p1": pytest.approx(5, abs=0.05)}
    assert scene.events() == [CANCELLED, MARKED]


def test_removed_second_taint_cancels_the_eviction(scene: Scene) -> None:
    scene.create(pod("p1", tolerations=[toleration(), toleration("other", seconds=60)], node="n1"))
    scene.taint(taint())
    scene.run_for(100.0)
    scene.taint(taint(), OTHER)
    scene.run_for(50.0)
    scene.taint(taint())
    scene.run_for(100.0)
    assert scene.evictions() == {}
    assert scene.events() == [CANCELLED]


def test_deletion_of_the_pod_cancels_its_eviction(scene: Scene) -> None:
    scene.create(pod("p1", tolerations=[toleration(seconds=10)], node="n1"), on=node(taints=[taint()]))
    scene.cluster.delete(PODS, "default/p1", grace_seconds=0)
    scene.run_for(100.0)
    assert scene.evictions() == {}
    assert scene.events() == [CANCELLED]


def test_new_pod_of_the_same_name_has_its_own_time(scene: Scene) -> None:
    scene.create(pod("p1", tolerations=[toleration(seconds=10)], node="n1"), on=node(taints=[taint()]))
    scene.run_for(5.0)
    scene.manager.pause("taint-eviction-controller")  # so that both pods exist when it resumes
    scene.run_for(0.1)
    scene.cluster.delete(PODS, "default/p1", grace_seconds=0)
    scene.cluster.create(PODS, pod("p1", tolerations=[toleration(seconds=10)], node="n1"))
    scene.run_for(0.4)
    scene.manager.resume("taint-eviction-controller")
    scene.run_for(100.0)
    assert scene.evictions() == {"p1": pytest.approx(15.5, abs=0.05)}
    assert scene.events() == [CANCELLED, MARKED]


def test_eviction_time_continues_when_the_node_is_deleted(scene: Scene) -> None:
    scene.create(pod("p1", tolerations=[toleration(seconds=10)], node="n1"))
    scene.taint(taint())
    scene.run_for(5.0)
    scene.cluster.delete(NODES, "n1")
    scene.run_for(100.0)
    assert scene.evictions() == {"p1": pytest.approx(10, abs=0.05)}


def test_pods_of_deleted_node_are_not_evicted(scene: Scene) -> None:
    scene.create(on=node(taints=[taint()]))
    scene.cluster.delete(NODES, "n1")
    scene.run_for(1.0)
    scene.cluster.create(PODS, pod("p1", node="n1"))
    scene.run_for(100.0)
    assert scene.evictions() == {}


def test_terminating_pod_is_not_marked_again(scene: Scene) -> None:
    scene.create(pod("p1", node="n1"), on=node(taints=[taint()]))
    scene.run_for(5.0)
    scene.cluster.merge(PODS, "default/p1", {"metadata": {"labels": {"changed": "yes"}}})
    scene.taint(taint(), OTHER)
    scene.run_for(5.0)
    scene.manager.restart("taint-eviction-controller")
    scene.run_for(20.0)
    assert scene.sent() == ["PATCH pods/p1/status", "DELETE pods/p1"]
    assert scene.events() == [MARKED]


def test_pod_that_is_being_deleted_is_evicted_too(scene: Scene) -> None:
    scene.create(pod("p1", node="n1"))
    scene.cluster.delete(PODS, "default/p1", grace_seconds=3600)
    scene.taint(taint())
    scene.run_for(5.0)
    assert scene.sent() == ["PATCH pods/p1/status", "DELETE pods/p1"]


def test_evicted_pods_of_a_replica_set_move_to_other_nodes(cluster: SimulatedCluster) -> None:
    cluster.hollow_nodes(nodes=3, zones=1)
    cluster.manager(controllers=[replicaset.SPEC, SPEC])
    cluster.run_for(5.0)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 9, "selector": {"matchLabels": labels}, "template": template}
    cluster.create(REPLICASETS, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    cluster.run_for(20.0)
    leaving = cluster.list(NODES)[0]["metadata"]["name"]
    before = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in cluster.list(PODS)}
    assert leaving in before.values()
    set_taints(cluster, leaving, taint())
    cluster.run_for(60.0)
    after = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in cluster.list(PODS)}
    assert len(after) == 9
    assert leaving not in after.values()
    assert {uid: name for uid, name in before.items() if name != leaving}.items() <= after.items(), (
        "other pods have not moved"
    )


@pytest.mark.parametrize("flag", ["--enable-taint-manager=false", "--enable-taint-manager=true"])
def test_without_the_taint_manager_the_controller_is_skipped(
    cluster: SimulatedCluster, logs: LogCapture, flag: str
) -> None:
    system = cluster.manager(
        controllers=[SPEC], options=read_options([flag, "--controllers=taint-eviction-controller"])
    )
    assert (system.skipped == (SPEC.name,)) is (flag == "--enable-taint-manager=false")
    needs = [line.get("needs") for line in logs.entries if line["event"] == "Warning: skipping controller"]
    assert needs == ["--enable-taint-manager"] * len(system.skipped)
