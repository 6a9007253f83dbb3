"""Mutants of ReplicaSets, ReplicationControllers and Deployments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

import kcm.actors.controllers.workloads.deployment.plans as plans
from kcm.actors.controllers.shared.replacements import ReplacementDelay
from kcm.actors.controllers.workloads.deployment.objects import active, total_replicas
from kcm.actors.controllers.workloads.deployment.rollout import Rollout
from kcm.actors.controllers.workloads.replicaset.reconciler import ReplicaSetReconciler
from kcm.actors.hollow.specs import hollow_specs
from kcm.actors.reconciliation import RequeueAfter
from kcm.actors.simulation.campaign.setting import WORKLOADS as SPECS
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.trials.catalogue import TRIALS
from kcm.protocols.messages.command_error import CommandError
from kcm.runtime.simulation.plan import draw_stale_state
from tests.faults.mutants.mutant import Mutant
from tests.faults.mutants.oracles import NoFlood, OwnersLive, RecreateWaits
from tests.faults.mutants.plans import nothing
from tests.faults.mutants.scenarios import (
    changed,
    deleted_in_the_foreground,
    paused_rollouts,
    rejected,
    rollouts,
    scaled_while_it_rolls,
    slow_to_be_available,
    squatters,
)


@contextmanager
def collisions_are_not_counted() -> Iterator[None]:
    """The creation of a ReplicaSet whose name is in use is retried with the same name."""

    def again(self: Rollout, command: Any, outcome: Any, wanted: Any) -> Any:
        raise CommandError(command, outcome)
        yield

    with patch.object(Rollout, "_existing", again):
        yield


@contextmanager
def owners_are_not_read_live() -> Iterator[None]:
    """Owners are not read live before an adoption."""

    def no_obstacle(owner: Any, owners: Any) -> Any:
        return None
        yield

    with patch("kcm.actors.controllers.shared.ownership._obstacle_to_adoption", no_obstacle):
        yield


@contextmanager
def going_owners_make_pods() -> Iterator[None]:
    """A terminating owner replaces the pods that are deleted with it."""
    with patch("kcm.actors.controllers.workloads.replicaset.reconciler.is_deleting", lambda owner: False):
        yield


@contextmanager
def availability_is_looked_at_once() -> Iterator[None]:
    """A sync after minReadySeconds is scheduled once for each owner, and not for pods that become ready later."""
    reconcile, asked = ReplicaSetReconciler.reconcile, set()

    def once(self: ReplicaSetReconciler, key: str) -> Any:
        result: RequeueAfter | None = yield from reconcile(self, key)
        if result is None or (id(self), key) in asked:
            return None
        asked.add((id(self), key))
        return result

    with patch.object(ReplicaSetReconciler, "reconcile", once):
        yield


@contextmanager
def failed_pods_are_replaced_at_once() -> Iterator[None]:
    """Failed pods are replaced without backoff."""
    with patch(
        "kcm.actors.controllers.workloads.replicaset.reconciler.next_delay", lambda delay, **_: ReplacementDelay()
    ):
        yield


@contextmanager
def surge_of_each() -> Iterator[None]:
    """A rollout applies maxSurge to each ReplicaSet instead of their sum."""
    size_of = plans.new_replica_set_size

    def alone(deployment: Any, *, total: int, size: int) -> int:
        return size_of(deployment, total=size, size=size)

    with (
        patch.object(plans, "new_replica_set_size", alone),
        patch("kcm.actors.controllers.workloads.deployment.revisions.new_replica_set_size", alone),
    ):
        yield


@contextmanager
def new_pods_count_before_they_are_available() -> Iterator[None]:
    """Old pods are deleted without waiting for new ones to be available."""

    def hasty(deployment: Any, new: Any, old: Any) -> Any:
        sizes = {each.name: each.replicas for each in active(old)}
        least = deployment.replicas - deployment.max_unavailable
        return plans.spread_plan(sizes, total_replicas([*old, new]) - least)

    with patch("kcm.actors.controllers.workloads.deployment.reconciler.shrink_plan", hasty):
        yield


@contextmanager
def recreate_does_not_wait() -> Iterator[None]:
    """The first new pod is created while an old one still runs."""
    with patch("kcm.actors.controllers.workloads.deployment.reconciler.old_pods_running", lambda *_: False):
        yield


@contextmanager
def history_is_what_is_old() -> Iterator[None]:
    """Old ReplicaSets beyond the history limit are deleted even if they have pods."""
    with patch("kcm.actors.controllers.workloads.deployment.revisions._is_idle", lambda replica_set: True):
        yield


@contextmanager
def a_size_that_fits_is_not_noted() -> Iterator[None]:
    """A ReplicaSet that already has the new size of the Deployment keeps the annotation with the old one."""
    plan = plans.scale_plan

    def if_different(deployment: Any, new: Any, old: Any) -> Any:
        only = plans.active_or_latest(new, old)
        return [] if only is not None and only.replicas == deployment.replicas else plan(deployment, new, old)

    with patch("kcm.actors.controllers.workloads.deployment.reconciler.scale_plan", if_different):
        yield


# The number of failed pods, which are kept, is random: only the rate of their creation is checked.
FAILING = Setting(
    trials=tuple(
        replace(TRIALS[spec.name], unsettled=lambda _cluster: (), end_state=lambda _cluster: {})
        for spec in (*SPECS, *hollow_specs(nodes=1, zones=1))
    ),
    actions=rejected,
    invariants=lambda cluster, _scenario: (NoFlood(cluster),),
)

WORKLOADS = (
    Mutant(
        name="a hash collision is not resolved",
        source="kubernetes/kubernetes#29735",
        mutation=collisions_are_not_counted,
        setting=Setting(actions=squatters),
    ),
    Mutant(
        name="adopted for an owner that is gone",
        source="kubernetes/kubernetes#42639",
        mutation=owners_are_not_read_live,
        setting=Setting(
            draw=draw_stale_state,
            actions=changed("orphan", "recreated", "orphan", "recreated", "scale"),
            invariants=lambda cluster, _scenario: (OwnersLive(cluster),),
        ),
    ),
    Mutant(
        name="an owner that is being deleted makes pods",
        source="kubernetes/kubernetes#24934",
        mutation=going_owners_make_pods,
        setting=Setting(
            actions=deleted_in_the_foreground, invariants=lambda cluster, _scenario: (OwnersLive(cluster),)
        ),
    ),
    Mutant(
        name="availability is not looked at again",
        source="kubernetes/kubernetes#108266",
        mutation=availability_is_looked_at_once,
        setting=Setting(actions=slow_to_be_available),
    ),
    Mutant(
        name="pods that fail at once are replaced at once",
        source="kubernetes/kubernetes#72593",
        mutation=failed_pods_are_replaced_at_once,
        setting=FAILING,
    ),
    Mutant(
        name="surge counted for each ReplicaSet",
        source="kubernetes/kubernetes#22719",
        mutation=surge_of_each,
        setting=Setting(actions=rollouts),
    ),
    Mutant(
        name="old pods go before new ones are available",
        source="kubernetes/kubernetes#21810",
        mutation=new_pods_count_before_they_are_available,
        setting=Setting(actions=rollouts),
    ),
    Mutant(
        name="Recreate does not wait for the last old pod",
        source="kubernetes/kubernetes#27362",
        mutation=recreate_does_not_wait,
        setting=Setting(actions=rollouts, invariants=lambda cluster, _scenario: (RecreateWaits(cluster),)),
    ),
    Mutant(
        name="ReplicaSets with pods are cleaned up as history",
        source="kubernetes/kubernetes#19590",
        mutation=history_is_what_is_old,
        setting=Setting(actions=paused_rollouts),
    ),
    Mutant(
        name="a rollout is stuck after a change of size",
        source="kubernetes/kubernetes#138036",
        mutation=a_size_that_fits_is_not_noted,
        setting=Setting(draw=nothing, actions=scaled_while_it_rolls),
    ),
)
