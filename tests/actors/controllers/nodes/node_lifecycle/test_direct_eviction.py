"""Tests of evictions without taints.

The pods of a node that has been unreachable for five minutes are deleted, at the eviction rate of its zone.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.nodes.node_lifecycle.pods import DirectEviction, deletes_gracefully
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.nodes import node_facts
from kcm.protocols.objects import Object, encode_object, key_of, owner_reference
from kcm.protocols.resources import NODES, PODS, Resource
from kcm.runtime.simulation.clock import VirtualClock
from tests.actors.controllers.nodes.fleet import Fleet
from tests.actors.controllers.nodes.node_lifecycle.test_zone_timetable import GIVEN_UP, LAST_WORD

DIRECTLY = "--feature-gates=TaintBasedEvictions=false"
DAEMONSETS = Resource(group="apps", version="v1", plural="daemonsets", kind="DaemonSet")
EVICTED = 355  # five minutes after the pass of 55 s, which sees the last heartbeat


@pytest.fixture
def manager(fleet: Fleet) -> ControllerSystem:
    return fleet.manager(DIRECTLY)


def live_pod(fleet: Fleet, name: str) -> Object | None:
    return fleet.cluster.get(PODS, f"default/{name}")


def is_terminating(fleet: Fleet, name: str) -> bool:
    found = live_pod(fleet, name)
    assert found is not None
    return "deletionTimestamp" in found["metadata"]


def terminating_pods(fleet: Fleet) -> set[str]:
    return {key_of(pod) for pod in fleet.cluster.list(PODS) if "deletionTimestamp" in pod["metadata"]}


@pytest.mark.parametrize("flag", [DIRECTLY, "--enable-taint-manager=false"])
def test_pods_of_unreachable_node_are_deleted_after_the_timeout(fleet: Fleet, flag: str) -> None:
    fleet.manager(flag)
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(EVICTED - 0.5)
    assert (fleet.pod_ready("pod-on-a0"), terminating_pods(fleet)) == ("False", set())
    fleet.run_until(EVICTED + 1)
    assert terminating_pods(fleet) == {"default/pod-on-a0"}
    found = live_pod(fleet, "pod-on-a0")
    assert found is not None
    assert (found["status"]["reason"], found["status"]["message"]) == (
        "NodeLost",
        "Node a0 which was running pod pod-on-a0 is unresponsive",
    )
    assert fleet.tainted() == {}
    assert fleet.taints("a0") == {("unreachable", "NoSchedule")}
    assert fleet.events("DeletingAllPods") == [("Normal", "a0", "Node a0 event: Deleting all Pods from Node a0.")]
    assert fleet.events("NodeControllerEviction") == [
        ("Normal", "pod-on-a0", "Marking for deletion Pod pod-on-a0 from Node a0")
    ]


@pytest.mark.usefixtures("manager")
def test_timeout_of_unready_node_starts_at_its_status(fleet: Fleet) -> None:
    fleet.run_until(LAST_WORD)
    fleet.post_status("a0", "False")  # seen by the pass of 55 s; the Lease is still renewed
    fleet.run_until(EVICTED + 4.5)  # the timeout must be exceeded
    assert terminating_pods(fleet) == set()
    fleet.run_until(EVICTED + 6)
    assert terminating_pods(fleet) == {"default/pod-on-a0"}


@pytest.mark.usefixtures("manager")
def test_nodes_of_a_zone_are_evicted_sequentially(fleet: Fleet) -> None:
    fleet.run_pod("pod-on-a1", "a1")
    fleet.run_until(LAST_WORD)
    fleet.silence("a0", "a1")
    fleet.run_until(EVICTED + 9)
    assert terminating_pods(fleet) == {"default/pod-on-a0"}
    fleet.run_until(EVICTED + 11)
    assert terminating_pods(fleet) == {"default/pod-on-a0", "default/pod-on-a1"}


def test_rate_and_burst_are_those_of_the_flags_for_deletion(fleet: Fleet) -> None:
    fleet.manager(DIRECTLY, "--deleting-pods-qps=0.02", "--deleting-pods-burst=2")
    fleet.run_pod("pod-on-a1", "a1")
    fleet.run_pod("pod-on-a2", "a2")
    fleet.run_until(LAST_WORD)
    fleet.silence("a0", "a1", "a2")
    fleet.run_until(EVICTED + 1)
    assert terminating_pods(fleet) == {"default/pod-on-a0", "default/pod-on-a1"}
    fleet.run_until(EVICTED + 49)
    assert len(terminating_pods(fleet)) == 2
    fleet.run_until(EVICTED + 51)
    assert len(terminating_pods(fleet)) == 3


@pytest.mark.usefixtures("manager")
def test_daemon_set_pods_are_not_evicted(fleet: Fleet) -> None:
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    daemon_set = fleet.cluster.create(DAEMONSETS, {"metadata": {"name": "d", "namespace": "default"}, "spec": spec})
    owner = owner_reference(daemon_set, api_version=DAEMONSETS.api_version, kind=DAEMONSETS.kind)
    fleet.run_pod("daemon", "a0", ownerReferences=[owner])
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(EVICTED + 100)
    assert terminating_pods(fleet) == {"default/pod-on-a0"}


@pytest.mark.usefixtures("manager")
def test_recovered_node_is_not_evicted(fleet: Fleet) -> None:
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(GIVEN_UP + 200)
    fleet.recover("a0")
    fleet.run_until(EVICTED + 300)
    assert terminating_pods(fleet) == set()


@pytest.mark.usefixtures("manager")
def test_node_is_evicted_once_until_it_was_ready_again(fleet: Fleet) -> None:
    fleet.run_until(LAST_WORD)
    fleet.silence("a0")
    fleet.run_until(EVICTED + 20)
    fleet.run_pod("late", "a0")
    fleet.run_until(EVICTED + 100)
    assert not is_terminating(fleet, "late")
    fleet.recover("a0")
    fleet.run_until(EVICTED + 150)
    fleet.silence("a0")
    fleet.run_until(EVICTED + 500)
    assert is_terminating(fleet, "late")


# grace period of the pod → seconds after which it is deleted
@pytest.mark.parametrize(("grace", "gone"), [(30, 30), (3600, 300)])
@pytest.mark.usefixtures("manager")
def test_terminating_pod_is_deleted_after_its_grace_period_or_five_minutes(fleet: Fleet, grace: int, gone: int) -> None:
    spec = {"nodeName": "a1", "terminationGracePeriodSeconds": grace, "containers": [{"name": "c", "image": "i"}]}
    fleet.cluster.create(PODS, {"metadata": {"name": "slow", "namespace": "default"}, "spec": spec})
    fleet.run_until(LAST_WORD)
    fleet.silence("a1")
    fleet.run_until(EVICTED + gone - 0.5)
    assert is_terminating(fleet, "slow")
    fleet.run_until(EVICTED + gone + 1)
    assert live_pod(fleet, "slow") is None
    ((type, about, message),) = fleet.events("TerminatingEvictedPod")
    assert (type, about) == ("Normal", "a1")
    assert message.startswith("Node a1 event: Pod default/slow has exceeded the grace period for deletion")


@pytest.mark.usefixtures("manager")
def test_no_pod_is_deleted_while_all_zones_are_down(fleet: Fleet) -> None:
    fleet.run_until(LAST_WORD)
    fleet.silence("a", "b", "c")
    fleet.run_until(EVICTED + 600)
    assert terminating_pods(fleet) == set()


@pytest.mark.usefixtures("manager")
def test_timeouts_restart_after_all_zones_were_down(fleet: Fleet) -> None:
    fleet.run_until(LAST_WORD)
    fleet.silence("a", "b", "c")
    fleet.run_until(700)
    fleet.recover("b", "c")  # seen by the pass of 705 s
    fleet.run_until(1005)
    assert terminating_pods(fleet) == set()
    fleet.run_until(1012)
    assert terminating_pods(fleet) == {"default/pod-on-a0"}


@pytest.mark.usefixtures("manager")
def test_pods_of_old_kubelets_are_deleted_without_grace_period(fleet: Fleet) -> None:
    old = {"status": {"nodeInfo": {"kubeletVersion": "v1.0.3"}}}
    fleet.cluster.merge(NODES, "a0", old, subresource="status")
    fleet.run_until(10)
    fleet.cluster.delete(PODS, "default/pod-on-a0")
    fleet.cluster.delete(PODS, "default/pod-on-b0")
    fleet.run_until(12)
    assert live_pod(fleet, "pod-on-a0") is None
    assert is_terminating(fleet, "pod-on-b0")


@pytest.mark.parametrize(
    ("version", "gracefully"),
    [
        ("v1.36.0", True),
        ("v1.1.0", True),
        ("1.1", True),
        ("v1.0.9", False),
        ("v0.21.0", False),
        ("v1.20.4-eks-6b7464", True),
        ("v1.1.0+ab", True),
        ("", False),
        ("hollow", False),
        ("v1." + "7" * 4301, False),
    ],
)
def test_kubelets_delete_pods_gracefully_since_1_1(version: str, gracefully: bool) -> None:
    assert deletes_gracefully(version) is gracefully


def test_new_node_of_the_same_name_is_not_evicted(log: FilteringBoundLogger) -> None:
    """Check a node that is deleted and created again between two passes of the monitor."""
    clock = VirtualClock()
    direct = DirectEviction(clock=clock, log=log)
    first, second = ({"metadata": {"name": "n1", "uid": uid}} for uid in ("first", "second"))
    assert drive(direct.evict("n1"), Done(encode_object(first)), Done(b'{"items":[]}'), []) is True
    clock.advance_to(1000.0)
    leaving = {"metadata": {"name": "p1", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert drive(direct.terminate("n1", node_facts(second), lambda: [leaving])) is None


def drive(step: Generator[Any, Any, Any], *answers: Any) -> Any:
    """Run a step with these outcomes of its commands, and return its result. Fails if it yields more commands."""
    try:
        step.send(None)
        for answer in answers:
            step.send(answer)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the step yielded more commands than expected")
