"""Pods leave a node that has a NoExecute taint: at once, after their time, or never."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import LogCapture

from actors.controller_system import ControllerSystem
from actors.nodes.node_services import EVICTION_DURATION, EVICTIONS, NODE_SERVICES
from actors.nodes.taint_eviction import no_execute_taints, stay
from actors.simulation import SimulatedCluster
from actors.workloads.catalogue import WORKLOADS
from protocols.objects import Object
from protocols.resources import NODES, PODS, REPLICASETS
from runtime.simulation.faults import Fault, Kind
from tests.actors.nodes.objects import messages, node, pod, set_taints, taint, toleration, writes

SPEC = next(spec for spec in NODE_SERVICES if spec.name == "taint-eviction-controller")
FOREVER = toleration()
OTHER = taint("other")
NAME = "controller:taint-eviction-controller"


# How long a pod may stay.


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
def test_the_shortest_of_the_tolerations_that_count_is_a_pods_time(tolerations, taints, expected) -> None:
    assert stay(tolerations, taints) == expected


@given(st.lists(st.integers(-5, 100) | st.none(), min_size=1, max_size=5))
def test_more_taints_never_lengthen_a_pods_time(limits: list[int | None]) -> None:
    tolerations = [toleration(str(number), seconds) for number, seconds in enumerate(limits)]
    taints = [taint(str(number)) for number in range(len(limits))]
    times = [stay(tolerations, taints[: count + 1]).seconds for count in range(len(limits))]
    assert times == sorted(times, reverse=True)


def test_only_taints_with_the_effect_no_execute_count() -> None:
    some = [taint("a", "NoSchedule"), taint("b"), taint("c", "PreferNoSchedule"), taint("d")]
    assert [one["key"] for one in no_execute_taints(node(taints=some))] == ["b", "d"]
    assert no_execute_taints({"metadata": {"name": "bare"}}) == []


# One pod, one node, the controller, and time.


class Scene:
    """The controller alone on a cluster; what it asks is timed from `begin`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.manager: ControllerSystem
        self.start()

    def start(self) -> None:
        self.manager = self.cluster.manager(controllers=[SPEC])
        self.cluster.run_for(3.0)
        self.began = self.cluster.clock.monotonic()

    def create(self, *pods: Object, on: Object | None = None) -> None:
        self.cluster.create(NODES, on or node())
        for one in pods:
            self.cluster.create(PODS, one)
        self.cluster.run_for(0.5)
        self.began = self.cluster.clock.monotonic()

    def taint(self, *taints: Object) -> None:
        set_taints(self.cluster, "n1", *taints)

    def run_for(self, seconds: float) -> None:
        self.cluster.run_for(seconds)

    def evictions(self) -> dict[str, float]:
        """When each pod was deleted, in virtual seconds."""
        sent = writes(self.cluster, client="node-controller", since=self.began)
        return {one.what.removeprefix("DELETE pods/"): one.at for one in sent if one.what.startswith("DELETE")}

    def sent(self) -> list[str]:
        return [one.what for one in writes(self.cluster, client="node-controller")]

    def events(self, about: str = "p1") -> list[str]:
        self.cluster.run_for(2.0)
        found = messages(self.cluster, about=about)
        assert {(type, reason) for type, reason, _ in found} <= {("Normal", "TaintManagerEviction")}
        return [message for _, _, message in found]


@pytest.fixture
def scene(cluster: SimulatedCluster) -> Scene:
    return Scene(cluster)


MARKED, CANCELLED = "Marking for deletion Pod default/p1", "Cancelling deletion of Pod default/p1"


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
def test_a_pod_that_comes_to_a_node_is_evicted_if_it_does_not_tolerate_its_taints(
    scene: Scene, taints: Sequence[Object], tolerations: Sequence[Object], evicted: bool
) -> None:
    scene.create(on=node(taints=taints))
    scene.cluster.create(PODS, pod(tolerations=tolerations))
    scene.run_for(50.0)
    assert scene.sent() == (["PATCH pods/p1/status", "DELETE pods/p1"] if evicted else [])
    assert scene.events() == ([MARKED] if evicted else [])


