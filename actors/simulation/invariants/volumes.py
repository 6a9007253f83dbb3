"""Invariants of PersistentVolumes and their claims.

They are bound once, stay bound, are protected while used, and never shrink. Claims of ephemeral volumes follow their
templates.
"""

from __future__ import annotations

import re

from kcm.actors.controllers.storage.shared.expansion import allocated_storage
from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, Recorded, decoded, only
from kcm.protocols.objects import (
    Key,
    Object,
    annotations_of,
    controller_of,
    finalizers_of,
    is_deleting,
    key_of,
    labels_of,
    make_key,
    name_of,
    namespace_of,
    uid_of,
)
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.volumes import (
    CLAIM_PROTECTION,
    VOLUME_PROTECTION,
    capacity_of_claim,
    capacity_of_volume,
    claim_keys,
    is_bound,
    phase_of,
    volume_name_of,
)
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange

CLAIMS, VOLUMES, PODS = "persistentvolumeclaims", "persistentvolumes", "pods"
BINDER, PROVISIONER = "persistent-volume-binder", "hollow-provisioner"
OF_CLAIMS, OF_VOLUMES = "pvc-protection-controller", "pv-protection-controller"
EPHEMERAL = "ephemeral-volume-controller"


class BoundOnce:
    """Invariant: a volume is never bound to two claims, nor a claim to two volumes, and both stay bound.

    A claim is not Lost while its volume exists, and a volume is not Released while its claim exists. Neither the binder
    nor the provisioner deletes a bound volume; users may do so.
    """

    name = "a volume is bound to one claim and stays bound"
    observes = (only(Committed, CLAIMS, VOLUMES), only(Handled, BINDER, PROVISIONER))

    def __init__(self) -> None:
        self._claims: dict[str, Object] = {}  # by uid
        self._volumes: dict[str, Object] = {}  # by name

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    if change.storage == CLAIMS:
                        self._claim_changed(change, fail)
                    elif change.storage == VOLUMES:
                        self._volume_changed(change, fail)
            case Handled(client=client, changes=changes) if client in (BINDER, PROVISIONER):
                for change in changes:
                    if change.storage == VOLUMES and change.previous:
                        self._volume_was_deleted(client, change, fail)

    def _claim_changed(self, change: StoreChange, fail: Fail) -> None:
        claim = decoded(change.raw)
        before = self._claims.pop(uid_of(claim), None)
        if change.type == DELETED:
            return
        self._claims[uid_of(claim)] = claim
        name = volume_name_of(claim)
        if before is not None and volume_name_of(before) not in ("", name):
            fail(f"claim {key_of(claim)} was bound to {volume_name_of(before)}, and now to {name or 'none'}")
        if is_bound(claim):
            others = [other for other in self._claims.values() if other is not claim and is_bound(other)]
            for other in others:
                if volume_name_of(other) == name and phase_of(other) != "Lost" and phase_of(claim) != "Lost":
                    fail(f"claims {key_of(claim)} and {key_of(other)} are both bound to {name}")
        if phase_of(claim) == "Lost" and before is not None and phase_of(before) != "Lost":
            volume = self._volumes.get(name)
            if volume is not None and _uid(volume) in ("", uid_of(claim)):
                fail(f"claim {key_of(claim)} is Lost, but its volume {name} exists")

    def _volume_changed(self, change: StoreChange, fail: Fail) -> None:
        volume = decoded(change.raw)
        name = name_of(volume)
        before = self._volumes.pop(name, None)
        if change.type == DELETED:
            return
        self._volumes[name] = volume
        if before is None:
            return
        claim = self._claims.get(_uid(before))
        if claim is not None and volume_name_of(claim) == name and _uid(volume) not in ("", uid_of(claim)):
            fail(f"volume {name} of claim {key_of(claim)} was bound to another claim")
        claim = self._claims.get(_uid(volume))
        is_new = phase_of(before) != "Released" and phase_of(volume) == "Released"
        if is_new and claim is not None and volume_name_of(claim) in ("", name):
            fail(f"volume {name} is Released, but its claim {key_of(claim)} exists")

    def _volume_was_deleted(self, client: str, change: StoreChange, fail: Fail) -> None:
        before, after = decoded(change.previous), decoded(change.raw)
        if is_deleting(before) or not (change.type == DELETED or is_deleting(after)):
            return
        claim = self._claims.get(_uid(before))
        if claim is not None and volume_name_of(claim) == name_of(before):
            fail(f"{client} deletes volume {name_of(before)}, which is bound to claim {key_of(claim)}")


