"""Order of creations of a StatefulSet's pods."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.simulation.invariants.observer import Committed, ProcessStarted, Submitted
from kcm.actors.simulation.invariants.workloads.identities import OrderIsKept
from kcm.protocols.messages.commands import Command, Create, Delete, Submit
from kcm.protocols.objects import Object, controller_of, encode_object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import CONTROLLER_REVISIONS, PODS, STATEFULSETS, Resource
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED, StoreChange
from kcm.runtime.simulation.clock import VirtualClock
from tests.support.objects import owned_by, pod

SENDER = "controller:statefulset-controller"
OWNER = owned_by("uid-of-db", kind="StatefulSet", name="db")
NOTHING: Any = None


def stateful_set(replicas: int, policy: str = "Parallel") -> Object:
    return {
        "metadata": {"name": "db", "namespace": "default", "uid": "uid-of-db"},
        "spec": {"replicas": replicas, "podManagementPolicy": policy},
    }


class Scene:
    """Manager that creates pods of a StatefulSet. shown: tables with their version. texts: violations."""

    def __init__(self) -> None:
        self.pods: dict[str, Any] = {}  # content of the table
        self.shown: Any = SimpleNamespace(version=0, resource=PODS, get=self.pods.get)
        cluster: Any = SimpleNamespace(clock=VirtualClock(), injector=SimpleNamespace(faults=()))
        self.invariant = OrderIsKept(cluster, sender=SENDER)
        self.system: Any = SimpleNamespace(tables={PODS.id: self.shown, STATEFULSETS.id: self.shown})
        self.texts: list[str] = []
        self.invariant.observe(ProcessStarted("manager", NOTHING), self.texts.append)

    def write(self, version: int, obj: Object) -> None:
        raw = encode_object(obj)
        change = StoreChange(ADDED if version == 1 else MODIFIED, "statefulsets.apps", "default/db", version, raw, b"")
        self.invariant.observe(Committed([change]), self.texts.append)

    def write_pod(self, version: int, obj: Object, *, gone: bool = False) -> None:
        """Commit a pod, and put it into the tables at once."""
        self.shown.version = version
        key, raw = f"default/{obj['metadata']['name']}", encode_object(obj)
        change = StoreChange(DELETED if gone else ADDED, "pods", key, version, raw, b"")
        self.invariant.observe(Committed([change]), self.texts.append)
        facts = pod_facts(obj)
        self.pods[key] = SimpleNamespace(controller=controller_of(obj), facts=facts, resource_version=version)

    def submit(self, resource: Resource, obj: Object) -> None:
        self.decide(Create(resource.id, "default", encode_object(obj)))

    def decide(self, command: Command) -> None:
        submit = Submit(SENDER, 1, "kcm", 1, (command,), "statefulset", "default/db")
        self.invariant.observe(Submitted("manager", self.system, submit), self.texts.append)


@pytest.mark.parametrize("after_a_revision", [True, False])
def test_pods_may_be_created_for_the_set_as_it_was_when_the_sync_began(after_a_revision: bool) -> None:
    """The set was scaled down while its revision was created: the sync continues with the replicas of its beginning."""
    scene = Scene()
    scene.write(1, stateful_set(3))
    scene.shown.version = 1
    if after_a_revision:
        revision = {"metadata": {"name": "db-1", "namespace": "default", "ownerReferences": [OWNER]}, "revision": 1}
        scene.submit(CONTROLLER_REVISIONS, revision)
    scene.write(2, stateful_set(1))
    scene.shown.version = 2
    scene.submit(PODS, pod("db-2", version=8, owner=OWNER))
    found = [] if after_a_revision else ["Create default/db-2 of db: the ordinals of the set are range(0, 1)"]
    assert scene.texts == found


@pytest.mark.parametrize(
    ("later", "gone", "objection"),
    [
        (OWNER, False, ["Delete default/db-2 of db: pods with the ordinals [3] are not deleted"]),
        (OWNER, True, []),
        (owned_by("uid-of-db-before", kind="StatefulSet", name="db"), False, []),
        (None, False, []),
    ],
    ids=["its own", "gone", "of the set before", "of nobody"],
)
def test_a_pod_goes_once_the_later_ones_of_its_set_are_gone(later: Any, gone: bool, objection: list[str]) -> None:
    """False alarm, seed 91002046 of swarm: a pod of an earlier set of the same name was on a silent node."""
    scene = Scene()
    scene.write(1, stateful_set(1, "OrderedReady"))
    scene.write_pod(2, pod("db-2", version=2, owner=OWNER))
    scene.write_pod(3, pod("db-3", version=3, owner=later))
    if gone:
        scene.write_pod(4, pod("db-3", version=3, owner=later), gone=True)
    scene.decide(Delete(PODS.id, "default/db-2"))
    assert scene.texts == objection


def test_a_pod_that_a_set_has_released_is_none_of_its_pods() -> None:
    scene = Scene()
    scene.write(1, stateful_set(1, "OrderedReady"))
    scene.write_pod(2, pod("db-2", version=2, owner=OWNER))
    scene.write_pod(3, pod("db-3", version=3, owner=OWNER))
    scene.write_pod(4, pod("db-3", version=4))
    scene.decide(Delete(PODS.id, "default/db-2"))
    assert scene.texts == []