@pytest.mark.parametrize(
    ("tolerations", "evicted"), [([], True), ([toleration()], False), ([toleration(seconds=100)], False)]
)
def test_a_pod_is_looked_at_once_it_is_bound_to_a_tainted_node(
    scene: Scene, tolerations: Sequence[Object], evicted: bool
) -> None:
    scene.create(pod(node="", tolerations=tolerations), on=node(taints=[taint()]))
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
def test_a_pod_is_looked_at_when_its_node_is_tainted(
    scene: Scene, taints: Sequence[Object], tolerations: Sequence[Object], evicted: bool
) -> None:
    scene.create(pod(tolerations=tolerations))
    scene.run_for(10.0)
    assert scene.sent() == []
    scene.taint(*taints)
    scene.run_for(50.0)
    assert list(scene.evictions()) == (["p1"] if evicted else [])


def test_each_pod_of_a_node_leaves_when_its_own_time_is_up_to_the_second(scene: Scene) -> None:
    scene.create(
        pod("now"),
        pod("soon", tolerations=[toleration(seconds=1)]),
        pod("never", tolerations=[toleration()]),
        pod("later", tolerations=[toleration(seconds=300)]),
    )
    scene.taint(taint())
    scene.run_for(3600.0)
    assert scene.evictions() == {
        "now": pytest.approx(0, abs=0.05),
        "soon": pytest.approx(1, abs=0.05),
        "later": pytest.approx(300, abs=0.05),
    }


def test_with_a_taint_that_none_tolerates_all_leave_at_once(scene: Scene) -> None:
    scene.create(pod("a"), pod("b", tolerations=[toleration(seconds=1)]), pod("c", tolerations=[toleration()]))
    scene.taint(taint(), OTHER)
    scene.run_for(60.0)
    assert scene.evictions() == dict.fromkeys("abc", pytest.approx(0, abs=0.05))


def test_of_two_taints_the_shorter_toleration_counts(scene: Scene) -> None:
    scene.create(pod(tolerations=[toleration(seconds=1), toleration("other", seconds=100)]))
    scene.taint(taint(), OTHER)
    scene.run_for(200.0)
    assert scene.evictions() == {"p1": pytest.approx(1, abs=0.05)}


def test_the_condition_says_why_before_the_pod_is_deleted_by_its_uid(scene: Scene) -> None:
    scene.create(pod(), on=node(taints=[taint()]))
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
    assert "gracePeriodSeconds" not in deleted.body, "the pod's own grace"
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30


# Time that is running.


def test_a_pod_stays_if_its_node_is_well_again_in_time(scene: Scene) -> None:
    scene.create(pod(tolerations=[toleration(seconds=10)]))
    scene.taint(taint())
    scene.run_for(5.0)
    scene.taint()
    scene.run_for(100.0)
    assert scene.evictions() == {}
    assert scene.events() == [CANCELLED]


def test_another_taint_or_another_time_of_the_taint_moves_nothing(scene: Scene) -> None:
    scene.create(pod(tolerations=[toleration(seconds=10), toleration("other", seconds=3)]))
    scene.taint(taint())
    scene.run_for(5.0)
    scene.taint(OTHER)
    scene.run_for(4.0)
    scene.taint(taint(timeAdded="2026-01-01T00:00:00Z"), OTHER)
    scene.run_for(50.0)
    assert scene.evictions() == {"p1": pytest.approx(10, abs=0.05)}
    assert scene.events() == [MARKED]


@pytest.mark.parametrize("seconds", [0, 100])
def test_a_toleration_that_changes_moves_nothing(scene: Scene, seconds: int) -> None:
    scene.create(pod(tolerations=[toleration(seconds=7)]), on=node(taints=[taint()]))
    scene.run_for(2.0)
    found = scene.cluster.get(PODS, "default/p1")
    assert found is not None
    others = [one for one in found["spec"]["tolerations"] if one["key"] != "drain"]
    changed = {"spec": {"tolerations": [*others, toleration(seconds=7), toleration("drain", seconds)]}}
    scene.cluster.merge(PODS, "default/p1", changed)
    scene.run_for(50.0)
    # From when the pod was first seen: it was made half a second before the scene began.
    assert scene.evictions() == {"p1": pytest.approx(6.5, abs=0.05)}


def test_a_taint_that_is_not_tolerated_ends_the_time_at_once(scene: Scene) -> None:
    scene.create(pod(tolerations=[toleration(seconds=100)]))
    scene.taint(taint())
    scene.run_for(5.0)
    scene.taint(taint(), OTHER)
    scene.run_for(200.0)
    assert scene.evictions() == {"p1": pytest.approx(5, abs=0.05)}
    assert scene.events() == [CANCELLED, MARKED]


