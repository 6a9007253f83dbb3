"""The operator that copies between two clusters: on virtual time, with partitions, and on two servers over HTTP.

python -m pytest examples/test_copies.py, or for more seeds, in examples/:
python -m kcm.simulate --setting test_copies:SETTING --seeds 1000
"""

import functools
import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from copy_operator import COPIED, COPIER, COPIES, SOURCES, is_copy
from kubernetes import client, config
from remote_checks import until

from kcm import ApiServer, ControllerSystem, Key, Object, Resource, api_transport
from kcm.objects import decode_object, key_of, labels_of
from kcm.testing import (
    Action,
    Committed,
    Fail,
    Handled,
    Observation,
    Scenario,
    Setting,
    SimulatedCluster,
    Trial,
    draw_plan,
    must_hold,
    parse_faults,
)

NAMES = ("settings", "limits", "taken")
TAKEN = "default/taken"  # the edge has a ConfigMap of this name already
SERVERS_OWN = "kube-root-ca.crt"

# User actions. A user of a reduced scenario may change a ConfigMap that was never created.


def configmap(name: str, data: dict[str, str], labels: dict[str, str] | None = None) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "labels": labels or {}}, "data": data}


def create(at: float, name: str, data: dict[str, str]) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(SOURCES, f"default/{name}") is None:
            cluster.create(SOURCES, configmap(name, data, COPIED))
        return True

    return Action(at, f"{name} is created on hub with {data}", do)


def merge(at: float, resource: Resource, name: str, changes: dict[str, Any]) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, f"default/{name}") is not None:
            cluster.merge(resource, f"default/{name}", changes)
        return True

    return Action(at, f"{name} on {resource.cluster} is changed: {changes}", do)


def delete(at: float, resource: Resource, name: str) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, f"default/{name}") is not None:
            cluster.delete(resource, f"default/{name}")
        return True

    return Action(at, f"{name} on {resource.cluster} is deleted", do)


def life_of(name: str, scenario: Scenario, chance: random.Random) -> Iterator[Action]:
    def value() -> str:
        return str(chance.randrange(100))

    changes = [
        lambda at: iter([merge(at, SOURCES, name, {"data": {"b": value(), "a": None}})]),
        lambda at: iter([merge(at, SOURCES, name, {"data": {"a": value()}})]),
        lambda at: iter([merge(at, SOURCES, name, {"metadata": {"labels": dict.fromkeys(COPIED)}})]),
        lambda at: iter([merge(at, SOURCES, name, {"metadata": {"labels": COPIED}})]),
    ]
    if name not in TAKEN:
        changes += [
            lambda at: iter([merge(at, COPIES, name, {"data": {"a": "edited", "c": "added"}})]),
            lambda at: iter([delete(at, COPIES, name)]),
        ]
    yield from scenario.life(
        chance,
        make=lambda at: iter([create(at, name, {"a": value()})]),
        changes=changes,
        remove=lambda at: iter([delete(at, SOURCES, name)]),
        most=6,
    )


def actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("copies")
    for name in chance.sample(NAMES, chance.randint(1, 3)):
        yield from life_of(name, scenario, chance)
    if chance.random() < 0.5:  # the name becomes free, unless the copy is there already
        yield Action(round(chance.uniform(5.0, 25.0), 2), "edge's own ConfigMap is deleted", delete_own)


def delete_own(cluster: SimulatedCluster) -> bool:
    there = cluster.get(COPIES, TAKEN)
    if there is not None and not is_copy(there):
        cluster.delete(COPIES, TAKEN)
    return True


def prepare(cluster: SimulatedCluster) -> None:
    cluster.create(COPIES, configmap("taken", {"mine": "yes"}))


# Expected end state, and what must hold at every moment.


def of_users(cluster: SimulatedCluster, resource: Resource) -> dict[Key, Object]:
    return {key_of(obj): obj for obj in cluster.shown(resource) if obj["metadata"]["name"] != SERVERS_OWN}


def unsettled(cluster: SimulatedCluster) -> Iterator[str]:
    present = of_users(cluster, COPIES)
    for key, source in of_users(cluster, SOURCES).items():
        copy = present.pop(key, None)
        if not COPIED.items() <= labels_of(source).items():
            if copy is not None and is_copy(copy):
                yield f"{key} is on edge, and its source is not to be copied"
        elif copy is None:
            yield f"{key} is not on edge"
        elif is_copy(copy) and copy.get("data", {}) != source.get("data", {}):
            yield f"{key} has {copy.get('data', {})} on edge, and its source has {source.get('data', {})}"
    for key, copy in present.items():
        if is_copy(copy):
            yield f"{key} is on edge, and has no source"


def end_state(cluster: SimulatedCluster) -> dict[str, Any]:
    return {
        resource.cluster: {key: (labels_of(obj), obj.get("data")) for key, obj in of_users(cluster, resource).items()}
        for resource in (SOURCES, COPIES)
    }


