"""Outcomes of storage version migrations."""

from __future__ import annotations

import pytest

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Committed
from kcm.actors.simulation.invariants.versions import MigrationsOfServedResourcesSucceed
from kcm.protocols.objects import encode_object
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.storage.store import StoreChange
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.logs.standard_log import quiet_log


@pytest.mark.parametrize(
    ("resource", "type_", "elapsed", "ahead", "wrong"),  # seconds since its creation; by which the clock is ahead
    [
        (("", "configmaps"), "Succeeded", 5, 0, False),
        (("", "configmaps"), "Failed", 5, 0, True),
        (("", "configmaps"), "Failed", 90, 0, True),
        # false alarms, seed 5226 of swarm and 9304 of migrations: a manager whose clock was an hour ahead did not wait
        (("", "configmaps"), "Failed", 5, 3600, False),
        (("", "configmaps"), "Failed", 57, 5, False),
        (("", "configmaps"), "Failed", 50, 5, True),
        (("", "configmaps"), "Failed", 90, -3600, True),
        (("example.com", "missing"), "Failed", 90, 0, False),
        (("example.com", "missing"), "Succeeded", 5, 0, True),
    ],
)
def test_migration_fails_only_if_its_resource_is_not_served_or_the_clock_is_ahead(
    resource: tuple[str, str], type_: str, elapsed: int, ahead: int, *, wrong: bool
) -> None:
    assert bool(failures(resource, type_, elapsed, ahead)) is wrong


@pytest.mark.parametrize(
    ("plan", "elapsed", "wrong"),
    [
        # a false alarm, seed 281128070038 of swarm: the table of the resource was not synced for two minutes
        ("watch-stalled 6.79..83.38 seconds=0.5 process=manager*", 120, False),
        ("watch-stalled 6.79..83.38 seconds=0.5 process=manager*", 55, True),
        ("watch-stalled 130..140 process=manager*", 120, True),
        ("call-lost 6.79..83.38 process=manager*", 120, True),
    ],
)
def test_migration_may_fail_after_its_grace_period_if_a_fault_delayed_tables(
    plan: str, elapsed: int, *, wrong: bool
) -> None:
    assert bool(failures(("", "configmaps"), "Failed", elapsed, plan=plan)) is wrong


def failures(resource: tuple[str, str], type_: str, elapsed: int, ahead: int = 0, *, plan: str = "") -> list[str]:
    """Return the violations by a migration that ends after `elapsed` seconds."""
    cluster = SimulatedCluster(log=quiet_log(), faults=parse_faults(plan))
    created = cluster.clock.now()
    cluster.run_for(elapsed)
    before = {
        "apiVersion": "storagemigration.k8s.io/v1beta1",
        "kind": "StorageVersionMigration",
        "metadata": {"name": "first", "creationTimestamp": format_time(created)},
        "spec": {"resource": {"group": resource[0], "resource": resource[1]}},
    }
    condition = {"type": type_, "status": "True", "lastTransitionTime": format_time(cluster.clock.now() + ahead)}
    after = {**before, "status": {"conditions": [condition]}}
    storage = "storageversionmigrations.storagemigration.k8s.io"
    change = StoreChange("MODIFIED", storage, "first", 9, encode_object(after), encode_object(before))
    texts: list[str] = []
    MigrationsOfServedResourcesSucceed(cluster).observe(Committed((change,)), texts.append)
    return texts
