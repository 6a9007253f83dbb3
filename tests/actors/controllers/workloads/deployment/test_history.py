from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.controllers.workloads.deployment.objects import ReplicaSet
from kcm.actors.controllers.workloads.deployment.revisions import history_to_delete
from tests.actors.controllers.workloads.deployment.objects import parsed_deployment, parsed_replica_set


def old(name: str, replicas: int = 0, reported: int = 0, **options: Any) -> ReplicaSet:
    return parsed_replica_set(name, replicas, status={"replicas": reported}, **options)


def deleted(limit: int | None, sets: Sequence[ReplicaSet]) -> list[str]:
    return [each.name for each in history_to_delete(parsed_deployment(revisionHistoryLimit=limit), sets)]


THREE = [old("v1", age=3), old("v2", age=2), old("v3", age=1)]


@pytest.mark.parametrize(
    "limit, names",
    [(1, ["v1", "v2"]), (0, ["v1", "v2", "v3"]), (3, []), (9, []), (None, []), (2147483647, [])],
)
def test_oldest_replica_sets_beyond_the_limit_are_deleted(limit: int | None, names: Sequence[str]) -> None:
    assert deleted(limit, THREE) == names


def test_replica_set_with_pods_is_kept() -> None:
    sets = [old("v1", 0, 0, age=4), old("v2", 0, 1, age=3), old("v3", 1, 0, age=2), old("v4", 1, 1, age=1)]
    assert deleted(0, sets) == ["v1"]


def test_replica_set_not_observed_by_its_controller_is_kept() -> None:
    unseen = parsed_replica_set("v1", generation=2, status={"observedGeneration": 1})
    assert deleted(0, [unseen]) == []


def test_replica_set_that_is_being_deleted_is_not_counted() -> None:
    going = old("v1", age=3, deletionTimestamp="2026-01-01T00:00:00Z")
    assert deleted(0, [going]) == []
    assert deleted(1, [going, old("v2", age=2)]) == []


def test_age_is_by_revision_and_unnumbered_ones_are_oldest() -> None:
    sets = [
        old("young-revision", age=9, revision=3),
        old("old-revision", age=1, revision=2),
        old("garbled", age=0, annotations={"deployment.kubernetes.io/revision": "two"}),
        old("unnumbered", age=5),
    ]
    assert deleted(1, sets) == ["unnumbered", "garbled", "old-revision"]


def test_protected_replica_set_counts_towards_the_limit() -> None:
    assert deleted(1, [old("v1", 1, 1, revision=1), old("v2", revision=2), old("v3", revision=3)]) == ["v2"]
    assert deleted(1, [old("v1", 1, 1, revision=1), old("v2", 1, 1, revision=2), old("v3", revision=3)]) == []
