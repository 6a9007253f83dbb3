"""Explanations by a manager that works on several clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.elector import Election
from kcm.actors.explanation.evidence import Evidence
from kcm.actors.explanation.explain import explain
from kcm.actors.explanation.text import text_of
from kcm.actors.reconciliation import Because, Reconciliation, Watch, itself
from kcm.actors.reconciliation.object_steps import ensure
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Key, Object
from kcm.protocols.resources import CONFIGMAPS, Resource
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.tables.tables import Tables
from tests.actors.explanation.stage import StoreReader

SOURCES, COPIES = CONFIGMAPS.on("hub"), CONFIGMAPS.on("edge")


class Copies:
    """Copies ConfigMaps of the hub to the edge."""

    def __init__(self, tables: Tables) -> None:
        self._sources, self._copies = tables[SOURCES], tables[COPIES]

    def reconcile(self, key: Key) -> Reconciliation:
        source = self._sources.get(key)
        if source is None:
            yield Because("has no source")
            return None
        yield Because(f"copies {len(source['data'])} entries")
        metadata = {"name": source["metadata"]["name"], "namespace": source["metadata"]["namespace"]}
        yield from ensure(self._copies, {"metadata": metadata, "data": source["data"]})
        return None


COPIER = ControllerSpec(
    name="copy-controller",
    queues=(Queue(watches=(Watch(SOURCES, to=itself, namespaces=("default",)), Watch(COPIES, to=itself))),),
    build=lambda context: Copies(context.tables),
)
# The writes to the edge fail from the tenth second on.
FAULTS = (Fault(kind=FaultKind.COMMAND_ANSWERED, status=500, start=10.0, resource="configmaps", cluster="edge"),)


class ReaderOf(StoreReader):
    """Reader of one of the clusters."""

    def __init__(self, world: SimulatedCluster, cluster: str) -> None:
        super().__init__(world)
        self._name = cluster

    def get(self, resource: Resource, key: Key) -> Object | None:
        return super().get(resource.on(self._name), key)

    def list(self, resource: Resource, namespace: str, *, labels: str, most: int) -> Sequence[Object]:
        return super().list(resource.on(self._name), namespace, labels=labels, most=most)


@pytest.fixture(scope="module")
def world() -> Iterator[SimulatedCluster]:
    world = SimulatedCluster(clusters=("hub", "edge"), faults=FAULTS)
    elections = {"hub": Election(identity="here", namespace="kube-system", name="copier")}
    world.manager(controllers=(COPIER,), election=elections)
    world.run_for(5.0)
    world.create(SOURCES, {"metadata": {"name": "early"}, "data": {"a": "1"}})
    world.run_for(10.0)
    world.create(SOURCES, {"metadata": {"name": "late"}, "data": {"a": "1"}})
    world.run_for(60.0)
    yield world
    world.world.close()


@pytest.fixture
def system(world: SimulatedCluster) -> ControllerSystem:
    return world.processes["manager"].system


def why(world: SimulatedCluster, name: str, cluster: str) -> str:
    view = world.processes["manager"].system.view(cluster)
    evidence = Evidence(ReaderOf(world, cluster), now=world.clock.now(), manager=view, cluster=cluster)
    return text_of(explain(CONFIGMAPS, f"default/{name}", evidence))


@pytest.mark.parametrize("cluster", ["hub", "edge"])
def test_object_is_explained_on_the_cluster_that_is_named(world: SimulatedCluster, cluster: str) -> None:
    found = why(world, "early", cluster)
    assert found.startswith(f"configmap default/early on cluster {cluster}: nothing is wrong\n")
    assert "copy-controller" in found
    assert "because copies 1 entries" in found


def test_failing_write_to_another_cluster_is_the_cause_of_its_source(world: SimulatedCluster) -> None:
    found = why(world, "late", "hub")
    assert found.startswith("configmap default/late on cluster hub: stuck: copy-controller cannot reconcile it: ")
    assert why(world, "late", "edge").startswith("configmap default/late does not exist on cluster edge\n")


def test_lease_is_that_of_the_home_of_the_controllers(system: ControllerSystem) -> None:
    leadership = system.view("edge").leadership()
    assert (leadership.elects, leadership.leading, leadership.identity) == (True, True, "here")


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("", "cluster: the manager works on edge, hub; name the one of the object, and none is named"),
        ("moon", "cluster: the manager works on edge, hub; name the one of the object, not 'moon'"),
        ("a/b%", "cluster: the manager works on edge, hub; name the one of the object, not 'a/b%'"),
    ],
)
def test_missing_or_unknown_cluster_is_an_error_that_names_the_clusters(
    system: ControllerSystem, cluster: str, message: str
) -> None:
    with pytest.raises(ValueError, match="cluster: ") as raised:
        system.why("configmap", "default", "early", cluster)
    assert str(raised.value) == message


def test_manager_of_one_cluster_takes_no_cluster() -> None:
    world = SimulatedCluster()
    system = world.manager(controllers=())
    with pytest.raises(ValueError, match=r"works on one cluster, which has no name, not 'edge'"):
        system.why("configmap", "default", "early", "edge")
    world.world.close()
