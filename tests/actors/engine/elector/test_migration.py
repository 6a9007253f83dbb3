"""Leader migration: the main Lease first, then the migration Lease, which other components may hold."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from structlog.testing import LogCapture

from kcm.actors.app.arguments import read_options
from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.workloads import replicaset
from kcm.actors.engine.elector import Election, Migration
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.identity.key import key_file
from kcm.protocols.objects import Object
from kcm.protocols.resources import LEASES, PODS, REPLICASETS
from tests.support.objects import replica_set

MAIN, SECOND = "kube-system/kube-controller-manager", "kube-system/migration"
MIGRATION = Migration(
    lease="migration",
    components={
        "deployment-controller": "*",
        "replicaset-controller": "kube-controller-manager",
        "job-controller": "cloud-controller-manager",
    },
)


def election(name: str, *, stand_by: bool = False) -> Election:
    return Election(
        identity=name,
        namespace="kube-system",
        name="kube-controller-manager",
        migration=MIGRATION,
        stand_by=stand_by,
    )


@pytest.fixture
def options() -> Options:
    return read_options([f"--service-account-private-key-file={key_file()}"])


def running(cluster: SimulatedCluster, manager: ControllerSystem) -> set[str]:
    children = cluster.describe(manager, "controller-manager")["children"]
    return {name.removeprefix("controller:") for name in children if name.startswith("controller:")}


def holder(cluster: SimulatedCluster, key: str) -> str | None:
    found = cluster.get(LEASES, key)
    return None if found is None else found["spec"]["holderIdentity"]


def foreign_lease(holder: str, seconds: int) -> Object:
    return {
        "metadata": {"namespace": "kube-system", "name": "migration"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds},
    }


def test_migrated_controllers_run_under_the_second_lease(
    cluster: SimulatedCluster, options: Options, logs: LogCapture
) -> None:
    manager = cluster.manager(options=options, election=election("one"))
    cluster.run_for(5.0)
    assert (holder(cluster, MAIN), holder(cluster, SECOND)) == ("one", "one")
    names = running(cluster, manager)
    assert {"deployment-controller", "replicaset-controller", "serviceaccount-token-controller"} <= names
    assert "job-controller" not in names, "another component runs it"
    cluster.create(REPLICASETS, replica_set(replicas=2))
    assert cluster.run_until(lambda: len(cluster.list(PODS, "default")) == 2)
    assert [line["event"] for line in logs.entries if "leader migration" in line["event"]] == [
        "starting leader migration",
        "leader migration: starting main controllers.",
        "leader migration: starting migrated controllers.",
    ]
    assert cluster.stop(manager)
    assert (holder(cluster, MAIN), holder(cluster, SECOND)) == ("", "")


def test_migrated_controllers_wait_while_another_component_holds_the_second_lease(
    cluster: SimulatedCluster, options: Options
) -> None:
    cluster.create(LEASES, foreign_lease("cloud", 30))
    manager = cluster.manager(options=options, election=election("one"))
    cluster.create(REPLICASETS, replica_set(replicas=2))
    cluster.run_for(20.0)
    assert holder(cluster, MAIN) == "one"
    assert "namespace-controller" in running(cluster, manager)
    assert not {"deployment-controller", "replicaset-controller"} & running(cluster, manager)
    assert cluster.list(PODS, "default") == []
    assert cluster.run_until(lambda: len(cluster.list(PODS, "default")) == 2, within=20.0)


def test_second_lease_is_not_acquired_without_the_token_controller(cluster: SimulatedCluster) -> None:
    manager = cluster.manager(election=election("one"))
    cluster.run_for(60.0)
    assert (holder(cluster, MAIN), holder(cluster, SECOND)) == ("one", None)
    assert "deployment-controller" not in running(cluster, manager)


def test_program_without_the_token_controller_does_not_wait_for_it(cluster: SimulatedCluster) -> None:
    migration = Migration(lease="migration", components={"replicaset-controller": "shop"})
    shop = Election(identity="one", namespace="default", name="shop", migration=migration)
    manager = cluster.manager(controllers=(replicaset.SPEC,), election=shop)
    cluster.run_for(10.0)
    assert (holder(cluster, "default/shop"), holder(cluster, "default/migration")) == ("one", "one")
    assert running(cluster, manager) == {"replicaset-controller"}


def test_standby_of_the_main_lease_does_not_compete_for_the_second(cluster: SimulatedCluster, options: Options) -> None:
    first = cluster.manager(options=options, election=election("one"))
    cluster.run_for(5.0)
    second = cluster.manager(options=options, election=election("two"))
    cluster.merge(LEASES, SECOND, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
    cluster.run_for(30.0)
    assert (holder(cluster, SECOND), first.end, running(cluster, second)) == ("one", None, set())


def test_loss_of_the_second_lease_ends_the_process(cluster: SimulatedCluster, options: Options) -> None:
    manager = cluster.manager(options=options, election=election("one"))
    cluster.run_for(5.0)
    cluster.merge(LEASES, SECOND, {"spec": {"holderIdentity": "cloud", "leaseDurationSeconds": 30}})
    assert cluster.run_until(lambda: manager.end is not None, within=3.0)
    assert manager.end == "migration leaderelection lost: the lease is held by cloud"


def test_loss_of_the_second_lease_stops_only_migrated_controllers_of_a_standby(
    cluster: SimulatedCluster, options: Options
) -> None:
    manager = cluster.manager(options=options, election=election("one", stand_by=True))
    cluster.create(REPLICASETS, replica_set(replicas=1))
    cluster.run_for(5.0)
    cluster.merge(LEASES, SECOND, {"spec": {"holderIdentity": "cloud", "leaseDurationSeconds": 30}})
    cluster.run_for(3.0)
    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 3}})
    cluster.run_for(10.0)
    assert manager.end is None
    assert "namespace-controller" in running(cluster, manager)
    assert "replicaset-controller" not in running(cluster, manager)
    assert len(cluster.list(PODS, "default")) == 1
    assert cluster.run_until(lambda: len(cluster.list(PODS, "default")) == 3, within=40.0)
    assert holder(cluster, SECOND) == "one"


def test_loss_of_the_main_lease_stops_all_controllers_of_a_standby(cluster: SimulatedCluster, options: Options) -> None:
    manager = cluster.manager(options=options, election=election("one", stand_by=True))
    cluster.create(REPLICASETS, replica_set(replicas=1))
    cluster.run_for(5.0)
    cluster.merge(LEASES, MAIN, {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 30}})
    cluster.run_for(3.0)
    assert (manager.end, running(cluster, manager)) == (None, set())
    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 3}})
    cluster.run_for(20.0)
    assert len(cluster.list(PODS, "default")) == 1
    assert cluster.run_until(lambda: len(cluster.list(PODS, "default")) == 3, within=30.0)
    assert (holder(cluster, MAIN), holder(cluster, SECOND)) == ("one", "one")


def test_election_of_the_second_lease_has_the_same_identity_and_durations() -> None:
    second = replace(election("one"), name=MIGRATION.lease, migration=None)
    assert (second.identity, second.lease_duration, second.component) == ("one", 15.0, "kube-controller-manager")
