"""Claims of pods in the hollow scheduler, and volumes of the hollow provisioner."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.hollow import provisioner
from kcm.actors.hollow.provisioner import CLASS, NAME, WAITING_CLASS, HollowProvisioner, classes
from kcm.actors.hollow.scheduler.reconciler import HollowScheduler
from kcm.actors.hollow.scheduler.spec import scheduler_spec
from kcm.actors.hollow.scheduler.volumes import PodVolumes
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, bodies, created_names, deleted_keys, drive, drive_steps
from kcm.protocols.messages.commands import Create, Update
from kcm.protocols.objects import Object, annotations_of, finalizers_of
from kcm.protocols.resources import (
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from kcm.protocols.volumes import BIND_COMPLETED, PROVISIONED_BY, PROVISIONER, SELECTED_NODE
from kcm.runtime.tables.lister import UnreadableError
from tests.actors.hollow.objects import nodes, unassigned

UNBOUND = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
LATER = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def claim(*, to: str = "", class_: str = WAITING_CLASS, marks: dict[str, str] | None = None, **more: Any) -> Object:
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec["storageClassName"] = class_
    annotations = dict(marks or {})
    if to:
        spec["volumeName"] = to
        annotations[BIND_COMPLETED] = "yes"
    meta = {"name": "data", "namespace": "default", "uid": "uid", "annotations": annotations, **more.pop("meta", {})}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Bound" if to else "Pending", **more}}


def volume(name: str = "v", *, node: str = "", of: bool = False, **spec: Any) -> Object:
    whole: Object = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "d"}, **spec}
    whole.setdefault("storageClassName", WAITING_CLASS)
    if node:
        requirement = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        whole["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}
    if of:
        whole["claimRef"] = {"namespace": "default", "name": "data", "uid": "uid"}
    return {"metadata": {"name": name}, "spec": whole, "status": {"phase": "Bound" if of else "Available"}}


def claiming_pod() -> Object:
    return unassigned(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])


class World:
    def __init__(self, *claims: Object, volumes: tuple[Object, ...] = (), made: tuple[Object, ...] = ()) -> None:
        spec = scheduler_spec()
        objects = {
            PODS: [claiming_pod()],
            NODES: nodes(),
            PERSISTENT_VOLUME_CLAIMS: claims,
            PERSISTENT_VOLUMES: volumes,
            STORAGE_CLASSES: made or classes(),
            VOLUME_ATTACHMENTS: (),
            CSI_NODES: (),
        }
        self.bench = Bench(objects, indexes=(*spec.indexes, *provisioner.SPEC.indexes), facts=spec.facts)
        tables = self.bench.tables
        self.scheduler = HollowScheduler(tables=tables, clock=self.bench.clock, volumes=PodVolumes(tables))
        self.provisioner = HollowProvisioner(tables=tables)

    def schedule(self) -> Any:
        return drive(self.scheduler, "default/web", self.bench.accept, tables=self.bench.tables)

    def node(self) -> str | None:
        found = [body["target"]["name"] for body in bodies(self.schedule(), Create)]
        return found[0] if found else None

    def run(self, steps: Any) -> Any:
        return drive_steps(steps, self.bench.accept, tables=self.bench.tables)

    def claim(self) -> Object:
        found = self.bench.tables[PERSISTENT_VOLUME_CLAIMS].get("default/data")
        assert found is not None
        return found


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ([], '0/3 nodes are available: persistentvolumeclaim "data" not found. not found'),
        ([claim(class_=CLASS)], UNBOUND),
        ([claim(class_="")], UNBOUND),
        ([claim(class_="nowhere")], UNBOUND),
        ([claim(meta=LATER)], '0/3 nodes are available: persistentvolumeclaim "data" is being deleted. not found'),
        (
            [claim(to="v", phase="Lost")],
            (
                '0/3 nodes are available: persistentvolumeclaim "data" bound to non-existent persistentvolume "v". '
                "not found"
            ),
        ),
        (
            [claim(to="v")],
            "0/3 nodes are available: 3 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s).",
        ),
    ],
)
def test_a_pod_waits_for_its_claims(claims: list[Object], text: str) -> None:
    assert World(*claims).schedule().events == [("Warning", "FailedScheduling", text)]


def test_a_pod_runs_where_its_volume_can_be_reached() -> None:
    there = volume(node="hollow-node-1", of=True)
    assert World(claim(to="v"), volumes=(there,)).node() == "hollow-node-1"
    assert World(claim(to="v"), volumes=(volume(of=True),)).node() is not None
    nowhere = World(claim(to="v"), volumes=(volume(node="gone", of=True),)).schedule()
    text = "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity."
    assert [event[2] for event in nowhere.events] == [text]


def test_a_claim_that_waits_is_given_the_node_of_its_pod() -> None:
    world = World(claim())
    driven = world.schedule()
    assert driven.of(Create) == []
    node = annotations_of(world.claim())[SELECTED_NODE]
    assert node.startswith("hollow-node-")
    assert world.schedule().commands == []  # it waits
    world.bench.show(PERSISTENT_VOLUMES, volume(of=True))
    bound = claim(to="v", marks={SELECTED_NODE: node}, meta={"resourceVersion": "1000000"})
    world.bench.show(PERSISTENT_VOLUME_CLAIMS, bound)
    assert world.node() == node


def test_free_volume_is_reserved_on_a_node_with_access() -> None:
    world = World(claim(), volumes=(volume(node="hollow-node-2"), volume("far", node="gone")))
    taken = bodies(world.schedule(), Update)
    assert [obj["metadata"]["name"] for obj in taken] in (["v"], ["data"])
    static = ({"metadata": {"name": WAITING_CLASS}, "provisioner": "kubernetes.io/no-provisioner", **WAITS},)
    world = World(claim(), volumes=(volume(node="hollow-node-2"), volume("far", node="gone")), made=static)
    (taken_,) = bodies(world.schedule(), Update)
    assert (taken_["metadata"]["name"], taken_["spec"]["claimRef"]["uid"]) == ("v", "uid")
    world = World(claim(), volumes=(volume("far", node="gone"),), made=static)
    text = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
    assert [event[2] for event in world.schedule().events] == [text]


WAITS = {"volumeBindingMode": "WaitForFirstConsumer"}


# The provisioner.

ASKED = {PROVISIONER: NAME}


def test_volume_is_provisioned_for_a_claim_of_the_driver() -> None:
    world = World(claim(class_=CLASS, marks=ASKED))
    driven = world.run(world.provisioner.provision("default/data"))
    assert created_names(driven) == ["pvc-uid"]
    (made,) = bodies(driven, Create)
    assert made["spec"]["claimRef"]["uid"] == "uid"
    assert made["spec"]["csi"] == {"driver": NAME, "volumeHandle": "pvc-uid"}
    assert "nodeAffinity" not in made["spec"]
    assert world.run(world.provisioner.provision("default/data")).commands == []


@pytest.mark.parametrize(
    "other",
    [
        claim(class_=CLASS),
        claim(class_=CLASS, marks={PROVISIONER: "example.com"}),
        claim(to="v", class_=CLASS, marks=ASKED),
        claim(marks=ASKED),  # no pod uses it yet
        claim(class_="nowhere", marks=ASKED),
        claim(class_=CLASS, marks=ASKED, meta=LATER),
    ],
)
def test_no_volume_is_provisioned_for_other_classes(other: Object) -> None:
    world = World(other)
    assert world.run(world.provisioner.provision("default/data")).commands == []


def test_a_volume_for_a_pod_is_of_its_node_s_zone() -> None:
    world = World(claim(marks={**ASKED, SELECTED_NODE: "hollow-node-1"}))
    (made,) = bodies(world.run(world.provisioner.provision("default/data")), Create)
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["zone-b"]


def test_missing_selected_node_is_removed_from_the_claim() -> None:
    world = World(claim(marks={**ASKED, SELECTED_NODE: "gone"}))
    assert world.run(world.provisioner.provision("default/data")).of(Create) == []
    assert SELECTED_NODE not in annotations_of(world.claim())


def owned(phase: str, *, policy: str = "Delete", deleted: bool = False, by: str = NAME) -> Object:
    released = volume(of=True, persistentVolumeReclaimPolicy=policy)
    released["status"]["phase"] = phase
    finalizers = ["external-provisioner.volume.kubernetes.io/finalizer"]
    released["metadata"] |= {
        "annotations": {PROVISIONED_BY: by},
        "finalizers": finalizers,
        **(LATER if deleted else {}),
    }
    return released


@pytest.mark.parametrize(
    ("before", "claims", "goes", "held"),
    [
        (owned("Released"), [], True, True),
        (owned("Released", deleted=True), [], False, False),
        (owned("Released"), [claim(to="v")], False, True),
        (owned("Bound"), [], False, True),
        (owned("Bound", deleted=True), [claim(to="v")], False, True),
        (owned("Released", policy="Retain"), [], False, True),
        (owned("Released", policy="Retain", deleted=True), [], False, False),
        (owned("Released", by="example.com"), [], False, True),
    ],
)
def test_released_volume_of_the_driver_is_deleted(before: Object, claims: list[Object], goes: bool, held: bool) -> None:
    world = World(*claims, volumes=(before,))
    driven = world.run(world.provisioner.reclaim("v"))
    assert deleted_keys(driven) == (["v"] if goes else [])
    left = world.bench.tables[PERSISTENT_VOLUMES].get("v")
    assert left is None or bool(finalizers_of(left)) is held


def test_the_volume_of_a_claim_that_cannot_be_read_stays() -> None:
    released = volume(of=True, persistentVolumeReclaimPolicy="Delete")
    released["metadata"]["annotations"] = {PROVISIONED_BY: NAME}
    world = World(volumes=({**released, "status": {"phase": "Released"}},))
    world.bench.spoil(PERSISTENT_VOLUME_CLAIMS, "default/data")
    driven = drive_steps(
        world.provisioner.reclaim("v"), world.bench.accept, tables=world.bench.tables, raises=UnreadableError
    )
    assert driven.commands == []


def test_storage_classes_are_created_once() -> None:
    watched = (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, NODES, VOLUME_ATTACHMENTS)
    bench = Bench(dict.fromkeys(watched, ()), indexes=provisioner.SPEC.indexes)
    hollow = HollowProvisioner(tables=bench.tables)
    for made in ([CLASS, WAITING_CLASS], []):
        driven = drive_steps(hollow.make_classes(), bench.accept, tables=bench.tables)
        assert created_names(driven) == made


def test_claims_and_pods_in_a_cluster(cluster: SimulatedCluster) -> None:
    """A claim gets a volume, a pod runs with it, and both are deleted again."""
    cluster.manager()
    cluster.hollow_nodes(volumes=True)
    cluster.run_for(5.0)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data", "namespace": "default"}, "spec": spec})
    user = {"containers": [{"name": "c", "image": "i"}], "volumes": claiming_pod()["spec"]["volumes"]}
    cluster.create(PODS, {"metadata": {"name": "user", "namespace": "default"}, "spec": user})

    def phase(name: str = "user") -> str:
        return str(((cluster.get(PODS, f"default/{name}") or {}).get("status") or {}).get("phase"))

    assert cluster.run_until(lambda: phase() == "Running", within=60)
    cluster.delete(PERSISTENT_VOLUME_CLAIMS, "default/data")
    cluster.run_for(30)
    assert cluster.get(PERSISTENT_VOLUME_CLAIMS, "default/data") is not None  # protected while the pod uses it
    cluster.delete(PODS, "default/user")
    assert cluster.run_until(lambda: not cluster.list(PERSISTENT_VOLUMES), within=60)
    assert cluster.get(PERSISTENT_VOLUME_CLAIMS, "default/data") is None
