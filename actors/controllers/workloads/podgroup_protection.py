"""PodGroup protection controller: protects a PodGroup from deletion while pods use it.

Input: PodGroups, pods. Output: removal of the finalizer scheduling.k8s.io/podgroup-protection from a PodGroup that is
being deleted, once every pod that refers to it has finished or was deleted. The admission plugin PodGroupProtection
adds the finalizer. Key: "namespace/name" of a PodGroup. The controller needs the feature gate GenericWorkload.

Because the table may be stale, the pods of the namespace are listed from the API server before a finalizer is removed.

Source: kubernetes v1.36 pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller.go. Difference:
upstream does not list the pods, and removes the finalizer while its informer lacks a pod. A PodGroup that only a pod of
the list uses is checked again (live_reads.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.shared.live_reads import UNSEEN_CHECK
from kcm.actors.controllers.shared.protection_finalizers import is_deletion_candidate, without_finalizer
from kcm.actors.reconciliation import (
    Because,
    Change,
    Index,
    Interest,
    Reconciliation,
    RequeueAfter,
    Watch,
    list_live,
    must,
    must_object,
    update,
)
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, key_of, make_key, namespace_of
from kcm.protocols.resource_claims import pod_group_name
from kcm.protocols.resources import POD_GROUPS, PODS
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

FINALIZER = "scheduling.k8s.io/podgroup-protection"
GATE = "GenericWorkload"
ACTIVE = "active pods of a group"


def group_key(pod: Mapping[str, Any]) -> Key:
    """Return the key of the pod's PodGroup, or ""."""
    name = pod_group_name(pod)
    return make_key(namespace_of(pod), name) if name else ""


def has_finished(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def groups_in_use(pod: Mapping[str, Any]) -> Iterable[Key]:
    """Return the key of the PodGroup that an unfinished pod refers to, if any."""
    key = group_key(pod)
    return (key,) if key and not has_finished(pod) else ()


def deleted_group(change: Change, _tables: Tables) -> Iterator[Key]:
    if is_deletion_candidate(change.new, FINALIZER):
        yield change.key


def group_left_by(change: Change, _tables: Tables) -> Iterator[Key]:
    """Enqueue the PodGroup of a pod that has finished, was deleted, or was replaced by another pod with its name."""
    replaced, keys = change.replaced, []
    if change.deleted or has_finished(change.new):
        keys.append(group_key(change.new))
    if replaced is not None:
        keys.append(group_key(replaced))
    yield from dict.fromkeys(key for key in keys if key)


class PodGroupProtection:
    """Reconciler of the protection finalizer of PodGroups. Key: "namespace/name" of the PodGroup."""

    def __init__(self, *, tables: Tables, log: FilteringBoundLogger) -> None:
        self._groups, self._pods, self._log = tables[POD_GROUPS], tables[PODS], log

    def reconcile(self, key: Key) -> Reconciliation:
        """Remove the finalizer of a PodGroup that is being deleted and that no pod uses. Source: processPodGroup."""
        group = self._groups.get(key)
        released = None if group is None else without_finalizer(group, FINALIZER)
        if group is None or released is None:
            return None
        is_seen = bool(self._pods.indexed_entries(ACTIVE, key))
        if not is_seen:
            pods = (yield from must_object(list_live(PODS, namespace_of(group)))).get("items") or ()
            if not any(key in groups_in_use(pod) for pod in pods):
                yield Because("no pod uses it: removes its finalizer")
                yield from must(update(POD_GROUPS, released), but=(NotFound,))
                self._log.info("Removed protection finalizer from PodGroup", v=3, podGroup=key_of(group))
                return None
        yield Because(f"keeps its finalizer {FINALIZER}: pods that have not finished use it")
        self._log.info("Keeping PodGroup finalizer because it is still being used by pods", v=4, podGroup=key)
        return None if is_seen else RequeueAfter(UNSEEN_CHECK)


def _build(context: ControllerContext) -> PodGroupProtection:
    return PodGroupProtection(tables=context.tables, log=context.log)


SPEC = ControllerSpec(
    name="podgroup-protection-controller",
    never_blocks=True,
    queues=(
        Queue(
            "podgroupprotection",
            watches=(
                Watch(
                    POD_GROUPS,
                    to=deleted_group,
                    interest=Interest(types=(EventType.ADDED, EventType.MODIFIED), finalizers=(FINALIZER,)),
                ),
                Watch(PODS, to=group_left_by, interest=Interest(changed=("phase",))),
            ),
            concurrency=1,
            terminal=(),
        ),
    ),
    indexes=(Index(PODS, ACTIVE, groups_in_use),),
    build=_build,
    enabled_if=lambda options: options.feature_gates[GATE],
    needs=f"--feature-gates={GATE}=true",
)
