"""Changes of running controllers that users request, in a simulated cluster."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.engine.elector import Election
from kcm.actors.reconciliation.actor_names import MANAGER
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.lifecycle import Drain
from kcm.protocols.objects import Object
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS
from kcm.runtime.serving.control_pages import ACTIONS
from kcm.runtime.serving.debug_pages import ChangeRefusedError, PendingChange
from tests.support.objects import deployment, pod_template, replica_set

NAME, OTHER = "replicaset-controller", "deployment-controller"
FEW = [spec for spec in BUILT_IN if spec.name in (NAME, OTHER, "node-ipam-controller")]


def request(manager: ControllerSystem, action: str, name: str = NAME) -> PendingChange:
    return manager.change("controllers", name, action, {})


def result_of(change: PendingChange) -> dict[str, Any]:
    state: dict[str, Any] = orjson.loads(msgspec.json.encode(change.result()))
    return state


@pytest.fixture
def manager(cluster: SimulatedCluster) -> ControllerSystem:
    """Return a manager whose controllers run."""
    manager = cluster.manager(controllers=FEW)
    cluster.run_for(3.0)
    return manager


@pytest.mark.parametrize(
    ("before", "action", "state"),
    [
        ("", "disable", "Disabled"),
        ("disable", "enable", "Running"),
        ("", "pause", "Paused"),
        ("pause", "resume", "Running"),
        ("", "drain", "Paused"),
        ("drain", "resume", "Running"),
        ("", "restart", "Running"),
        ("pause", "restart", "Paused"),
        ("pause", "disable", "Disabled"),
    ],
)
def test_effect_of_a_change_becomes_visible(
    cluster: SimulatedCluster, manager: ControllerSystem, before: str, action: str, state: str
) -> None:
    if before:
        request(manager, before)
        cluster.run_for(1.0)
    change = request(manager, action)
    assert change.is_needed
    assert not change.is_done()
    assert cluster.run_until(change.is_done, within=5.0)
    assert result_of(change)["state"] == state


@pytest.mark.parametrize("action", ["enable", "resume"])
def test_change_to_the_present_state_is_done_at_once(manager: ControllerSystem, action: str) -> None:
    change = request(manager, action)
    assert (change.is_needed, change.is_done()) == (False, True)


@pytest.mark.parametrize("action", ["pause", "resume", "restart", "drain"])
def test_disabled_controller_can_only_be_enabled(
    cluster: SimulatedCluster, manager: ControllerSystem, action: str
) -> None:
    request(manager, "disable")
    cluster.run_for(1.0)
    with pytest.raises(ChangeRefusedError, match=f"^cannot {action} {NAME}: it is disabled$"):
        request(manager, action)
    assert not request(manager, "disable").is_needed


def test_controller_whose_requirement_is_missing_is_not_changed(manager: ControllerSystem) -> None:
    with pytest.raises(ChangeRefusedError, match="it is skipped, because it needs --allocate-node-cidrs"):
        request(manager, "enable", "node-ipam-controller")


def test_unknown_controller_and_settings_are_refused(manager: ControllerSystem) -> None:
    with pytest.raises(LookupError, match='controllers "nobody" not found'):
        request(manager, "pause", "nobody")
    with pytest.raises(ValueError, match="pause takes no settings, and got why"):
        manager.change("controllers", NAME, "pause", {"why": "lunch"})


def test_standby_and_ending_process_change_nothing(cluster: SimulatedCluster) -> None:
    first, second = (
        cluster.manager(controllers=FEW, election=Election(identity=name, namespace="kube-system", name="kcm"))
        for name in ("one", "two")
    )
    cluster.run_for(10.0)
    for action in ACTIONS["controllers"]:
        with pytest.raises(ChangeRefusedError, match="this process does not lead; the leader is one"):
            request(second, action)
    first.actors.tell(MANAGER, Drain())
    cluster.run_for(0.01)
    with pytest.raises(ChangeRefusedError, match="the process shuts down"):
        request(first, "pause")


def test_draining_waits_for_what_is_in_progress_and_starts_nothing(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    cluster = make_cluster(latency=2.0)
    manager = cluster.manager(controllers=FEW)
    cluster.run_for(30.0)
    cluster.create(REPLICASETS, replica_set("first", replicas=1))
    assert cluster.run_until(lambda: in_work(manager) == 1, within=20.0)
    change = request(manager, "drain")
    cluster.run_for(0.5)
    state = result_of(change)
    assert (state["state"], state["reason"], change.is_done()) == (
        "Pausing",
        "1 reconciliations are in progress",
        False,
    )
    cluster.create(REPLICASETS, replica_set("second", replicas=1))
    assert cluster.run_until(change.is_done, within=60.0)
    cluster.run_for(30.0)
    assert [pod["metadata"]["labels"]["app"] for pod in cluster.list(PODS, "default")] == ["first"]
    request(manager, "resume")
    assert cluster.run_until(lambda: len(cluster.list(PODS, "default")) == 2, within=60.0)


def in_work(manager: ControllerSystem) -> int:
    state = orjson.loads(msgspec.json.encode(manager.shown("controllers", NAME)))
    found: int = state["controller"]["inWork"]
    return found


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_nothing_is_lost_while_controllers_are_switched_under_load(
    make_cluster: Callable[..., SimulatedCluster], seed: int
) -> None:
    """Switch controllers at random while Deployments are created, scaled, rolled out and deleted."""
    chance = random.Random(seed)
    cluster = make_cluster(seed=seed, latency=0.02)
    manager = cluster.manager(controllers=FEW)
    cluster.run_for(3.0)
    wanted: dict[str, tuple[int, str]] = {}
    switched = Counter[str]()
    for number in range(60):
        name, replicas, image = f"web-{number % 8}", chance.randrange(4), f"nginx:{number % 3}"
        if name not in wanted:
            wanted[name] = (replicas, image)
            cluster.create(DEPLOYMENTS, with_image(name, replicas=replicas, image=image))
        else:
            wanted[name] = (replicas, image)
            spec = {"replicas": replicas, "template": pod_template(image=image, labels={"app": name})}
            cluster.merge(DEPLOYMENTS, f"default/{name}", {"spec": spec})
        controller, action = chance.choice((NAME, OTHER)), chance.choice(sorted(ACTIONS["controllers"]))
        try:
            switched[action] += request(manager, action, controller).is_needed
        except ChangeRefusedError:
            switched["refused"] += 1
        cluster.run_for(chance.choice((0.0, 0.01, 0.05, 0.3, 2.0)))
    assert switched.total() > 20
    for controller in (NAME, OTHER):
        request(manager, "enable", controller)
        cluster.run_for(2.0)
        request(manager, "resume", controller)

    def is_settled() -> bool:
        pods = Counter(
            (pod["metadata"]["labels"]["app"], pod["spec"]["containers"][0]["image"])
            for pod in cluster.list(PODS, "default")
            if "deletionTimestamp" not in pod["metadata"]
        )
        return pods == {(name, image): replicas for name, (replicas, image) in wanted.items() if replicas}

    cluster.hollow_nodes()
    for _ in range(30):
        cluster.run_for(10.0)
        if is_settled():
            break
    assert is_settled()


def with_image(name: str, *, replicas: int, image: str) -> Object:
    made = deployment(name, replicas=replicas)
    made["spec"]["selector"] = {"matchLabels": {"app": name}}
    made["spec"]["template"] = pod_template(image=image, labels={"app": name})
    return made
