"""Response to GET /controllers, in a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.engine.elector import Election, Migration
from kcm.actors.reconciliation import Reconciliation, Watch, itself
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Key
from kcm.protocols.resources import LEASES, REPLICASETS
from kcm.protocols.times import format_micro_time
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.support.objects import replica_set

NAME = "replicaset-controller"
FEW = [spec for spec in BUILT_IN if spec.name in (NAME, "deployment-controller")]


def states_of(system: ControllerSystem) -> dict[str, Any]:
    states: dict[str, Any] = orjson.loads(msgspec.json.encode(system.shown("controllers", "")))
    return states


def controller(system: ControllerSystem, name: str) -> dict[str, Any]:
    details: dict[str, Any] = orjson.loads(msgspec.json.encode(system.shown("controllers", name)))
    found: dict[str, Any] = details["controller"]
    return found


def actor(system: ControllerSystem, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(actor for actor in states_of(system)["actors"] if actor["name"] == name)
    return found


class Refusing:
    """Reconciler that always fails."""

    def reconcile(self, key: Key) -> Reconciliation:
        raise RuntimeError(f"no room for {key}")
        yield


REFUSING = ControllerSpec(
    name="refusing-controller",
    queues=(Queue(watches=(Watch(REPLICASETS, to=itself),)),),
    build=lambda _context: Refusing(),
)


def test_all_controllers_and_actors_are_shown_with_their_states(cluster: SimulatedCluster) -> None:
    cluster.hollow_nodes()
    manager = cluster.manager()
    cluster.run_for(30.0)
    states = states_of(manager)
    assert (states["leading"], states["stopping"], len(states["controllers"])) == (True, False, len(BUILT_IN))
    by_name = {state["name"]: state for state in states["controllers"]}
    assert by_name[NAME]["state"] == "Running"
    assert by_name["bootstrap-signer-controller"]["state"] == "Disabled"
    assert (by_name["node-ipam-controller"]["state"], by_name["node-ipam-controller"]["reason"]) == (
        "Skipped",
        "--allocate-node-cidrs",
    )
    assert by_name["node-lifecycle-controller"]["passes"][0]["name"] == "monitor"
    assert by_name["node-lifecycle-controller"]["passes"][0]["sinceSuccessSeconds"] < 6.0
    assert states["actors"][0]["kind"] == "manager"
    kinds = {state["name"]: (state["kind"], state["owner"]) for state in states["actors"]}
    assert kinds["informer:v1/pods"] == ("informer", "")
    assert kinds["controller:replicaset-controller"] == ("controller", "")
    zones = [owner for name, (kind, owner) in kinds.items() if kind == "zone-eviction-queue"]
    assert zones
    assert set(zones) == {"node-lifecycle-controller"}
    assert actor(manager, "informer:v1/nodes")["table"]["objects"] == 3

    details = orjson.loads(msgspec.json.encode(manager.shown("controllers", "nodelifecycle")))
    assert details["controller"]["name"] == "node-lifecycle-controller"
    assert {actor["kind"] for actor in details["actors"]} == {"controller", "zone-eviction-queue", "informer"}
    with pytest.raises(LookupError, match='"nobody" not found'):
        manager.shown("controllers", "nobody")


def test_failing_queue_is_shown_with_its_error_and_age(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(controllers=[REFUSING])
    cluster.run_for(1.0)
    cluster.create(REPLICASETS, replica_set("web"))
    cluster.run_for(60.0)
    state = controller(manager, "refusing-controller")
    queue = state["queues"][0]
    assert queue["name"] == "refusing"
    assert queue["lastError"] == "default/web: RuntimeError: no room for default/web"
    assert (queue["sinceSuccessSeconds"], queue["delayed"], state["reconciled"]) == (None, 1, 0)
    assert queue["failuresInARow"] == state["failuresInARow"] == state["failed"] > 5
    assert 59.0 < queue["failingSeconds"] <= 60.0


def test_steered_controllers_are_shown(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(controllers=FEW)
    cluster.run_for(3.0)
    manager.pause(NAME)
    manager.disable("deployment-controller")
    cluster.create(REPLICASETS, replica_set("web"))
    cluster.run_for(20.0)
    paused = controller(manager, NAME)
    assert (paused["state"], paused["paused"], paused["queued"]) == ("Paused", True, 1)
    assert paused["queues"][0]["longestWaiting"] == "default/web"
    assert 19.0 < paused["longestWaitingSeconds"] <= 20.0
    disabled = controller(manager, "deployment-controller")
    assert (disabled["state"], disabled["enabled"], disabled["upSeconds"]) == ("Disabled", False, None)
    manager.enable("deployment-controller")
    manager.resume(NAME)
    cluster.run_for(5.0)
    assert (controller(manager, NAME)["state"], controller(manager, NAME)["queued"]) == ("Running", 0)
    enabled = controller(manager, "deployment-controller")
    assert (enabled["state"], enabled["incarnation"], enabled["restarts"]) == ("Running", 2, 1)


def test_restarted_actor_is_shown_with_its_error(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(controllers=FEW)
    cluster.run_for(3.0)
    cluster.world.kill(manager.actors, f"controller:{NAME}", "planted")
    cluster.run_for(0.05)
    assert (controller(manager, NAME)["state"], controller(manager, NAME)["reason"]) == ("Restarting", "planted")
    cluster.run_for(5.0)
    state = controller(manager, NAME)
    assert (state["state"], state["restarts"], state["lastError"]) == ("Running", 1, "planted")
    assert state["upSeconds"] < 5.0
    assert actor(manager, f"controller:{NAME}")["failures"] == 1


def test_standby_names_the_leader(cluster: SimulatedCluster) -> None:
    first = cluster.manager(controllers=FEW, election=Election(identity="one", namespace="kube-system", name="kcm"))
    cluster.run_for(5.0)
    second = cluster.manager(controllers=FEW, election=Election(identity="two", namespace="kube-system", name="kcm"))
    cluster.run_for(10.0)
    assert states_of(first)["leading"]
    states = states_of(second)
    assert (states["leading"], states["leader"]) == (False, "one")
    state = controller(second, NAME)
    assert (state["state"], state["reason"], state["enabled"]) == ("Standby", "one leads", True)


def test_states_are_read_while_an_actor_hangs(make_cluster: Callable[..., SimulatedCluster]) -> None:
    hang = Fault(kind=FaultKind.ACTOR_HUNG, actor=f"controller:{NAME}", start=5.0, most=1)
    cluster = make_cluster(faults=[hang])
    manager = cluster.manager(controllers=FEW)
    cluster.run_for(6.0)
    for number in range(5):
        cluster.create(REPLICASETS, replica_set(f"web-{number}"))
    cluster.run_for(10.0)
    assert actor(manager, f"controller:{NAME}")["mailbox"] > 0
    cluster.run_for(60.0)
    state = controller(manager, NAME)
    assert (state["state"], state["restarts"]) == ("Running", 1)
    assert state["lastError"].startswith("hung: ")


def test_controller_under_a_lease_that_another_process_holds_stands_by(cluster: SimulatedCluster) -> None:
    held = {
        "holderIdentity": "other",
        "leaseDurationSeconds": 3600,
        "renewTime": format_micro_time(cluster.clock.now()),
    }
    cluster.create(LEASES, {"metadata": {"name": "migrated", "namespace": "kube-system"}, "spec": held})
    migration = Migration(lease="migrated", components={NAME: "*"})
    election = Election(identity="one", namespace="kube-system", name="kcm", migration=migration)
    manager = cluster.manager(controllers=FEW, election=election)
    cluster.run_for(10.0)
    assert controller(manager, "deployment-controller")["state"] == "Running"
    state = controller(manager, NAME)
    assert (state["state"], state["reason"]) == ("Standby", "another process holds the Lease under which it runs")
