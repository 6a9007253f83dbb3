"""The recorded seeds find reintroduced known bugs. `python -m tests.faults.mutants.matrix` finds other seeds."""

from __future__ import annotations

import pytest

from tests.faults.mutants.catalogue import MUTANTS
from tests.faults.mutants.matrix import Hunt
from tests.faults.mutants.tenants import TENANTS
from tests.faults.recorded_seeds import must_be_found_by

# The seed that must find each mutant; seed 0 for all others. A change of the trials changes which seeds do.
FIRST = {
    "a volume is detached while it is mounted": 1,
    "attachments are forgotten at a restart": 26,
    "expectations expire": 13,
    "a relist forgets what is gone": 4,
    "no backoff": 1,
    "a write's time begins when HTTP comes to it": 1,
    "a cloud call begins after the lease": 5,
    "a replaced actor works on, and its second line": 1,
    "deleted by name, and its second line": 2,
    "adopted for an owner that is gone": 5,
    "an owner that is being deleted makes pods": 5,
    "a range is given twice after a restart": 2,
    "slices are made again while the watch is late": 34,
    "endpoints that an update leaves as they are count as stale": 1,
    "a service goes before its load balancer": 1,
    "surge counted for each ReplicaSet": 1,
    "old pods go before new ones are available": 1,
    "ReplicaSets with pods are cleaned up as history": 4,
    "a node that is not shown is gone": 5,
    "an eviction outlives its taint": 6,
    "an owner that the cache does not show counts as gone": 4,
    "a finished Job is deleted as the cache shows it": 2,
    "a node's pod gets another name at each try": 2,
    "a CronJob that missed many slots starts none": 1,
    "a Job that is there already stays out of the status": 1,
    "a Job is cleared away before the status tells that it was started": 10,
    "an account that the cache does not show counts as gone": 1,
    "a resource that fails counts as empty": 91,
    "pods do not go first": 2,
    "a quota is counted from a late cache": 5,
    "a quota is first counted from a late cache": 5,
    "a quota's usage is overwritten": 4,
    "admission looks at a quota and does not charge it": 4,
    "controllers get what they may only list": 3,
    "whoever asks for a kubelet's certificate is approved": 7,
    "an authority's keys are read once": 8,
    "a request that is never signed does not say so": 2,
    "requests that are approved and not issued are not cleaned up": 3,
    "a token that has not expired is not looked at again": 4,
    "a token is deleted as the cache shows it": 16,
    "a signature that could not be written is forgotten": 1,
    "cluster-info is overwritten": 2,
    "rules are applied by name": 1,
    "where nothing is selected, rules stay": 1,
    "a Job's pod is counted while it has its finalizer": 11,
    "pods of a Job that is gone keep its finalizer": 4,
    "a surplus pod of a Job is let go as the cache shows it": 3,
    "successors do not wait for their predecessors": 4,
    "an update does not wait for the pods that it replaced": 60,
    "a first size is not remembered": 8,
    "a behavior does without stabilization": 8,
    "a claim names its volume before the volume names it": 19,
    "a deleted claim of an ephemeral volume stays deleted": 35,
    "a claim is created again for a pod of the cache": 5,
    "a claim grows before its volume": 2,
    "the annotation of an expansion remains": 4,
    "SELinux conflicts outlive their pods": 8,
    "a CSIDriver is evaluated once": 33,
    "counts are written over an eviction": 24,
    "a type check is written to another policy of the name": 33,
    "a kind that was just defined is not type-checked": 1,
    "a schema that could not be fetched is skipped": 171,
    "stored versions are removed from a changed definition": 7,
    "the end of a migration is recorded twice": 64,
    "a migration does not wait for discovery": 3,
    "a Lease that cannot be read counts as missing": 80,
    "StorageVersions are deleted by name": 457,
    "a service range is contained in a smaller one": 8,
    "a service range is released at once": 3,
    "the table decides whether a service range is in use": 2,
    "a service range that another finalizer holds counts": 67,
    "a consumer that the cache does not show counts as gone": 3,
    "names of claims are applied one by one": 2,
    "a claim gets another name at each try": 1,
    "a PodGroup goes as the cache shows its pods": 3,
    "allocations in flight are not seen": 6,
    "outdated slices count": 3,
    "reservations are not compared": 10,
    "conditions of rules are final": 222,
    "a plan is never changed": 90,
}
HARMFUL = [mutant for mutant in MUTANTS if not mutant.held_by and mutant not in TENANTS]  # test_operator_mutants.py


def test_mutant_names_are_unique() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert set(FIRST) <= set(names)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.name, marks=() if number % 6 == 0 else pytest.mark.slow)
        for number, mutant in enumerate(HARMFUL)
    ],
)
def test_recorded_seed_finds_a_bug_that_kubernetes_once_had(mutant) -> None:
    must_be_found_by(FIRST.get(mutant.name, 0), lambda seed: bool(Hunt(mutant).search([seed]).found))
