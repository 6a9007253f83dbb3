"""A pod starts only after its node reports the pod's volumes in use, whatever the watches show."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.storage.shared.pods_by_claim import PODS_BY_CLAIM
from kcm.actors.hollow.behaviour import DRIVER
from kcm.actors.hollow.kubelet.reconciler import HollowKubelet
from kcm.actors.hollow.kubelet.volumes import POD_QUEUE, KubeletVolumes
from kcm.actors.reconciliation import Enqueue
from kcm.actors.reconciliation.derived import PODS_BY_NODE
from kcm.actors.simulation.driver import Bench, Driven, bodies, drive, drive_steps
from kcm.protocols.csi import CsiSource, attachment_name, in_use_names
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Patch
from kcm.protocols.messages.outcomes import Conflict, Outcome, Unknown
from kcm.protocols.objects import Object
from kcm.protocols.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from tests.actors.hollow.objects import FLEET, bound, hollow_node

NODE = "hollow-node-0"
UNIQUE = f"kubernetes.io/csi/{DRIVER}^handle"
CLAIM: Object = {
    "metadata": {"name": "data", "namespace": "default", "uid": "claim"},
    "spec": {"volumeName": "v", "accessModes": ["ReadWriteOnce"]},
    "status": {"phase": "Bound"},
}
VOLUME: Object = {
    "metadata": {"name": "v"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": "data", "uid": "claim"},
        "csi": {"driver": DRIVER, "volumeHandle": "handle"},
    },
}
ATTACHMENT: Object = {
    "metadata": {"name": attachment_name(CsiSource(DRIVER, "handle"), NODE)},
    "spec": {"attacher": DRIVER, "nodeName": NODE, "source": {"persistentVolumeName": "v"}},
    "status": {"attached": True},
}


def using(name: str) -> Object:
    made = bound(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return made


class World:
    """A node to which the volume is attached, and its kubelet. in_use: whether the node reported it in use before."""

    def __init__(self, *pods: Object, in_use: bool) -> None:
        node = hollow_node(NODE)
        node["metadata"]["uid"] = "node"
        node["status"]["volumesAttached"] = [{"name": UNIQUE, "devicePath": ""}]
        if in_use:
            node["status"]["volumesInUse"] = [UNIQUE]
        self.bench = Bench(
            {
                PODS: pods,
                NODES: [node],
                PERSISTENT_VOLUME_CLAIMS: [CLAIM],
                PERSISTENT_VOLUMES: [VOLUME],
                VOLUME_ATTACHMENTS: [ATTACHMENT],
                CSI_DRIVERS: [{"metadata": {"name": DRIVER}, "spec": {"attachRequired": True}}],
                CSI_NODES: [],
            },
            indexes=[PODS_BY_NODE, PODS_BY_CLAIM],
        )
        self.restart()

    def restart(self) -> None:
        tables, clock = self.bench.tables, self.bench.clock
        self.volumes = KubeletVolumes(tables=tables, clock=clock, fleet=FLEET)
        self.kubelet = HollowKubelet(tables=tables, clock=clock, fleet=FLEET, volumes=self.volumes)

    def report(self, answer: Any = None) -> Driven:
        return drive_steps(self.volumes.report(NODE), answer or self.bench.accept, tables=self.bench.tables)

    def starts(self, name: str) -> bool:
        """Reconcile the pod, and report whether its container was started."""
        drive(self.kubelet, f"default/{name}", self.bench.accept, tables=self.bench.tables)
        entry = self.bench.tables[PODS].entry(f"default/{name}")
        return entry is not None and entry.facts.phase == "Running"

    def reported(self) -> tuple[str, ...]:
        return in_use_names(self.bench.tables[NODES].get(NODE) or {})


def test_pod_starts_after_its_volume_was_reported() -> None:
    world = World(using("web"), in_use=False)
    assert not world.starts("web")
    driven = world.report()
    assert [body["status"] for body in bodies(driven, Patch)] == [{"volumesInUse": [UNIQUE]}]
    assert driven.enqueued == [Enqueue(POD_QUEUE, "default/web")]
    assert world.starts("web")
    assert world.report().commands == []


def test_pod_waits_while_the_volume_is_withdrawn_for_an_earlier_pod() -> None:
    world = World(using("first"), in_use=False)
    world.report()
    assert world.starts("first")
    world.bench.hide(PODS, "default/first")

    def bound_meanwhile(command: Command) -> Outcome:
        """Let a second pod be bound while the request that withdraws the volume is under way."""
        world.bench.show(PODS, using("second"))
        assert world.reported() == (UNIQUE,)
        assert not world.starts("second")
        return world.bench.accept(command)

    driven = world.report(bound_meanwhile)
    assert [body["status"] for body in bodies(driven, Patch)] == [{"volumesInUse": None}]
    assert not world.starts("second")
    world.report()
    assert world.starts("second")


@pytest.mark.parametrize(("outcome", "raised"), [(Conflict("another node"), None), (Unknown("timeout"), CommandError)])
def test_pod_waits_if_the_report_failed(outcome: Outcome, raised: type[Exception] | None) -> None:
    world = World(using("web"), in_use=False)
    drive_steps(world.volumes.report(NODE), lambda _: outcome, tables=world.bench.tables, raises=raised)
    assert not world.starts("web")


def test_pod_waits_for_a_report_of_the_restarted_kubelet() -> None:
    """Its first list may be older than a withdrawal by the process before it."""
    world = World(using("web"), in_use=True)
    assert not world.starts("web")
    driven = world.report()
    assert [body["status"] for body in bodies(driven, Patch)] == [{"volumesInUse": [UNIQUE]}]
    assert world.starts("web")


def test_reports_for_another_node_of_the_name_do_not_count() -> None:
    world = World(using("web"), in_use=False)
    world.report()
    node = dict(world.bench.tables[NODES].get(NODE) or {})
    world.bench.show(NODES, {**node, "metadata": {"name": NODE, "uid": "other"}, "status": dict(node["status"])})
    assert not world.starts("web")
