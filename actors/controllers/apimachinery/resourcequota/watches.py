"""Watches of the resourcequota controller: which changes of quotas and of counted objects enqueue which quotas.

A change of a counted object enqueues the quotas of its namespace if it may reduce their usage ("replenish" upstream):
a deletion, or an update such as a pod's transition to Succeeded. New objects enqueue nothing, because the admission
plugin ResourceQuota has already added them to status.used.

The controller has three queues, see spec.py. PRIMARY_WATCHES add to the primary queue, and DELAYED_WATCHES to a queue
that delays the recount. PRIORITY_WATCHES add to the queue of quotas whose usage is unknown (upstream's
missingUsageQueue), which has its own workers.

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
    EvaluationContext,
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

DELETIONS = Interest(types=(EventType.DELETED,))
DELETIONS_AND_UPDATES = Interest(types=(EventType.DELETED, EventType.MODIFIED))
# Name of an index of the pod table, and its two values. The informer evaluates the index before it notifies the
# controller, so most updates of pods do not reach the controller.
_INDEX, _DEADLINE, _RESIZED = "quota", "deadline", "resized"


class QuotaFacts(NamedTuple):
    """Limits and usage of a ResourceQuota, as (resource name, amount) pairs sorted by name.

    A quota is enqueued when one of these values has changed.
    """

    hard: tuple[tuple[str, Decimal], ...]  # spec.hard
    used: tuple[tuple[str, Decimal], ...]  # status.used


def quota_facts(quota: Object) -> QuotaFacts:
    """Return the limits and usage of a ResourceQuota. Raises ValueError for invalid quantities, also in status.hard."""
    status = status_of(quota)
    hard, used = read_amounts(limits(quota)), read_amounts(status.get("used"))
    read_amounts(status.get("hard"))
    return QuotaFacts(
        *(tuple(sorted((name, amount.value) for name, amount in amounts.items())) for amounts in (hard, used))
    )


def _pod_values(pod: Object) -> Iterator[str]:
    if is_terminating(pod):
        yield _DEADLINE
    if _is_resized(pod):
        yield _RESIZED


def _is_resized(pod: Object) -> bool:
    """Report whether a container's resources differ between spec and status, as during an in-place resize."""
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


def primary_keys(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the key of a changed ResourceQuota for the primary queue; nothing if it belongs to the priority queue."""
    return (change.key,) if change.deleted or not _is_uncounted(change, tables) else ()


def priority_keys(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the key of a changed ResourceQuota for the priority queue; nothing if it belongs to the primary queue.

    Quotas whose status.hard or status.used is incomplete belong to the priority queue. Source: upstream's addQuota.
    """
    return (change.key,) if not change.deleted and _is_uncounted(change, tables) else ()


def _is_uncounted(change: Change, tables: Tables) -> bool:
    return is_uncounted(change.new, EvaluationContext(tables).evaluators())


def keys_of_discovered(resource: Resource, change: Change, tables: Tables) -> Iterable[Key]:
    """Return the keys of the quotas to enqueue after an object of a discovered resource was deleted.

    These are the quotas in the object's namespace that limit this resource.
    """
    quotas = tables[RESOURCE_QUOTAS]
    if not resource.namespaced or not quotas.entries(change.namespace):
        return ()
    return quotas_of(EvaluationContext(tables).evaluator(resource), quotas, change.namespace)


def _enqueuing(evaluator: Evaluator, is_reduced: Callable[[Object, Object], bool]) -> Callable[..., Iterable[Key]]:
    """Return a watch handler that enqueues the quotas that count the changed object, if its usage may be lower now.

    is_reduced: called with the new and the old object of an update; deletions always count.
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
    """Report whether an update of a pod may reduce the usage of a quota.

    True if the pod has finished, its resources have changed, or its activeDeadlineSeconds were set or removed.
    """
    # The deadline determines whether the scopes Terminating and NotTerminating include the pod.
    if is_terminating(new) != is_terminating(old):
        return True
    return (_has_ended(new) and not _has_ended(old)) or _resources(new) != _resources(old)


def _is_deletion_requested(new: Object, old: Object) -> bool:
    return is_deleting(new) and not is_deleting(old)


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _resources(pod: Object) -> dict[Any, Any]:
    """Return (resources, allocatedResources) from the pod's status, by container name; None for the pod itself."""
    status = pod.get("status") or {}
    statuses = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    resources = {
        container.get("name"): (container.get("resources"), container.get("allocatedResources"))
        for container in statuses
    }
    return {**resources, None: (status.get("resources"), status.get("allocatedResources"))}


def _is_service_changed(new: Object, old: Object) -> bool:
    return Services().usage(new) != Services().usage(old)


def _never(_new: Object, _old: Object) -> bool:
    return False


def _is_claim_changed(new: Object, old: Object) -> bool:
    return concerns_quotas(new, old) or VolumeClaims().usage(new) != VolumeClaims().usage(old)


_on_pod_change = _enqueuing(Pods(lambda: 0.0), _is_pod_reduced)
PRIMARY_WATCHES = (
    Watch(RESOURCE_QUOTAS, to=primary_keys, interest=Interest(changed=("hard",))),
    Watch(RESOURCE_QUOTAS, to=_enqueuing(QUOTAS, _never), interest=DELETIONS),
    Watch(PODS, to=_on_pod_change, interest=DELETIONS),
    Watch(PODS, to=_on_pod_change, interest=Interest(types=(EventType.MODIFIED,), changed=("phase",))),
    Watch(
        PODS,
        to=_on_pod_change,
        interest=Interest(types=(EventType.MODIFIED,), indexed=((_INDEX, _DEADLINE), (_INDEX, _RESIZED))),
    ),
    Watch(SERVICES, to=_enqueuing(Services(), _is_service_changed), interest=DELETIONS_AND_UPDATES),
    Watch(PERSISTENT_VOLUME_CLAIMS, to=_enqueuing(VolumeClaims(), _is_claim_changed), interest=DELETIONS_AND_UPDATES),
)
PRIORITY_WATCHES = (Watch(RESOURCE_QUOTAS, to=priority_keys, interest=Interest(changed=("hard",))),)
# These changes cause a recount after a delay: admission or another client has changed status.used, or the deletion of a
# pod was requested. Such a pod is not counted once its grace period is over.
DELAYED_WATCHES = (
    Watch(RESOURCE_QUOTAS, to=itself, interest=Interest(types=(EventType.MODIFIED,), changed=("used",))),
    Watch(
        PODS,
        to=_enqueuing(Pods(lambda: 0.0), _is_deletion_requested),
        interest=Interest(types=(EventType.MODIFIED,), changed=("deleting",)),
    ),
)
