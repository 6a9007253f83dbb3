"""Faulty workload controllers, and the invariant that each of them violates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from kcm.actors.controllers.workloads.deployment import objects, reconciler, revisions
from kcm.actors.controllers.workloads.deployment.plans import Resize
from kcm.actors.controllers.workloads.replicaset.reconciler import ReplicaSetReconciler
from kcm.actors.reconciliation import get_live, perform
from kcm.actors.simulation.campaign.runs import run
from kcm.actors.simulation.invariants.workloads.deployments import SizesWithinBounds
from kcm.protocols.objects import decode_object
from kcm.protocols.resources import PODS, REPLICASETS
from kcm.runtime.tables.table import OWNER, Entry, Table, TableWriter
from tests.faults.combined_actions import COMBINED_WORKLOADS

Spoil = Callable[[], Any]
REPLICA_SETS = "kcm.actors.controllers.workloads.replicaset.reconciler"


def no_surge() -> Any:
    """The new ReplicaSet is scaled to its full size at once."""

    def full(deployment: Any, new: Any, old: Any) -> list[Resize]:
        size = deployment.replicas
        return [Resize(new.name, size)] if new.replicas != size else []

    return patch.object(reconciler, "growth_plan", full)


def no_patience() -> Any:
    """The old ReplicaSets are scaled to zero at once."""

    def empty(deployment: Any, new: Any, old: Any) -> list[Resize]:
        return [Resize(replica_set.name, 0) for replica_set in old if replica_set.replicas]

    return patch.object(reconciler, "shrink_plan", empty)


def no_rounding_down() -> Any:
    """Percentages of maxUnavailable are rounded up as those of maxSurge."""
    right = objects.scaled_value
    return patch.object(objects, "scaled_value", lambda value, total, *, round_up: right(value, total, round_up=True))


def no_comparison() -> Any:
    """Statuses are written even if they are unchanged."""
    right = ReplicaSetReconciler.reconcile.__globals__["next_status"]

    def always(status: Any, counts: Any, **more: Any) -> Any:
        changed = right(status, counts, **more)
        return dict(status) if changed is None else changed

    return patch(f"{REPLICA_SETS}.next_status", always)


def no_trust() -> Any:
    """Each ReplicaSet is read live before each sync."""
    right = ReplicaSetReconciler.reconcile

    def live(self: ReplicaSetReconciler, key: str) -> Any:
        if self._owners.resource == REPLICASETS:
            yield from perform(get_live(REPLICASETS, key))
        return (yield from right(self, key))

    return patch.object(ReplicaSetReconciler, "reconcile", live)


def no_haste() -> Any:
    """A status is written ten times, alternately with and without available pods."""
    right = ReplicaSetReconciler.reconcile.__globals__["write_status"]

    def slowly(resource: Any, obj: Any, status: Any) -> Any:
        available = status.get("availableReplicas", 0)
        for count in (available, 0) * 5 if available else ():
            yield from right(resource, obj, {**status, "availableReplicas": count})
        return (yield from right(resource, obj, status))

    return patch(f"{REPLICA_SETS}.write_status", slowly)


def no_pods_shown() -> Any:
    """Some pods are missing in the table, which claims to be complete."""
    right = TableWriter.put

    def put(self: TableWriter, entry: Entry) -> Entry | None:
        return None if self.table.resource == PODS and entry.key[-1] in "bcdfgh" else right(self, entry)

    return patch.object(TableWriter, "put", put)


def no_siblings_shown() -> Any:
    """The table contains only the youngest ReplicaSet of each Deployment."""
    right = Table.indexed

    def indexed(self: Table, index: str, value: str) -> Any:
        found = right(self, index, value)
        owned = self.resource == REPLICASETS and index == OWNER
        return [max(found, key=created)] if owned and found and found[0].controller is not None else found

    return patch.object(Table, "indexed", indexed)


def created(entry: Entry) -> str:
    timestamp: str = decode_object(entry.raw)["metadata"]["creationTimestamp"]
    return timestamp


def no_end() -> Any:
    """Each step of a rollout counts as the last one, so that ReplicaSets that were just scaled down are deleted."""
    ended = patch.object(reconciler, "is_complete", lambda *_: True)
    idle = patch.object(revisions, "_is_idle", lambda replica_set: not replica_set.replicas)

    @contextmanager
    def both() -> Iterator[None]:
        with ended, idle:
            yield

    return both()


@pytest.mark.parametrize(
    ("spoil", "invariant", "seed"),
    [
        (no_surge, "sizes of ReplicaSets are within the limits of their Deployment", 7),
        (no_patience, "sizes of ReplicaSets are within the limits of their Deployment", 2),
        (no_rounding_down, "sizes of ReplicaSets are within the limits of their Deployment", 7),
        (no_comparison, "no write without a change", 0),
        (no_trust, "a live read has a cause", 0),
        (no_haste, "the number of writes is justified", 1),
        (no_pods_shown, "never more pods than requested", 0),
        (no_end, "only empty ReplicaSets are deleted", 9),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_faulty_controller_violates_only_this_invariant(spoil: Spoil, invariant: str, seed: int) -> None:
    # The seed finds the violation without faults.
    with spoil():
        violations = run(seed, ()).violations
    assert {violation.invariant for violation in violations} == {invariant}
    assert run(seed, ()).violations == []


def test_missing_replica_sets_violate_the_check_of_the_server() -> None:
    # The actions of this seed start a rollout during another one.
    with no_siblings_shown():
        violations = run(9, (), setting=COMBINED_WORKLOADS).violations
    assert {violation.invariant for violation in violations} == {"a rollout keeps the maximum number of pods"}


def test_too_few_available_pods_violate_the_check_of_the_server() -> None:
    # The check by the controller's own information is disabled.
    with no_patience(), patch.object(SizesWithinBounds, "observe", lambda *_: None):
        violations = run(2, ()).violations
    assert {violation.invariant for violation in violations} == {"a rollout keeps the minimum of available pods"}
