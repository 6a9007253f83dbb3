"""Invariants of device allocation and of preemption by the hollow scheduler."""

from __future__ import annotations

from kcm.actors.hollow.scheduler.devices.claim_facts import claim_references, devices_of
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded
from kcm.protocols.conditions import is_true
from kcm.protocols.node_affinity import terms_of
from kcm.protocols.objects import Key, Object, is_deleting, make_key, name_of, namespace_of, uid_of
from kcm.protocols.pods import is_terminal, pod_facts
from kcm.protocols.resource_claims import allocation_of, is_reserved_for
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange

CLAIMS, PODS = "resourceclaims.resource.k8s.io", "pods"
SCHEDULER = "hollow-scheduler"


class DevicesAllocatedOnce:
    """Invariant: a device is allocated to one claim, and a pod is bound where its claims are allocated for it."""

    name = "a device is allocated once"
    observes = (Committed,)

    def __init__(self) -> None:
        self._claims: dict[Key, Object] = {}
        self._owners: dict[str, str] = {}  # by device, the uid of its claim
        self._bound: set[str] = set()  # uids of pods

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    if change.storage == CLAIMS:
                        self._claim_changed(change, fail)
                    elif change.storage == PODS:
                        self._pod_changed(change, fail)

    def _claim_changed(self, change: StoreChange, fail: Fail) -> None:
        claim = decoded(change.raw)
        before = self._claims.pop(change.key, None)
        if before is not None:
            for device, _ in devices_of(allocation_of(before) or {}):
                if self._owners.get(str(device)) == uid_of(before):
                    del self._owners[str(device)]
        if change.type == DELETED:
            return
        self._claims[change.key] = claim
        for device, result in devices_of(allocation_of(claim) or {}):
            if result.get("shareID"):
                continue
            owner = self._owners.setdefault(str(device), uid_of(claim))
            if owner != uid_of(claim):
                fail(f"device {device} is allocated to claim {change.key}, and to the claim with the uid {owner}")

    def _pod_changed(self, change: StoreChange, fail: Fail) -> None:
        pod = decoded(change.raw)
        if change.type == DELETED or uid_of(pod) in self._bound or not pod["spec"].get("nodeName"):
            return
        self._bound.add(uid_of(pod))
        node = pod["spec"]["nodeName"]
        for reference in claim_references(pod):
            claim = self._claims.get(make_key(namespace_of(pod), reference.name or ""))
            if claim is None or not is_reserved_for(pod, claim, accept_group=False):
                fail(f"pod {change.key} is bound, but its claim {reference.name} is not reserved for it")
                continue
            selector = (allocation_of(claim) or {}).get("nodeSelector")
            if selector is not None and not any(term.matches(node, {}) for term in terms_of(selector)):
                fail(f"pod {change.key} is bound to {node}, but its claim {reference.name} is allocated elsewhere")


class PriorityOfVictims:
    """Invariant: the scheduler deletes a pod only for a pending pod of higher priority, and marks it before."""

    name = "only pods of lower priority are preempted"
    observes = (Committed, Handled)

    def __init__(self) -> None:
        self._pending: dict[str, int] = {}  # by uid: priority of a pod that is not bound

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    if change.storage == PODS:
                        self._pod_changed(change)
            case Handled(client=client, changes=changes) if client == SCHEDULER:
                for change in changes:
                    if change.storage == PODS and change.previous:
                        self._deleted(change, fail)

    def _pod_changed(self, change: StoreChange) -> None:
        pod = decoded(change.raw)
        if change.type == DELETED or pod["spec"].get("nodeName") or is_terminal(pod_facts(pod)):
            self._pending.pop(uid_of(pod), None)
        else:
            self._pending[uid_of(pod)] = pod["spec"].get("priority") or 0

    def _deleted(self, change: StoreChange, fail: Fail) -> None:
        before, after = decoded(change.previous), decoded(change.raw)
        if is_deleting(before) or not (change.type == DELETED or is_deleting(after)):
            return
        name, priority = name_of(before), before["spec"].get("priority") or 0
        conditions = (before.get("status") or {}).get("conditions") or ()
        if not is_true(conditions, "DisruptionTarget"):
            fail(f"pod {name} is preempted without the condition DisruptionTarget")
        if all(other <= priority for other in self._pending.values()):
            fail(f"pod {name} is preempted, but no pod of higher priority is pending")