def test_a_second_taint_gives_a_time_and_without_it_there_is_none(scene: Scene) -> None:
    scene.create(pod(tolerations=[toleration(), toleration("other", seconds=60)]))
    scene.taint(taint())
    scene.run_for(100.0)
    scene.taint(taint(), OTHER)
    scene.run_for(50.0)
    scene.taint(taint())
    scene.run_for(100.0)
    assert scene.evictions() == {}
    assert scene.events() == [CANCELLED]


def test_a_pod_that_goes_by_itself_cancels_its_eviction(scene: Scene) -> None:
    scene.create(pod(tolerations=[toleration(seconds=10)]), on=node(taints=[taint()]))
    scene.cluster.delete(PODS, "default/p1", grace_seconds=0)
    scene.run_for(100.0)
    assert scene.evictions() == {}
    assert scene.events() == [CANCELLED]


def test_a_pod_that_takes_the_name_of_another_has_a_time_of_its_own(scene: Scene) -> None:
    scene.create(pod(tolerations=[toleration(seconds=10)]), on=node(taints=[taint()]))
    scene.run_for(5.0)
    scene.manager.pause("taint-eviction-controller")  # so that it sees the two only when both are there
    scene.run_for(0.1)
    scene.cluster.delete(PODS, "default/p1", grace_seconds=0)
    scene.cluster.create(PODS, pod(tolerations=[toleration(seconds=10)]))
    scene.run_for(0.4)
    scene.manager.resume("taint-eviction-controller")
    scene.run_for(100.0)
    assert scene.evictions() == {"p1": pytest.approx(15.5, abs=0.05)}
    assert scene.events() == [CANCELLED, MARKED]


def test_a_pods_time_runs_on_when_its_node_is_deleted(scene: Scene) -> None:
    scene.create(pod(tolerations=[toleration(seconds=10)]))
    scene.taint(taint())
    scene.run_for(5.0)
    scene.cluster.delete(NODES, "n1")
    scene.run_for(100.0)
    assert scene.evictions() == {"p1": pytest.approx(10, abs=0.05)}


def test_no_pod_of_a_deleted_node_is_given_a_time(scene: Scene) -> None:
    scene.create(on=node(taints=[taint()]))
    scene.cluster.delete(NODES, "n1")
    scene.run_for(1.0)
    scene.cluster.create(PODS, pod())
    scene.run_for(100.0)
    assert scene.evictions() == {}


def test_a_pod_on_its_way_out_is_not_marked_again(scene: Scene) -> None:
    scene.create(pod(), on=node(taints=[taint()]))
    scene.run_for(5.0)
    scene.cluster.merge(PODS, "default/p1", {"metadata": {"labels": {"changed": "yes"}}})
    scene.taint(taint(), OTHER)
    scene.run_for(5.0)
    scene.manager.restart("taint-eviction-controller")
    scene.run_for(20.0)
    assert scene.sent() == ["PATCH pods/p1/status", "DELETE pods/p1"]
    assert scene.events() == [MARKED]


def test_a_pod_that_somebody_else_is_deleting_is_evicted_all_the_same(scene: Scene) -> None:
    scene.create(pod())
    scene.cluster.delete(PODS, "default/p1", grace_seconds=3600)
    scene.taint(taint())
    scene.run_for(5.0)
    assert scene.sent() == ["PATCH pods/p1/status", "DELETE pods/p1"]