def _uid(volume: Object) -> str:
    """Return the uid of the claim in the volume's claimRef."""
    return (volume["spec"].get("claimRef") or {}).get("uid") or ""


class ProtectedWhileUsed:
    """Invariant: the protection finalizer is removed only from a claim that no pod uses, or from an unbound volume.

    A pod that was bound to its node after the deletion of the claim does not count: the controller may have listed the
    pods before.
    """

    name = "volumes and claims are protected while used"
    observes = (only(Committed, CLAIMS, PODS), only(Handled, OF_CLAIMS, OF_VOLUMES))

    def __init__(self) -> None:
        self._placed: dict[str, tuple[Object, int]] = {}  # by uid: pod with claims, and the revision of its binding
        self._deleted: dict[str, int] = {}  # by uid: revision at which a claim was marked for deletion

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    self._committed(change)
            case Handled(client=client, changes=changes) if client in (OF_CLAIMS, OF_VOLUMES):
                for change in changes:
                    if change.previous:
                        self._check(client, decoded(change.previous), decoded(change.raw), fail)

    def _committed(self, change: StoreChange) -> None:
        if change.storage == CLAIMS and change.type != ADDED:
            claim = decoded(change.raw)
            if is_deleting(claim):
                self._deleted.setdefault(uid_of(claim), change.revision)
        elif change.storage == PODS:
            pod = decoded(change.raw)
            if change.type == DELETED:
                self._placed.pop(uid_of(pod), None)
            elif pod["spec"].get("nodeName") and claim_keys(pod):
                self._placed.setdefault(uid_of(pod), (pod, change.revision))

    def _check(self, client: str, before: Object, after: Object, fail: Fail) -> None:
        gone = set(finalizers_of(before)) - set(finalizers_of(after))
        if client == OF_CLAIMS and CLAIM_PROTECTION in gone:
            for pod in self._users(key_of(before), before):
                fail(f"claim {key_of(before)} loses its finalizer, but pod {name_of(pod)} uses it")
        if client == OF_VOLUMES and VOLUME_PROTECTION in gone and phase_of(before) == "Bound":
            fail(f"volume {name_of(before)} loses its finalizer, but is Bound")

    def _users(self, key: Key, claim: Object) -> list[Object]:
        deleted = self._deleted.get(uid_of(claim), 0)
        return [pod for pod, since in self._placed.values() if since < deleted and key in claim_keys(pod)]


class ClaimsOfEphemeralVolumes:
    """Invariant: the ephemeral volume controller only creates claims, each for a volume of a pod, from its template.

    The pod may have been deleted meanwhile. Its claim then has a controller with the uid of the deleted pod, so that
    the garbage collector deletes it, and it is never used for another pod with the same name.
    """

    name = "claims of ephemeral volumes follow their templates"
    observes = (only(Committed, PODS), only(Handled, EPHEMERAL))

    def __init__(self) -> None:
        self._pods: dict[str, Object] = {}  # by uid, deleted pods included

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    if change.storage == PODS and b'"ephemeral"' in change.raw:
                        pod = decoded(change.raw)
                        self._pods[uid_of(pod)] = pod
            case Handled(client=client, changes=changes) if client == EPHEMERAL:
                for change in changes:
                    if change.storage == CLAIMS:
                        self._written(change, fail)

    def _written(self, change: StoreChange, fail: Fail) -> None:
        claim = decoded(change.raw)
        key, owner = key_of(claim), controller_of(claim)
        if change.type != ADDED:
            # A claim whose owner does not exist is deleted at once by the server that stands in for the collector.
            if change.type != DELETED and not is_deleting(claim):
                fail(f"claim {key} is changed by the controller, which only creates claims")
            return
        pod = None if owner is None else self._pods.get(owner.uid)
        if pod is None:
            fail(f"claim {key} is controlled by no pod that existed")
            return
        templates = {
            f"{name_of(pod)}-{volume['name']}": volume["ephemeral"]["volumeClaimTemplate"]
            for volume in pod["spec"].get("volumes") or ()
            if volume.get("ephemeral") is not None
        }
        template = templates.get(name_of(claim))
        if template is None or namespace_of(claim) != namespace_of(pod):
            fail(f"claim {key} is not of an ephemeral volume of pod {key_of(pod)}")
            return
        meta = template.get("metadata") or {}
        if labels_of(claim) != (meta.get("labels") or {}):
            fail(f"claim {key} has labels {labels_of(claim)}, its template {meta.get('labels')}")
        if not (meta.get("annotations") or {}).items() <= annotations_of(claim).items():
            fail(f"claim {key} lacks annotations of its template")
        if not template["spec"].items() <= claim["spec"].items():  # the server adds defaults
            fail(f"claim {key} differs from its template")


