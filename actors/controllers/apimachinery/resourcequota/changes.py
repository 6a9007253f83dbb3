"""The changes that enqueue quotas: those that reduce usage. Additional usage is charged by admission.

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
_INDEX, _DEADLINE, _RESIZED = "quota", "deadline", "resized"


class QuotaFacts(NamedTuple):
    """The limits and the usage of a quota, as (name, amount) pairs sorted by name."""

    hard: tuple[tuple[str, Decimal], ...]  # of the spec
    used: tuple[tuple[str, Decimal], ...]  # of the status


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
    """Report whether the resources of a container differ from those in its spec."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    statuses = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    has = {container.get("name"): container["resources"] for container in statuses if container.get("resources")}
    if not has:
        return False
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return any(
        (container.get("resources") or {}).get(part) != has[container.get("name")].get(part)
        for container in containers
        if container.get("name") in has
        for part in ("requests", "limits")
    )


FACTS = Facts(RESOURCE_QUOTAS, quota_facts)
INDEX = Index(PODS, _INDEX, _pod_values)


def primary(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the key of a quota whose usage is known, or that was deleted."""
    return (change.key,) if change.deleted or not _comes_first(change, tables) else ()


def priority(change: Change, tables: Tables) -> Iterable[Key]:
    """Return the key of a quota whose limits are not enforced, or whose usage is unknown."""
    return (change.key,) if not change.deleted and _comes_first(change, tables) else ()


def _comes_first(change: Change, tables: Tables) -> bool:
    return is_uncounted(change.new, Counting(tables).evaluators())


def of_discovered(resource: Resource, change: Change, tables: Tables) -> Iterable[Key]:
    """Return the quotas that count a deleted object of a discovered resource."""
    quotas = tables[RESOURCE_QUOTAS]
    if not resource.namespaced or not quotas.entries(change.namespace):
        return ()
    return quotas_of(Counting(tables).evaluator(resource), quotas, change.namespace)


def _replenishing(evaluator: Evaluator, gives_back: Callable[[Object, Object], bool]) -> Callable[..., Iterable[Key]]:
    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        quotas = tables[RESOURCE_QUOTAS]
        if not quotas.entries(change.namespace):
            return ()
        if change.deleted or (change.old is not None and gives_back(change.new, change.old)):
            return quotas_of(evaluator, quotas, change.namespace)
        return ()

    return keys


def _pod_gives_back(new: Object, old: Object) -> bool:
    """Report whether a pod has finished, or has another deadline or other resources."""
    if is_terminating(new) != is_terminating(old):
        return True
    return (_has_ended(new) and not _has_ended(old)) or _resources(new) != _resources(old)


def _pod_will_be_gone(new: Object, old: Object) -> bool:
    return is_deleting(new) and not is_deleting(old)


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _resources(pod: Object) -> dict[Any, Any]:
    """Return the resources in the status of the containers and of the pod."""
    status = pod.get("status") or {}
    statuses = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    has = {
        container.get("name"): (container.get("resources"), container.get("allocatedResources"))
        for container in statuses
    }
    return {**has, None: (status.get("resources"), status.get("allocatedResources"))}


def _service_gives_back(new: Object, old: Object) -> bool:
    return Services().usage(new) != Services().usage(old)


def _never(_new: Object, _old: Object) -> bool:
    return False


def _claim_gives_back(new: Object, old: Object) -> bool:
    return concerns_quotas(new, old) or VolumeClaims().usage(new) != VolumeClaims().usage(old)


_of_pods = _replenishing(Pods(lambda: 0.0), _pod_gives_back)
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
    Watch(SERVICES, to=_replenishing(Services(), _service_gives_back), interest=CHANGED),
    Watch(PERSISTENT_VOLUME_CLAIMS, to=_replenishing(VolumeClaims(), _claim_gives_back), interest=CHANGED),
)
FIRST = (Watch(RESOURCE_QUOTAS, to=priority, interest=Interest(changed=("hard",))),)
# Changes that enqueue a quota later: its usage has changed, or a pod will stop to count after its grace period.
LATER = (
    Watch(RESOURCE_QUOTAS, to=itself, interest=Interest(types=(EventType.MODIFIED,), changed=("used",))),
    Watch(
        PODS,
        to=_replenishing(Pods(lambda: 0.0), _pod_will_be_gone),
        interest=Interest(types=(EventType.MODIFIED,), changed=("deleting",)),
    ),
)
