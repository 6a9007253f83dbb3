"""Mutants of the device taint eviction controller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kcm.actors.controllers.devices.device_taint_eviction import evictions, reconciler
from kcm.actors.controllers.devices.device_taint_eviction.reconciler import DeviceTaintEvictionReconciler
from kcm.actors.simulation.campaign.domain_settings import DEVICE_TAINTS_SETTING
from kcm.protocols.objects import make_key, namespace_of
from tests.faults.mutants.mutant import Mutant


@contextmanager
def outdated_slices_count() -> Iterator[None]:
    """Taints in slices of older generations of a pool count as well."""
    with patch.object(reconciler, "newest", sorted):
        yield


@contextmanager
def one_toleration_decides() -> Iterator[None]:
    """A toleration with tolerationSeconds hides that the taint is tolerated forever by another one."""
    eviction_time = evictions.eviction_time

    def hasty(tolerations: Any, taint: Any) -> float | None:
        when = eviction_time(tolerations, taint)
        return taint.added if when is None and tolerations else when

    with patch.object(evictions, "eviction_time", hasty):
        yield


@contextmanager
def reservations_are_not_compared() -> Iterator[None]:
    """A pod is evicted because of a claim that is not reserved for it."""

    def all_claims(self: DeviceTaintEvictionReconciler, pod: Any) -> Iterator[Any]:
        for entry in pod["spec"].get("resourceClaims") or ():
            claim = self._claims.get(make_key(namespace_of(pod), entry["resourceClaimName"]))
            if claim is not None:
                yield claim

    with patch.object(DeviceTaintEvictionReconciler, "_claims_of", all_claims):
        yield


@contextmanager
def conditions_are_final() -> Iterator[None]:
    """The condition of a rule is not updated when evictions were cancelled or carried out."""

    def nothing(self: DeviceTaintEvictionReconciler, *_: Any) -> Iterator[Any]:
        return
        yield

    with patch.object(DeviceTaintEvictionReconciler, "_update_later", nothing):
        yield


@contextmanager
def only_the_first_plan_counts() -> Iterator[None]:
    """A planned eviction keeps its time, though another taint requires an earlier eviction."""
    computed = DeviceTaintEvictionReconciler._eviction_of

    def kept(self: DeviceTaintEvictionReconciler, pod: Any, rules: Any = None) -> Any:
        eviction = computed(self, pod, rules)
        plan = self._plans.get(make_key(namespace_of(pod), pod["metadata"]["name"]))
        return eviction if plan is None or rules is not None else plan.eviction

    with patch.object(DeviceTaintEvictionReconciler, "_eviction_of", kept):
        yield


def _mutant(name: str, source: str, mutation: Any) -> Mutant:
    return Mutant(name=name, source=source, mutation=mutation, setting=DEVICE_TAINTS_SETTING)


DEVICE_TAINTS = (
    _mutant("outdated slices count", "resource pools have generations (KEP-4381)", outdated_slices_count),
    _mutant("one toleration decides", "tolerations without seconds last forever (KEP-5055)", one_toleration_decides),
    _mutant(
        "reservations are not compared",
        "status.reservedFor names the pods that may use a claim (KEP-4381)",
        reservations_are_not_compared,
    ),
    _mutant(
        "conditions of rules are final",
        "upstream updates no condition after a cancelled eviction",
        conditions_are_final,
    ),
    _mutant(
        "a plan is never changed",
        "node taint eviction keeps its first plan, device taints do not",
        only_the_first_plan_counts,
    ),
)