class ExpansionsGoForward:
    """Invariant: volumes and the capacities of their claims never shrink, and claims have at most what volumes have.

    A claim gets more capacity only up to the size that was allocated to it before, unless it is bound by this change.
    """

    name = "expansions go forward"
    observes = (only(Committed, VOLUMES, CLAIMS),)

    def __init__(self) -> None:
        self._claims: dict[str, Object] = {}  # by uid
        self._volumes: dict[str, Object] = {}  # by uid

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.storage == VOLUMES:
                    self._volume_changed(decoded(change.raw), fail)
                elif change.storage == CLAIMS:
                    self._claim_changed(decoded(change.raw), fail)

    def _volume_changed(self, volume: Object, fail: Fail) -> None:
        before = self._volumes.get(uid_of(volume))
        self._volumes[uid_of(volume)] = volume
        if before is not None and parse_quantity(capacity_of_volume(volume)) < parse_quantity(
            capacity_of_volume(before)
        ):
            fail(f"volume {name_of(volume)} shrinks from {capacity_of_volume(before)} to {capacity_of_volume(volume)}")

    def _claim_changed(self, claim: Object, fail: Fail) -> None:
        before = self._claims.get(uid_of(claim))
        self._claims[uid_of(claim)] = claim
        if before is None or phase_of(before) != "Bound" or phase_of(claim) != "Bound":
            return
        size, was = capacity_of_claim(claim), capacity_of_claim(before)
        if parse_quantity(size) < parse_quantity(was):
            fail(f"claim {key_of(claim)} shrinks from {was} to {size}")
        if parse_quantity(size) > parse_quantity(was):
            allocated = allocated_storage(before)
            if allocated is None or parse_quantity(size) > parse_quantity(allocated):
                fail(f"claim {key_of(claim)} gets {size}, and {allocated} was allocated to it")
            has = max(
                (capacity_of_volume(volume) for volume in self._volumes.values() if _uid(volume) == uid_of(claim)),
                key=parse_quantity,
                default="0",
            )
            if parse_quantity(has) < parse_quantity(size):
                fail(f"claim {key_of(claim)} gets {size}, and its volume has {has}")


class SharedVolumesOnly:
    """Invariant: a pod is warned of SELinux conflicts only with a pod of its namespace that uses one of its claims."""

    name = "SELinux warnings are about pods that share volumes"
    observes = (only(Committed, PODS), Recorded)

    def __init__(self) -> None:
        self._claims: dict[Key, set[Key]] = {}  # of each pod that ever had this key

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    if change.storage == PODS:
                        pod = decoded(change.raw)
                        self._claims.setdefault(key_of(pod), set()).update(claim_keys(pod))
            case Recorded(record=record) if record.reason in ("SELinuxLabelConflict", "SELinuxChangePolicyConflict"):
                found = re.search(r" conflicts with pod (\S+) ", record.message)
                key = make_key(record.namespace, record.name)
                other = None if found is None else make_key(record.namespace, found[1])
                if other is None or not self._claims.get(key, set()) & self._claims.get(other, set()):
                    fail(f"pod {key} is warned of {other}, with which it shares no claim")
