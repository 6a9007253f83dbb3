"""Mutants of the resourcequota controller and of its admission plugin."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import kcm.actors.controllers.apimachinery.resourcequota.reconciler as reconciler
import kcm.actors.controllers.apimachinery.resourcequota.watches as watches
from kcm.actors.controllers.apimachinery.resourcequota.evaluators import status_of
from kcm.actors.controllers.apimachinery.resourcequota.reconciler import ResourceQuotaReconciler
from kcm.actors.reconciliation import update
from kcm.actors.simulation.campaign.domain_settings import QUOTAS_SETTING
from kcm.protocols.objects import Object
from kcm.protocols.resources import Resource
from kcm.runtime.apiserver.admission import chain
from tests.faults.mutants.mutant import Mutant


def any_table_is_new_enough() -> Any:
    """Usage that was charged but is missing in a late table is released."""
    return patch.object(ResourceQuotaReconciler, "_tables_behind", lambda *_: [])


def a_first_count_may_be_late() -> Any:
    """The first count of a quota may miss usage that a late table does not contain."""
    sound = ResourceQuotaReconciler._tables_behind

    def unless_uncounted(self: Any, quota: Object, *rest: Any) -> Any:
        return sound(self, quota, *rest) if status_of(quota) else []

    return patch.object(ResourceQuotaReconciler, "_tables_behind", unless_uncounted)


def usage_is_overwritten() -> Any:
    """The status is written without its resourceVersion, so that later charges are lost."""

    def unconditional(resource: Resource, obj: Object, *, subresource: str = "") -> Any:
        meta = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
        return update(resource, {**obj, "metadata": meta}, subresource=subresource)

    return patch.object(reconciler, "update", unconditional)


def deletions_give_nothing_back() -> Any:
    return patch.object(watches, "quotas_of", lambda *_: iter(()))


def nothing_is_charged() -> Any:
    """The API server does not charge quotas; only the controller writes the usage."""
    return patch.object(chain, "charge", lambda *_: None)


QUOTAS = (
    Mutant(
        name="a quota is first counted from a late cache",
        source="kube-controller-manager itself, before admission has charged anything",
        mutation=a_first_count_may_be_late,
        setting=QUOTAS_SETTING,
    ),
    Mutant(
        name="a quota is counted from a late cache",
        source="kube-controller-manager itself: syncResourceQuota counts what its listers have",
        mutation=any_table_is_new_enough,
        setting=QUOTAS_SETTING,
    ),
    Mutant(
        name="a quota's usage is overwritten",
        source="a status that is patched without its version",
        mutation=usage_is_overwritten,
        setting=QUOTAS_SETTING,
    ),
    Mutant(
        name="what is deleted is not given back",
        source="a monitor of a resource that was never started",
        mutation=deletions_give_nothing_back,
        setting=QUOTAS_SETTING,
    ),
    Mutant(
        name="admission looks at a quota and does not charge it",
        source="admission before usage was written with compare-and-swap",
        mutation=nothing_is_charged,
        setting=QUOTAS_SETTING,
    ),
)
