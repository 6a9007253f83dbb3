"""Invariants of device allocation and of preemption by the hollow scheduler."""

from __future__ import annotations

from kcm.actors.hollow.scheduler.devices.claim_facts import claim_references, devices_of
from kcm.actors.hollow.scheduler.devices.extended_resources import extended_names
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded, facts_of_pod, only
from kcm.protocols.conditions import is_true
from kcm.protocols.node_affinity import terms_of
from kcm.protocols.objects import Key, Object, is_deleting, make_key, name_of, namespace_of, uid_of
from kcm.protocols.pods import is_terminal
from kcm.protocols.resource_claims import allocation_of, extended_claim_name, is_reserved_for
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange

CLAIMS, PODS = "resourceclaims.resource.k8s.io", "pods"
SCHEDULER = "hollow-scheduler"


class DevicesAllocatedOnce:
    """Invariant: the scheduler allocates a device to one claim, and binds a pod where its claims are allocated for it.

    Users may allocate a device to several claims, and create pods on a node.
    """

    name = "a device is allocated once"
    observes = (only(Committed, CLAIMS, PODS), only(Handled, SCHEDULER))

    def __init__(self) -> None:
        self._claims: dict[Key, Object] = {}
        self._owners: dict[str, set[str]] = {}  # by device, the uids of its claims
        self._bound: set[str] = set()  # uids of pods

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    if change.storage == CLAIMS:
                        self._claim_changed(change)
                    elif change.storage == PODS:
                        self._pod_changed(change, fail)
            case Handled(client=client, changes=changes) if client == SCHEDULER:
                for change in changes:
                    if change.storage == CLAIMS and change.type != DELETED:
                        self._allocated(change, fail)

    def _claim_changed(self, change: StoreChange) -> None:
        claim = decoded(change.raw)
        before = self._claims.pop(change.key, None)
        if before is not None:
            for device in _dedicated(before):
                self._owners[device].discard(uid_of(before))
        if change.type == DELETED:
            return
        self._claims[change.key] = claim
        for device in _dedicated(claim):
            self._owners.setdefault(device, set()).add(uid_of(claim))

    def _allocated(self, change: StoreChange, fail: Fail) -> None:
        claim = decoded(change.raw)
        known = () if not change.previous else _dedicated(decoded(change.previous))
        for device in _dedicated(claim):
            others = self._owners[device] - {uid_of(claim)}
            if others and device not in known:
                fail(f"device {device} is allocated to claim {change.key}, and to claims with the uids {others}")

    def _pod_changed(self, change: StoreChange, fail: Fail) -> None:
        pod = decoded(change.raw)
        if change.type == DELETED or uid_of(pod) in self._bound or not pod["spec"].get("nodeName"):
            return
        self._bound.add(uid_of(pod))
        if change.type == ADDED:
            return
        node = pod["spec"]["nodeName"]
        names = [reference.name or "" for reference in claim_references(pod)]
        if extended_names(pod):
            names.append(extended_claim_name(pod))
        for name in names:
            claim = self._claims.get(make_key(namespace_of(pod), name))
            if claim is None or not is_reserved_for(pod, claim, accept_group=False):
                fail(f"pod {change.key} is bound, but its claim {name!r} is not reserved for it")
                continue
            selector = (allocation_of(claim) or {}).get("nodeSelector")
            if selector is not None and not any(term.matches(node, {}) for term in terms_of(selector)):
                fail(f"pod {change.key} is bound to {node}, but its claim {name!r} is allocated elsewhere")


def _dedicated(claim: Object) -> list[str]:
    """Return the devices of a claim that it does not share."""
    return [str(device) for device, result in devices_of(allocation_of(claim) or {}) if not result.get("shareID")]


class PriorityOfVictims:
    """Invariant: the scheduler deletes a pod only for a pending pod of higher priority, and marks it before."""

    name = "only pods of lower priority are preempted"
    observes = (only(Committed, PODS), only(Handled, SCHEDULER))

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
        if change.type == DELETED or pod["spec"].get("nodeName") or is_terminal(facts_of_pod(change.raw)):
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