def test_the_pods_of_a_replica_set_move_to_the_nodes_that_are_left(cluster: SimulatedCluster) -> None:
    cluster.hollow_nodes(nodes=3, zones=1)
    cluster.manager(controllers=[*WORKLOADS, SPEC])
    cluster.run_for(5.0)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 9, "selector": {"matchLabels": labels}, "template": template}
    cluster.create(REPLICASETS, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    cluster.run_for(20.0)
    leaving = cluster.list(NODES)[0]["metadata"]["name"]
    before = {one["metadata"]["uid"]: one["spec"]["nodeName"] for one in cluster.list(PODS)}
    assert leaving in before.values()
    set_taints(cluster, leaving, taint())
    cluster.run_for(60.0)
    after = {one["metadata"]["uid"]: one["spec"]["nodeName"] for one in cluster.list(PODS)}
    assert len(after) == 9
    assert leaving not in after.values()
    assert {uid: name for uid, name in before.items() if name != leaving}.items() <= after.items(), "no other moved"


# Trouble.


def test_a_new_incarnation_gives_every_pod_its_whole_time_again(scene: Scene) -> None:
    scene.create(pod(tolerations=[toleration(seconds=100)]))
    scene.taint(taint())
    scene.run_for(60.0)
    scene.cluster.world.kill(scene.manager.actors, NAME)
    scene.run_for(10.0)
    restarted = scene.manager.actors.incarnation(NAME)
    scene.run_for(200.0)
    assert restarted == 2
    assert scene.evictions() == {"p1": pytest.approx(160, abs=3.0)}


@pytest.mark.parametrize("moment", [0.0, 0.011, 0.025, 0.035, 0.045, 0.06])
def test_a_crash_in_the_middle_of_an_eviction_neither_forgets_nor_doubles_it(
    make_cluster: Callable[..., SimulatedCluster], moment: float
) -> None:
    cluster = make_cluster(latency=0.01)
    scene = Scene(cluster)
    scene.create(pod(tolerations=[toleration(seconds=5)]), pod("p2"))
    scene.taint(taint())
    scene.run_for(moment)
    cluster.world.kill(scene.manager.actors, NAME)
    scene.run_for(60.0)
    for name in ("p1", "p2"):
        found = cluster.get(PODS, f"default/{name}")
        assert found is not None
        assert found["metadata"]["deletionTimestamp"]
    deletions = [what for what in scene.sent() if what.startswith("DELETE")]
    assert sorted(deletions) == ["DELETE pods/p1", "DELETE pods/p2"]


def test_the_node_is_asked_itself_before_a_pod_leaves_whose_time_is_up(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    late = Fault(kind=Kind.WATCH_LAGGING, start=5.0, until=40.0, resource="nodes", seconds=30.0)
    scene = Scene(make_cluster(faults=[late]))
    scene.create(pod(tolerations=[toleration(seconds=10)]), pod("p2", tolerations=[toleration(seconds=10)]))
    scene.taint(taint())
    scene.run_for(3.0)
    scene.taint()  # which the watch does not show before the pods' time is up
    scene.run_for(100.0)
    assert scene.evictions() == {}
    assert scene.events() == [CANCELLED]


def test_one_look_at_the_node_serves_many_pods(scene: Scene) -> None:
    scene.create(*(pod(f"p{number}", tolerations=[toleration(seconds=10)]) for number in range(30)))
    scene.taint(taint())
    scene.run_for(60.0)
    assert len(scene.evictions()) == 30
    asked = [
        (request.method, request.path)
        for _, who, request in scene.cluster.transport.requests
        if who == "node-controller"
    ]
    assert 1 <= asked.count(("GET", "/api/v1/nodes/n1")) <= 8, "those that began together"


def test_what_the_server_fails_to_do_is_tried_again_and_told_once(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    broken = Fault(kind=Kind.COMMAND_ANSWERED, start=3.0, until=60.0, status=500, object="default/p1")
    scene = Scene(make_cluster(faults=[broken]))
    scene.create(pod(), pod("p2"), on=node(taints=[taint()]))
    scene.run_for(300.0)
    assert list(scene.evictions()) == ["p2", "p1"]
    assert scene.evictions()["p1"] > 56.0
    assert scene.events() == [MARKED]


def test_the_clock_on_the_wall_may_jump(scene: Scene) -> None:
    scene.create(pod(tolerations=[toleration(seconds=10)]))
    scene.taint(taint())
    scene.run_for(5.0)
    scene.cluster.clock.skew = 3600.0
    scene.run_for(60.0)
    assert scene.evictions() == {"p1": pytest.approx(10, abs=0.05)}


def test_evictions_are_counted_and_timed(scene: Scene, logs: LogCapture) -> None:
    scene.create(pod(tolerations=[toleration(seconds=10)]), pod("p2"), on=node(taints=[taint()]))
    scene.run_for(20.0)
    metrics = scene.manager.metrics
    assert metrics.counter(EVICTIONS).value == 2
    duration = metrics.histogram(EVICTION_DURATION)
    assert sum(duration.counts) == 2
    assert 0 < duration.sum < 0.1, "seconds from when the time was up"
    assert [entry["key"] for entry in logs.entries if entry["event"] == "pod evicted"] == ["default/p2", "default/p1"]
