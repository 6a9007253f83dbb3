"""A failing actor is restarted alone, while all others continue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from structlog.testing import LogCapture

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.reconciliation import Reconciliation, Watch, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Key
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS, REPLICATION_CONTROLLERS
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.support.objects import deployment, pod_template, replica_set

ACTORS = (
    "controller-manager",
    "dispatcher",
    "event-recorder",
    "informer:v1/pods",
    "informer:apps/v1/replicasets",
    "informer:apps/v1/deployments",
    "informer:v1/replicationcontrollers",
    "controller:deployment-controller",
    "controller:replicaset-controller",
    "controller:replicationcontroller-controller",
)


def is_rolled_out(cluster: SimulatedCluster, name: str, replicas: int) -> bool:
    found = cluster.get(DEPLOYMENTS, f"default/{name}")
    assert found is not None
    status = found.get("status", {})
    return status.get("observedGeneration") == found["metadata"]["generation"] and all(
        status.get(field) == replicas for field in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    )


def pod_creations(cluster: SimulatedCluster) -> Counter[str]:
    """Return the number of creations of pods by client."""
    return Counter(
        client
        for _, client, request in cluster.transport.requests
        if request.method == "POST" and request.path.endswith("/pods")
    )


@pytest.mark.parametrize(
    "moment", [0.2, *(pytest.param(moment, marks=pytest.mark.slow) for moment in (0.0, 0.01, 0.05, 1.0))]
)
@pytest.mark.parametrize("victim", ACTORS)
def test_a_rollout_survives_the_death_of_any_actor_at_any_moment(
    make_cluster: Callable[..., SimulatedCluster], logs: LogCapture, victim: str, moment: float
) -> None:
    cluster = make_cluster(seed=hash((len(victim), moment)) % 1000, latency=0.01)
    cluster.hollow_nodes()
    manager = cluster.manager()
    cluster.run_for(5.0)
    cluster.create(DEPLOYMENTS, deployment(replicas=6))
    assert cluster.run_until(lambda: is_rolled_out(cluster, "web", 6))
    made_before = pod_creations(cluster)["replicaset-controller"]
    incarnations = {name: manager.actors.incarnation(name) for name in ACTORS}

    cluster.merge(DEPLOYMENTS, "default/web", {"spec": {"template": pod_template(image="nginx:2")}})
    cluster.run_for(moment)
    cluster.world.kill(manager.actors, victim)

    assert cluster.run_until(lambda: is_rolled_out(cluster, "web", 6), within=120.0)
    cluster.run_for(30.0)
    assert pod_creations(cluster)["replicaset-controller"] - made_before == 6, "no pod is asked for twice"
    pods = cluster.list(PODS, "default")
    assert len(pods) == 6
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"nginx:2"}
    for name in ACTORS:
        expected = incarnations[name] + (1 if name == victim else 0)
        assert manager.actors.incarnation(name) == expected, f"{name} must {'' if name == victim else 'not '}restart"
    assert any(entry["log_level"] == "error" and "killed" in str(entry) for entry in logs.entries)


def test_actor_that_fails_too_often_stays_stopped_while_others_run(cluster: SimulatedCluster) -> None:
    cluster.hollow_nodes()
    manager = cluster.manager()
    cluster.run_for(5.0)
    for _ in range(12):
        cluster.world.kill(manager.actors, "controller:replicationcontroller-controller", "planted")
        cluster.run_for(20.0)
    assert not manager.actors.is_alive("controller:replicationcontroller-controller")
    check = manager.checks()["replicationcontroller-controller"]()
    assert check is not None
    assert "planted" in check
    assert manager.checks()["replicaset-controller"]() is None
    cluster.create(REPLICASETS, replica_set("web", replicas=3))
    assert cluster.run_until(lambda: len(cluster.list(PODS, "default")) == 3)
    manager.restart("replicationcontroller-controller")
    cluster.run_for(1.0)
    assert manager.actors.is_alive("controller:replicationcontroller-controller")


REPLICASET_QUEUE = (Queue(watches=(Watch(REPLICASETS, to=itself),)),)


class Picky:
    """Reconciler that raises for one object, and records its syncs of the others."""

    def __init__(self, looks: list[tuple[float, Key]], monotonic: Callable[[], float]) -> None:
        self._looks, self._monotonic = looks, monotonic

    def reconcile(self, key: Key) -> Reconciliation:
        self._looks.append((self._monotonic(), key))
        if key.endswith("/bad"):
            raise RuntimeError("planted")
        return None
        yield


@pytest.fixture
def looks() -> list[tuple[float, Key]]:
    return []


@pytest.fixture
def picky(cluster: SimulatedCluster, looks: list[tuple[float, Key]]) -> ControllerSystem:
    spec = ControllerSpec(
        name="picky-controller", queues=REPLICASET_QUEUE, build=lambda s: Picky(looks, s.clock.monotonic)
    )
    return cluster.manager(controllers=[spec])


def test_exception_for_one_object_is_retried_with_backoff_without_affecting_others(
    cluster: SimulatedCluster, picky: ControllerSystem, looks: list[tuple[float, Key]], logs: LogCapture
) -> None:
    cluster.run_for(3.0)
    cluster.create(REPLICASETS, replica_set("bad", replicas=1))
    cluster.run_for(20.0)
    cluster.create(REPLICASETS, replica_set("good", replicas=1))
    cluster.run_for(1.0)
    assert "default/good" in [key for _, key in looks]
    times = [at for at, key in looks if key == "default/bad"]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) == 13, "after 0, 5, 10, 20, … ms: the 13th 20.475 s after the first"
    assert gaps == sorted(gaps)
    assert gaps[0] == pytest.approx(0.005, abs=0.002)
    assert picky.actors.incarnation("controller:picky-controller") == 1
    warnings = [entry for entry in logs.entries if entry["event"] == "reconcile failed, retrying"]
    assert warnings[0]["key"] == "default/bad"
    assert warnings[0]["attempt"] == 1


class Remembering:
    """Reconciler that records the existing ReplicaSets only from the keys that it reconciles."""

    def __init__(self, context: ControllerContext, known: set[Key]) -> None:
        self._replica_sets, self._known = context.tables[REPLICASETS], known

    def reconcile(self, key: Key) -> Reconciliation:
        if self._replica_sets.entry(key) is None:
            self._known.discard(key)
        else:
            self._known.add(key)
        yield from ()


@pytest.mark.parametrize("away", [0.001, 0.1, 1.0, 3.0])
def test_object_deleted_while_an_informer_is_down_is_reconciled(
    make_cluster: Callable[..., SimulatedCluster], away: float
) -> None:
    # The controller receives the restart of the informer long after the table has dropped the deleted object.
    me = "controller:remembering-controller"
    late = Fault(kind=FaultKind.MESSAGE_DELAYED, start=4.9, until=9.0, seconds=5.0, actor=me)
    cluster = make_cluster(faults=[late])
    known: set[Key] = set()
    spec = ControllerSpec(name="remembering-controller", queues=REPLICASET_QUEUE, build=lambda s: Remembering(s, known))
    manager = cluster.manager(controllers=[spec])
    cluster.run_for(3.0)
    for name in ("gone", "stays"):
        cluster.create(REPLICASETS, replica_set(name, replicas=1))
    cluster.run_for(2.0)
    assert known == {"default/gone", "default/stays"}
    cluster.world.kill(manager.actors, "informer:apps/v1/replicasets")
    cluster.run_for(away)
    cluster.delete(REPLICASETS, "default/gone")
    cluster.run_for(20.0)
    assert known == {"default/stays"}


def test_controller_is_disabled_and_enabled_while_others_run(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(controllers=BUILT_IN)
    cluster.run_for(3.0)
    manager.disable("replicaset-controller")
    cluster.create(REPLICASETS, replica_set("web", replicas=2))
    cluster.create(
        REPLICATION_CONTROLLERS,
        {
            "metadata": {"name": "rc", "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"app": "rc"}, "template": pod_template(labels={"app": "rc"})},
        },
    )
    cluster.run_for(10.0)
    assert [pod["metadata"]["labels"]["app"] for pod in cluster.list(PODS, "default")] == ["rc"]
    manager.enable("replicaset-controller")
    cluster.run_for(5.0)
    assert Counter(pod["metadata"]["labels"]["app"] for pod in cluster.list(PODS, "default")) == {"rc": 1, "web": 2}


def test_a_paused_controller_keeps_its_queue(cluster: SimulatedCluster) -> None:
    manager = cluster.manager()
    cluster.run_for(3.0)
    manager.pause("replicaset-controller")
    cluster.create(REPLICASETS, replica_set("web", replicas=2))
    cluster.run_for(30.0)
    assert cluster.list(PODS, "default") == []
    assert cluster.describe(manager, "controller:replicaset-controller")["queued"] == 1
    manager.resume("replicaset-controller")
    cluster.run_for(5.0)
    assert len(cluster.list(PODS, "default")) == 2


def test_all_keys_are_reconciled_after_the_resync_period(
    cluster: SimulatedCluster, looks: list[tuple[float, Key]]
) -> None:
    spec = ControllerSpec(
        name="picky-controller",
        queues=REPLICASET_QUEUE,
        build=lambda s: Picky(looks, s.clock.monotonic),
        resync=lambda _options: 30.0,
    )
    cluster.manager(controllers=[spec])
    cluster.run_for(3.0)
    cluster.create(REPLICASETS, replica_set("good", replicas=1))
    cluster.run_for(95.0)
    assert [key for _, key in looks] == ["default/good"] * 4


def test_annotation_named_resource_version_does_not_stop_a_restarted_controller(
    cluster: SimulatedCluster,
) -> None:
    cluster.hollow_nodes()
    manager = cluster.manager()
    template = pod_template()
    template["metadata"]["annotations"] = {"resourceVersion": "999999999"}
    cluster.create(REPLICASETS, replica_set(replicas=2, spec={"template": template}))
    assert cluster.run_until(lambda: len(cluster.list(PODS)) == 2)
    manager.restart("replicaset-controller")
    cluster.run_for(5.0)
    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 3}})
    assert cluster.run_until(lambda: len(cluster.list(PODS)) == 3, within=60.0)