class OnlyCopiesAreWritten:
    """The operator writes no source, and on edge nothing but copies. A copy has no owner: it would be on hub."""

    name = "only copies are written"

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Handled) and observation.process.startswith("manager"):
            for change in observation.changes:
                if change.storage == "hub:configmaps":
                    fail(f"{change.key} on hub is {change.type} by the operator, which must not write sources")
                before = decode_object(change.previous or change.raw)
                if change.storage == "edge:configmaps" and not is_copy(before):
                    fail(f"{change.key} on edge is {change.type} by the operator, and was no copy")
        if isinstance(observation, Committed):
            for change in observation.changes:
                owners = decode_object(change.raw)["metadata"].get("ownerReferences")
                if change.storage == "edge:configmaps" and owners:
                    fail(f"{change.key} on edge is owned by {owners[0]['kind']} {owners[0]['name']}, which is on hub")


TRIAL = Trial(
    controller=COPIER.name,
    actions=actions,
    unsettled=unsettled,
    end_state=end_state,
    invariants=lambda _cluster, _options: (OnlyCopiesAreWritten(),),
    deletes=(COPIES,),
)

SETTING = Setting(
    name="test_copies:SETTING",
    controllers=(COPIER,),
    clusters=("hub", "edge"),
    trials=(TRIAL,),
    prepare=prepare,
    draw=functools.partial(draw_plan, resources=("*", "configmaps")),
)


@pytest.mark.parametrize("seed", range(4))
def test_copies_match_their_sources_after_faults(seed: int) -> None:
    must_hold(seed, setting=SETTING)


def two_clusters(faults: str = "") -> SimulatedCluster:
    world = SimulatedCluster(clusters=("hub", "edge"), faults=parse_faults(faults))
    world.manager(controllers=(COPIER,))
    world.create(SOURCES, configmap("settings", {"a": "1"}, COPIED))
    return world


def data_of_copy(world: SimulatedCluster) -> Any:
    copy = world.get(COPIES, "default/settings")
    return None if copy is None else copy["data"]


def test_copy_follows_its_source_and_is_repaired() -> None:
    world = two_clusters()
    world.run_for(5)
    assert data_of_copy(world) == {"a": "1"}
    world.merge(SOURCES, "default/settings", {"data": {"a": None, "b": "2"}})
    world.merge(COPIES, "default/settings", {"data": {"c": "3"}})
    world.run_for(5)
    assert data_of_copy(world) == {"b": "2"}
    world.delete(SOURCES, "default/settings")
    world.run_for(5)
    assert data_of_copy(world) is None


def test_copy_is_made_once_the_partition_has_ended() -> None:
    world = two_clusters("partition 3..60 cluster=edge")
    world.run_for(2)
    world.merge(SOURCES, "default/settings", {"data": {"a": "2"}})
    world.run_for(3)
    assert data_of_copy(world) == {"a": "2"}
    world.merge(SOURCES, "default/settings", {"data": {"a": "3"}})
    world.run_for(30)
    assert data_of_copy(world) == {"a": "2"}
    world.run_for(90)
    assert data_of_copy(world) == {"a": "3"}


def test_name_that_is_taken_is_reported_on_the_source() -> None:
    world = SimulatedCluster(clusters=("hub", "edge"))
    prepare(world)
    world.manager(controllers=(COPIER,))
    world.create(SOURCES, configmap("taken", {"a": "1"}, COPIED))
    world.run_for(5)
    events = world.list(Resource(version="v1", plural="events", kind="Event", cluster="hub"), "default")
    assert [event["reason"] for event in events] == ["NotCopied"]
    there = world.get(COPIES, TAKEN)
    assert there is not None
    assert there["data"] == {"mine": "yes"}


def test_copies_are_made_over_http() -> None:
    with ExitStack() as closing:
        servers = {name: closing.enter_context(ApiServer()) for name in ("hub", "edge")}
        transports = {name: closing.enter_context(api_transport(each.kubeconfig)) for name, each in servers.items()}
        apis = {
            name: closing.enter_context(config.new_client_from_config(str(each.kubeconfig)))
            for name, each in servers.items()
        }
        sources: Any = client.CoreV1Api(apis["hub"])
        copies: Any = client.CoreV1Api(apis["edge"])

        def names() -> list[str]:
            return [each.metadata.name for each in copies.list_namespaced_config_map("default").items]

        with ControllerSystem(transports=transports, controllers=(COPIER,)):
            sources.create_namespaced_config_map("default", configmap("settings", {"a": "1"}, COPIED))
            until(lambda: "settings" in names())
            sources.delete_namespaced_config_map("settings", "default")
            until(lambda: "settings" not in names())
