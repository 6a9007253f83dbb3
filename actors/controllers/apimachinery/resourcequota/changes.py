"""Watches of the controller: which changes of quotas, and of the objects that they count, enqueue which quotas.

A change of a counted object enqueues the quotas of its namespace if it may reduce their usage ("replenish" upstream):
a deletion, or an update such as the end of a pod. New objects enqueue nothing, because admission has already added them
to the used amounts in the status.

The controller has three queues, see spec.py: WATCHES enqueue in the primary queue, FIRST in the queue of quotas without
usage (upstream's missingUsageQueue), which has its own workers, and LATER in a queue that recounts after a delay.

Source: kubernetes v1.36 pkg/quota/v1/install/update_filter.go, pkg/controller/resourcequota/resource_quota_monitor.go,
resource_quota_controller.go (addQuota, replenishQuota). Difference: updates of Services and PersistentVolumeClaims
enqueue quotas if they reduce usage; upstream considers changes of a Service's type, and every update of a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from kcm.actors.controllers.apimachinery.resourcequota.evaluators import (
    QUOTAS,
    Counting,
    is_uncounted,
    limits,
    quotas_of,
    status_of,
)
from kcm.actors.reconciliation import Change, Interest, Watch, itself
from kcm.actors.reconciliation.specs import Facts, Index
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, is_deleting
from kcm.protocols.quota.amounts import read_amounts
from kcm.protocols.quota.evaluators import Evaluator
from kcm.protocols.quota.pods import Pods, is_terminating
from kcm.protocols.quota.services import Services
from kcm.protocols.quota.volume_claims import VolumeClaims, concerns_quotas
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES, Resource
from kcm.runtime.tables.tables import Tables

GONE = Interest(types=(EventType.DELETED,))
CHANGED = Interest(types=(EventType.DELETED, EventType.MODIFIED))
# Index of pods, and its values. The informer tests the index before an update wakes the controller, so most updates of
# pods do not wake it.
_INDEX, _DEADLINE, _RESIZED = "quota", "deadline", "resized"


class QuotaFacts(NamedTuple):
    """Limits and usage of a quota, as (name, amount) pairs sorted by name."""

    hard: tuple[tuple[str, Decimal], ...]  # spec.hard
    used: tuple[tuple[str, Decimal], ...]  # status.used


def quota_facts(quota: Object) -> QuotaFacts:
    """Return the facts of a quota. Raises ValueError for invalid quantities."""
    hard, used = read_amounts(limits(quota)), read_amounts(status_of(quota).get("used"))
    return QuotaFacts(*(tuple(sorted((name, amount.value) for name, amount in each.items())) for each in (hard, used)))


def _pod_values(pod: Object) -> Iterator[str]:
    if is_terminating(pod):
        yield _DEADLINE
    if _is_resized(pod):
        yield _RESIZED


def _is_resized(pod: Object) -> bool:
    """Report whether the resources in the status of a container differ from its spec, as during an in-place resize."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    statuses = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    current = {container.get("name"): container["resources"] for container in statuses if container.get("resources")}
    if not current:
        return False
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return any(
        (container.get("resources") or {}).get(part) != current[container.get("name")].get(part)
        for container in containers
        if container.get("name") in current
        for part in ("requests", "limits")
    )


FACTS = Facts(RESOURCE_QUOTAS, quota_facts)
INDEX = Index(PODS, _INDEX, _pod_values)


def primary(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue a quota that was deleted, or whose status is complete."""
    return (change.key,) if change.deleted or not _is_uncounted(change, tables) else ()


def priority(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue a quota whose limits are not enforced yet, or whose usage is unknown, as upstream's addQuota."""
    return (change.key,) if not change.deleted and _is_uncounted(change, tables) else ()


def _is_uncounted(change: Change, tables: Tables) -> bool:
    return is_uncounted(change.new, Counting(tables).evaluators())


def of_discovered(resource: Resource, change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue the quotas that count a deleted object of a discovered resource."""
    quotas = tables[RESOURCE_QUOTAS]
    if not resource.namespaced or not quotas.entries(change.namespace):
        return ()
    return quotas_of(Counting(tables).evaluator(resource), quotas, change.namespace)


def _replenishing(evaluator: Evaluator, is_reduced: Callable[[Object, Object], bool]) -> Callable[..., Iterable[Key]]:
    """Return a function that enqueues the quotas of an object if it was deleted, or is_reduced(new, old).

    Source: upstream's replenishQuota.
    """

    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        quotas = tables[RESOURCE_QUOTAS]
        if not quotas.entries(change.namespace):
            return ()
        if change.deleted or (change.old is not None and is_reduced(change.new, change.old)):
            return quotas_of(evaluator, quotas, change.namespace)
        return ()

    return keys


def _is_pod_reduced(new: Object, old: Object) -> bool:
    """Report whether a pod has ended, its resources have changed, or its activeDeadlineSeconds were set or removed."""
    # The deadline determines whether the scopes Terminating and NotTerminating include the pod.
    if is_terminating(new) != is_terminating(old):
        return True
    return (_has_ended(new) and not _has_ended(old)) or _resources(new) != _resources(old)


def _is_deletion_requested(new: Object, old: Object) -> bool:
    return is_deleting(new) and not is_deleting(old)


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _resources(pod: Object) -> dict[Any, Any]:
    """Return the resources in the status of the containers and of the pod."""
    status = pod.get("status") or {}
    statuses = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    resources = {
        container.get("name"): (container.get("resources"), container.get("allocatedResources"))
        for container in statuses
    }
    return {**resources, None: (status.get("resources"), status.get("allocatedResources"))}  # None: the pod itself


def _is_service_changed(new: Object, old: Object) -> bool:
    return Services().usage(new) != Services().usage(old)


def _never(_new: Object, _old: Object) -> bool:
    return False


def _is_claim_changed(new: Object, old: Object) -> bool:
    return concerns_quotas(new, old) or VolumeClaims().usage(new) != VolumeClaims().usage(old)


_of_pods = _replenishing(Pods(lambda: 0.0), _is_pod_reduced)
WATCHES = (
    Watch(RESOURCE_QUOTAS, to=primary, interest=Interest(changed=("hard",))),
    Watch(RESOURCE_QUOTAS, to=_replenishing(QUOTAS, _never), interest=GONE),
    Watch(PODS, to=_of_pods, interest=GONE),
    Watch(PODS, to=_of_pods, interest=Interest(types=(EventType.MODIFIED,), changed=("phase",))),
    Watch(
        PODS,
        to=_of_pods,
        interest=Interest(types=(EventType.MODIFIED,), indexed=((_INDEX, _DEADLINE), (_INDEX, _RESIZED))),
    ),
    Watch(SERVICES, to=_replenishing(Services(), _is_service_changed), interest=CHANGED),
    Watch(PERSISTENT_VOLUME_CLAIMS, to=_replenishing(VolumeClaims(), _is_claim_changed), interest=CHANGED),
)
FIRST = (Watch(RESOURCE_QUOTAS, to=priority, interest=Interest(changed=("hard",))),)
# Recounted after a delay: admission or another client has changed the used amounts in the status, or a pod is being
# deleted, which is not counted once its grace period is over.
LATER = (
    Watch(RESOURCE_QUOTAS, to=itself, interest=Interest(types=(EventType.MODIFIED,), changed=("used",))),
    Watch(
        PODS,
        to=_replenishing(Pods(lambda: 0.0), _is_deletion_requested),
        interest=Interest(types=(EventType.MODIFIED,), changed=("deleting",)),
    ),
)
