"""Replicas that share groups of controllers: takeovers, fencing, balance and the main Lease, in the simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import orjson
import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.controller_groups import BUILT_IN_GROUPS
from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.workloads import daemonset, deployment, job, replicaset, replicationcontroller, statefulset
from kcm.actors.engine.elector import Election
from kcm.actors.engine.elector.groups import CONFIGURATION, COST, ControllerGroup, ControllerGroups
from kcm.actors.engine.vitals import CoordinatorVitals
from kcm.actors.reconciliation.actor_names import GROUP_COORDINATOR, controller_name, group_elector_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.common.writes import NoWriteWithoutLease
from kcm.actors.simulation.invariants.groups import NoWriteWithoutGroupLease
from kcm.actors.simulation.invariants.observer import InvariantChecker
from kcm.actors.simulation.objects import deployment as deployment_object
from kcm.protocols.objects import Object, annotations_of, labels_of, name_of
from kcm.protocols.resources import DEPLOYMENTS, LEASES, PODS
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.serving.health import HealthNotice

MAIN = "kube-system/kube-controller-manager"
CONTROLLERS = (
    deployment.SPEC,
    replicaset.SPEC,
    replicationcontroller.SPEC,
    statefulset.SPEC,
    daemonset.SPEC,
    job.SPEC,
)
NAMES = ("replicasets", "deployments", "sets", "jobs")  # groups of these controllers


def election(identity: str, *, groups: ControllerGroups | None = BUILT_IN_GROUPS, **more: Any) -> Election:
    return Election(identity=identity, namespace="kube-system", name="kube-controller-manager", groups=groups, **more)


def start(
    cluster: SimulatedCluster, *identities: str, groups: ControllerGroups | None = BUILT_IN_GROUPS, **more: Any
) -> list[ControllerSystem]:
    return [
        cluster.manager(controllers=CONTROLLERS, election=election(identity, groups=groups, **more))
        for identity in identities
    ]


def holders(cluster: SimulatedCluster) -> dict[str, str]:
    """Return the holders in the Leases of the groups."""
    leases = {labels_of(lease).get("kcm.dev/group"): lease for lease in cluster.list(LEASES, "kube-system")}
    return {group: lease["spec"].get("holderIdentity") or "" for group, lease in leases.items() if group}


def replicas(cluster: SimulatedCluster) -> list[Object]:
    return [lease for lease in cluster.list(LEASES, "kube-system") if "kcm.dev/replica" in labels_of(lease)]


def main_holder(cluster: SimulatedCluster) -> str:
    lease = cluster.get(LEASES, MAIN)
    return (lease or {}).get("spec", {}).get("holderIdentity") or ""


def running(system: ControllerSystem) -> set[str]:
    return {spec.name for spec in CONTROLLERS if system.actors.is_alive(controller_name(spec.name))}


def subscribed(system: ControllerSystem) -> set[str]:
    """Return the controllers that subscribe to tables."""
    subscribers = {name for table in system.tables.values() for name in table._audience.subscribers}
    return {spec.name for spec in CONTROLLERS if controller_name(spec.name) in subscribers}


def spread(cluster: SimulatedCluster, systems: Sequence[ControllerSystem]) -> None:
    """Run until each replica holds a group."""
    assert cluster.run_until(lambda: all(system.groups_held() for system in systems), within=60.0), holders(cluster)


def test_single_replica_holds_all_groups_and_the_main_lease(cluster: SimulatedCluster) -> None:
    (system,) = start(cluster, "one")
    cluster.create(DEPLOYMENTS, deployment_object("web", replicas=3))
    cluster.run_for(3.0)
    assert holders(cluster) == dict.fromkeys(NAMES, "one")
    assert system.groups is not None
    assert main_holder(cluster) == system.groups.identity
    assert running(system) == {spec.name for spec in CONTROLLERS}
    cluster.run_for(5.0)
    assert len(cluster.list(PODS, "default")) == 3


def test_groups_are_spread_over_the_replicas_and_stay(cluster: SimulatedCluster) -> None:
    systems = start(cluster, "one", "two", "three")
    cluster.create(DEPLOYMENTS, deployment_object("web", replicas=3))
    cluster.run_for(60.0)
    before = holders(cluster)
    assert sorted(Counter(before.values()).values()) == [1, 1, 2]
    for system, identity in zip(systems, ("one", "two", "three"), strict=True):
        assert sorted(system.groups_held()) == sorted(group for group, holder in before.items() if holder == identity)
        assert system.synced
    assert [name for system in systems for name in running(system)].count("replicaset-controller") == 1
    for system in systems:  # no informer selects changes for the controllers of groups that were given up
        assert subscribed(system) == running(system)
    cluster.run_for(120.0)
    assert holders(cluster) == before
    assert len(cluster.list(PODS, "default")) == 3


def test_dead_replica_loses_its_groups_alone_within_the_lease_duration(cluster: SimulatedCluster) -> None:
    first, second, third = start(cluster, "one", "two", "three")
    cluster.run_for(60.0)
    before = holders(cluster)
    first.halt()
    died = cluster.clock.monotonic()
    assert cluster.run_until(lambda: "one" not in holders(cluster).values(), within=30.0)
    assert cluster.clock.monotonic() - died <= 15.0 + 2.0
    after = holders(cluster)
    assert {group: holder for group, holder in after.items() if before[group] != "one"} == {
        group: holder for group, holder in before.items() if holder != "one"
    }
    cluster.create(DEPLOYMENTS, deployment_object("web", replicas=3))
    cluster.run_for(10.0)
    assert len(cluster.list(PODS, "default")) == 3
    assert second.end is third.end is None


def test_stopped_replica_hands_its_groups_over_within_two_seconds(cluster: SimulatedCluster) -> None:
    first, second = start(cluster, "one", "two")
    spread(cluster, (first, second))
    cluster.run_for(30.0)
    assert cluster.stop(first)
    assert cluster.run_until(lambda: set(holders(cluster).values()) == {"two"}, within=2.5), holders(cluster)
    assert main_holder(cluster).startswith("kcm-groups_")
    assert second.groups_held()


def test_last_replica_releases_the_main_lease(cluster: SimulatedCluster) -> None:
    first, second = start(cluster, "one", "two")
    spread(cluster, (first, second))
    for system in (first, second):
        assert main_holder(cluster)
        assert cluster.stop(system)
    assert main_holder(cluster) == ""
    (ordinary,) = start(cluster, "ordinary", groups=None)
    cluster.run_for(2.0)
    assert main_holder(cluster) == "ordinary"
    assert running(ordinary)


def test_main_lease_is_kept_while_a_killed_replica_may_still_write(cluster: SimulatedCluster) -> None:
    first, second = start(cluster, "one", "two")
    spread(cluster, (first, second))
    first.halt()  # until its Lease expires, it may still write
    assert cluster.stop(second)
    assert main_holder(cluster).startswith("kcm-groups_")
    (ordinary,) = start(cluster, "ordinary", groups=None)
    cluster.run_for(10.0)
    assert not running(ordinary)
    cluster.run_for(10.0)
    assert running(ordinary)


def test_replicas_wait_for_an_ordinary_manager(cluster: SimulatedCluster) -> None:
    (ordinary,) = start(cluster, "ordinary", groups=None)
    cluster.run_for(3.0)
    first, second = start(cluster, "one", "two")
    cluster.run_for(60.0)
    assert main_holder(cluster) == "ordinary"
    assert holders(cluster) == {}
    assert not running(first) | running(second)
    assert [system.checks()["leaderElection"]() for system in (first, second)] == [None, None]
    assert cluster.stop(ordinary)
    cluster.run_for(5.0)
    assert set(holders(cluster)) == set(NAMES)


def test_replicas_with_other_groups_wait_until_the_first_set_ends(cluster: SimulatedCluster, logs: LogCapture) -> None:
    (first,) = start(cluster, "one")
    cluster.run_for(3.0)
    others = ControllerGroups(
        groups=(ControllerGroup(name="jobs", controllers=("job-controller", "deployment-controller")),)
    )
    (second,) = start(cluster, "two", groups=others)
    cluster.run_for(60.0)
    assert not running(second)
    assert any("have other groups" in entry["event"] for entry in logs.entries)
    assert len({annotations_of(lease)[CONFIGURATION] for lease in replicas(cluster)}) == 2
    assert cluster.stop(first)
    cluster.run_for(3.0)
    assert running(second) == {spec.name for spec in CONTROLLERS}
    assert {holder for holder in holders(cluster).values() if holder} == {"two"}


def test_frozen_replica_writes_nothing_for_its_lost_groups(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log, faults=parse_faults("process-paused 70..110 process=manager"))
    checker = InvariantChecker(cluster, (NoWriteWithoutLease(cluster), NoWriteWithoutGroupLease(cluster)))
    first, second = start(cluster, "one", "two", stand_by=True)
    cluster.create(DEPLOYMENTS, deployment_object("web", replicas=3))
    cluster.run_for(69.0)
    assert first.groups_held()
    for count in range(4, 10):  # work at all times
        cluster.merge(DEPLOYMENTS, "default/web", {"spec": {"replicas": count}})
        cluster.run_for(7.0)
    assert set(holders(cluster).values()) == {"two"}
    cluster.run_for(60.0)
    assert checker.violations == []
    assert checker.checked[NoWriteWithoutGroupLease.name] > 100
    assert len(cluster.list(PODS, "default")) == 9
    assert first.end is None
    assert sorted({*holders(cluster).values()} - {""}) == ["one", "two"], "it takes part again"
    assert second.groups_held()


def test_loss_of_the_main_lease_stops_all_groups(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log, faults=parse_faults("lease-stolen 30.. seconds=15"))
    systems = start(cluster, "one", "two", stand_by=True)
    cluster.run_for(29.0)
    assert all(map(running, systems))
    cluster.run_for(6.0)
    assert not any(map(running, systems))
    cluster.run_for(30.0)
    assert set(holders(cluster)) == set(NAMES)
    assert {name for system in systems for name in running(system)} == {spec.name for spec in CONTROLLERS}
    assert [subscribed(system) for system in systems] == [running(system) for system in systems]


def test_loss_of_the_main_lease_ends_the_process_by_default(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(log=log, faults=parse_faults("lease-stolen 10.. seconds=15"))
    (first,) = start(cluster, "one")
    cluster.run_for(20.0)
    assert first.end is not None
    assert first.end.startswith("leaderelection lost: ")


def test_group_moves_to_the_replica_with_less_to_do(cluster: SimulatedCluster) -> None:
    """The replica that holds the busiest group gives up the others."""
    first, second = start(cluster, "one", "two")
    cluster.run_for(40.0)
    busy = controller_name("replicaset-controller")
    owner = first if "replicasets" in first.groups_held() else second
    identity = "one" if owner is first else "two"
    actor = cluster.world.actor(owner.actors, busy)
    assert actor is not None

    def work() -> None:
        actor.worked += 0.5  # half of the time
        cluster.clock.call_after(1.0, work)

    work()
    cluster.run_for(120.0)
    assert [group for group, holder in holders(cluster).items() if holder == identity] == ["replicasets"]
    lease = next(lease for lease in cluster.list(LEASES, "kube-system") if name_of(lease).endswith("-replicasets"))
    assert 0.4 < float(annotations_of(lease)[COST]) < 0.6


def test_leases_of_replicas_are_reused(cluster: SimulatedCluster) -> None:
    for number in range(4):
        (system,) = start(cluster, f"replica {number}")
        cluster.run_for(5.0)
        assert cluster.stop(system)
    assert [name_of(lease) for lease in replicas(cluster)] == ["kube-controller-manager-replica-0"]


def test_leases_with_malformed_fields_are_ignored(cluster: SimulatedCluster) -> None:
    labels = {"kcm.dev/groups-of": "kube-controller-manager"}
    cluster.create(
        LEASES,
        {
            "metadata": {
                "name": "odd",
                "namespace": "kube-system",
                "labels": {**labels, "kcm.dev/group": "jobs"},
                "annotations": {COST: "much"},
            }
        },
    )
    cluster.create(
        LEASES,
        {
            "metadata": {"name": "odder", "namespace": "kube-system", "labels": {**labels, "kcm.dev/replica": "last"}},
            "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 1000},
        },
    )
    (first,) = start(cluster, "one")
    cluster.run_for(5.0)
    assert set(first.groups_held()) == set(NAMES)


def test_pages_name_the_replica_that_runs_a_controller(cluster: SimulatedCluster) -> None:
    first, second = start(cluster, "one", "two")
    spread(cluster, (first, second))
    cluster.run_for(3.0)
    other, identity = (second, "one") if "jobs" in first.groups_held() else (first, "two")
    shown = orjson.loads(msgspec.json.encode(other.shown("controllers", "job-controller")))
    assert shown["controller"]["state"] == "Standby"
    assert shown["controller"]["reason"] == f"{identity} holds the Lease under which it runs"


def test_lease_of_another_program_with_the_name_of_a_replica_is_left_alone(cluster: SimulatedCluster) -> None:
    name = "kube-controller-manager-replica-0"
    cluster.create(LEASES, {"metadata": {"name": name, "namespace": "kube-system"}})
    (first,) = start(cluster, "one")
    cluster.run_for(5.0)
    assert [name_of(lease) for lease in replicas(cluster)] == ["kube-controller-manager-replica-1"]
    assert set(first.groups_held()) == set(NAMES)


def test_health_check_names_the_request_that_is_denied(log: FilteringBoundLogger) -> None:
    cluster = SimulatedCluster(
        log=log, faults=parse_faults("command-answered 0..100 status=403 resource=leases process=manager")
    )
    (first,) = start(cluster, "one")
    cluster.run_for(30.0)
    found = first.checks()["leaderElection"]()
    assert isinstance(found, HealthNotice)
    assert "cannot list leases.coordination.k8s.io in kube-system" in found
    vitals = first.vitals.of(GROUP_COORDINATOR, CoordinatorVitals)
    assert vitals is not None
    assert vitals.failing_since < 1.0


def test_restarted_coordinator_and_electors_keep_the_groups(cluster: SimulatedCluster) -> None:
    first, second = start(cluster, "one", "two")
    cluster.run_for(40.0)
    before = holders(cluster)
    for actor in (GROUP_COORDINATOR, "controller-manager", "dispatcher", group_elector_name("jobs")):
        cluster.world.kill(first.actors, actor)
        cluster.run_for(5.0)
    assert holders(cluster) == before
    assert first.end is second.end is None


@pytest.mark.parametrize("lease", ["", "-group-jobs"])
def test_metric_reports_each_lease(cluster: SimulatedCluster, lease: str) -> None:
    (first,) = start(cluster, "one")
    cluster.run_for(3.0)
    line = f'leader_election_master_status{{name="kube-controller-manager{lease}"}} 1'
    assert line in first.metrics_text()
