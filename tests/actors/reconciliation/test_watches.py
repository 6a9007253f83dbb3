"""Keys that a change of a dependent enqueues: its controller, and that controller's successor."""

from __future__ import annotations

import pytest

from kcm.actors.reconciliation import Change, Reconciliation, Watch, ensure, its_controller, itself, own
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench
from kcm.protocols.messages.outcomes import AlreadyExists, Invalid
from kcm.protocols.objects import Key, OwnerRef, uid_of
from kcm.protocols.resources import REPLICASETS, Resource
from kcm.runtime.tables.tables import Tables
from tests.support.objects import replica_set

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
OLD, NEW = (OwnerRef("apps/v1", "ReplicaSet", "web", uid) for uid in ("u1", "u2"))
JOB = OwnerRef("batch/v1", "Job", "web", "u1")


@pytest.mark.parametrize(
    ("type", "before", "after", "owner", "successor"),
    [
        ("ADDED", None, NEW, ["d/web"], ["d/web"]),
        ("MODIFIED", NEW, None, ["d/web"], ["d/web"]),
        ("MODIFIED", OLD, NEW, ["d/web"], ["d/web", "d/web"]),
        ("DELETED", None, NEW, ["d/web"], ["d/web"]),
        ("DELETED", None, OLD, [], ["d/web"]),
        ("MODIFIED", OLD, OLD, [], ["d/web"]),
        ("MODIFIED", OLD, None, [], ["d/web"]),
        ("DELETED", None, JOB, [], []),
        ("DELETED", None, None, [], []),
    ],
)
def test_dependent_enqueues_its_controller_and_optionally_its_successor(
    type: str, before: OwnerRef | None, after: OwnerRef | None, owner: list[Key], successor: list[Key]
) -> None:
    tables = Bench({REPLICASETS: [replica_set("web", namespace="d", metadata={"uid": "u2"})]}).tables
    change = Change(type=type, key="d/one", raw=b"", controller=after, previous_controller=before)
    assert list(its_controller(REPLICASETS)(change, tables)) == owner
    assert list(its_controller(REPLICASETS, or_successor=True)(change, tables)) == successor


def test_dependent_of_a_deleted_owner_concerns_its_key() -> None:
    change = Change(type="DELETED", key="d/one", raw=b"", controller=OLD)
    assert list(its_controller(REPLICASETS)(change, Bench({REPLICASETS: []}).tables)) == ["d/web"]


def test_its_controller_refuses_a_value_that_is_not_a_resource() -> None:
    with pytest.raises(TypeError, match="its_controller takes the Resource of the owners, not 'replicasets'"):
        its_controller("replicasets")  # type: ignore[arg-type]


# In a cluster: an owner is deleted and created again while a dependent of the first one still has its finalizer.


class Naming:
    """Reconciler that creates a ConfigMap for each ReplicaSet, with its name, once the name is free."""

    def __init__(self, tables: Tables) -> None:
        self._sets, self._configmaps = tables[REPLICASETS], tables[CONFIGMAPS]

    def reconcile(self, key: Key) -> Reconciliation:
        owner = self._sets.get(key)
        if owner is not None:
            child = {"metadata": {"name": owner["metadata"]["name"], "finalizers": ["example.com/held"]}}
            yield from ensure(self._configmaps, own(child, by=owner, of=REPLICASETS))
        return None


def build(context: ControllerContext) -> Naming:
    return Naming(context.tables)


@pytest.mark.parametrize("or_successor", [False, True])
def test_key_that_waits_for_a_name_is_woken_by_the_end_of_its_predecessors_dependent(
    cluster: SimulatedCluster, or_successor: bool
) -> None:
    dependents = Watch(CONFIGMAPS, to=its_controller(REPLICASETS, or_successor=or_successor))
    queue = Queue(watches=(Watch(REPLICASETS, to=itself), dependents), terminal=(Invalid, AlreadyExists))
    cluster.manager(controllers=[ControllerSpec(name="naming", build=build, queues=(queue,), resync=1e6)])

    def controller_uid() -> str:
        child = cluster.get(CONFIGMAPS, "default/web")
        return "" if child is None else child["metadata"]["ownerReferences"][0]["uid"]

    first = cluster.create(REPLICASETS, replica_set("web"))
    assert cluster.run_until(lambda: controller_uid() == uid_of(first), within=30.0)
    cluster.delete(REPLICASETS, "default/web")
    second = cluster.create(REPLICASETS, replica_set("web"))
    cluster.run_for(60.0)
    assert controller_uid() == uid_of(first), "it is held by its finalizer"
    cluster.merge(CONFIGMAPS, "default/web", {"metadata": {"finalizers": None}})
    woken = cluster.run_until(lambda: controller_uid() == uid_of(second), within=600.0)
    assert woken is or_successor
