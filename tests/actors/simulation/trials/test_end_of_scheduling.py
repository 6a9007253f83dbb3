"""Pods that may be unscheduled at the end of a run."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.workloads.daemonset.placement import daemon_tolerations
from kcm.actors.controllers.workloads.daemonset.pods import bound_to
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.hollow import devices
from kcm.actors.simulation.trials.hollow.devices import PRIORITY_CLASSES, ROOM
from kcm.actors.simulation.trials.hollow.scheduler import TRIAL
from kcm.protocols.objects import Object
from kcm.protocols.resources import NODES, PODS
from tests.support.objects import node, owned_by, pod

UNREACHABLE = {"key": "node.kubernetes.io/unreachable"}
NO_SCHEDULE, NO_EXECUTE = {**UNREACHABLE, "effect": "NoSchedule"}, {**UNREACHABLE, "effect": "NoExecute"}
MAINTENANCE = {"key": "example.org/maintenance", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("kind", "target", "taints", "settled"),
    [
        ("DaemonSet", "n1", [NO_SCHEDULE, NO_EXECUTE], True),
        ("DaemonSet", "n1", [NO_EXECUTE], False),  # it tolerates that
        ("DaemonSet", "n1", [NO_SCHEDULE, MAINTENANCE], False),  # its controller deletes it
        ("DaemonSet", "n1", [], False),
        ("DaemonSet", "n2", [NO_SCHEDULE], False),  # no such node
        ("ReplicaSet", "n1", [NO_SCHEDULE], False),
    ],
)
def test_a_taint_may_keep_a_daemon_pod_off_its_node(
    kind: str, target: str, taints: list[Object], *, settled: bool
) -> None:
    """False alarm, seed 53000065: the pod was created before the taint of a permanently silent node was seen."""
    cluster = SimulatedCluster(collect_garbage=False)
    cluster.create(NODES, node("n1", taints=taints))
    made = pod("p1", owner=owned_by("uid-of-agent", kind=kind))
    spec = {**made["spec"], "tolerations": daemon_tolerations({}), "affinity": bound_to(None, target)}
    cluster.create(PODS, {**made, "spec": spec})
    assert list(TRIAL.unsettled(cluster)) == ([] if settled else ["pod p1 is not bound to a node"])


def room_user(name: str, cpu: str, **spec: str) -> Object:
    container: Object = {"name": "c", "image": "v1", "resources": {"requests": {"cpu": cpu}}}
    return pod(name, labels=ROOM, spec={"containers": [container], **spec})


@pytest.mark.parametrize(
    ("taints", "others", "settled"),
    [
        ([], [], False),
        ([], [("large", "20", "")], False),  # it is preempted
        ([], [("urgent-0", "20", "urgent")], True),
        ([], [("urgent-0", "12", "urgent")], False),
        ([NO_SCHEDULE, NO_EXECUTE], [], True),
        ([NO_EXECUTE], [], False),  # each pod tolerates that for five minutes
        ([MAINTENANCE], [], True),
    ],
)
def test_urgent_pod_may_find_no_node(
    taints: list[Object], others: list[tuple[str, str, str]], *, settled: bool
) -> None:
    """False alarm, seed 281130160937: six nodes were silent, and another urgent pod was on the seventh."""
    cluster = SimulatedCluster(collect_garbage=False)
    cluster.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
    cluster.create(NODES, node("n1", taints=taints, status={"allocatable": {"cpu": "32"}}))
    for name, cpu, urgent in others:
        cluster.create(PODS, room_user(name, cpu, nodeName="n1", priorityClassName=urgent))
    cluster.create(PODS, room_user("urgent-1", "20", priorityClassName="urgent"))
    found = list(devices.TRIAL.unsettled(cluster))
    assert found == ([] if settled else ["pod urgent-1 has priority, but is not bound"])
