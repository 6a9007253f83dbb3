"""PersistentVolumeClaim protection controller: protects a claim from deletion while pods use it.

Input: claims, pods. Output: the finalizer kubernetes.io/pvc-protection. It is added to each claim that is not being
deleted. It is removed from a claim that is being deleted, once no pod that is bound to a node uses the claim; a
finished pod counts until it is deleted. Key: "namespace/name" of a claim.

With the feature gate PersistentVolumeClaimUnusedSinceTime, the controller also maintains the condition Unused of claims
that are not being deleted. It is True once every pod that refers to the claim has finished or was deleted.

Because a table may be stale, the pods of the namespace are listed from the API server before a finalizer is removed or
Unused becomes True. One list is used for all claims of the namespace that need it.

Source: kubernetes v1.36 pkg/controller/volume/pvcprotection/pvc_protection_controller.go. Differences: all claims of a
namespace share a list, upstream only those that are in the queue at the same time. For a claim whose condition Unused
is True already, pods are not listed again. A claim that only a pod of the list uses is checked again (live_reads.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kcm.actors.controllers.shared.live_reads import UNSEEN_CHECK
from kcm.actors.controllers.shared.protection_finalizers import (
    is_deletion_candidate,
    with_finalizer,
    without_finalizer,
)
from kcm.actors.controllers.storage.shared.pods_by_claim import ANY, CLAIMS, PODS_BY_CLAIM
from kcm.actors.options import Options
from kcm.actors.options.versions import BINARY
from kcm.actors.reconciliation import (
    Because,
    Change,
    Enqueue,
    Interest,
    Reconciliation,
    Step,
    Watch,
    itself,
    list_live,
    must,
    must_object,
    update,
)
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.conditions import find_condition
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, controller_of, is_deleting, key_of, metadata, name_of, split_key, uid_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from kcm.protocols.times import format_time
from kcm.protocols.volumes import CLAIM_PROTECTION, claim_keys, claims_of, is_pod_ended, phase_of
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE = "pvcprotection"
SEEN = Interest(types=(EventType.ADDED, EventType.MODIFIED))
# Changes of a pod that may start or end its use of a claim.
USE = Interest(changed=("phase", "deleting", "node"), indexed=((CLAIMS, ANY),))
GATE, UNUSED = "PersistentVolumeClaimUnusedSinceTime", "Unused"


def claims_of_pod(change: Change, _tables: Tables) -> Iterator[Key]:
    """Enqueue the claims that a pod may have stopped using.

    These are the claims of a pod that was deleted, was replaced by another pod with its name, has finished, or is not
    bound to a node.
    """
    replaced, new = change.replaced, change.new
    if replaced is not None:
        yield from claim_keys(replaced)
    if change.deleted or is_pod_ended(new) or not (new.get("spec") or {}).get("nodeName"):
        yield from claim_keys(new)


def all_claims_of_pod(change: Change, _tables: Tables) -> Iterator[Key]:
    """Enqueue all claims of a pod. Any change of a pod may change the condition Unused of its claims.

    Used only with the feature gate PersistentVolumeClaimUnusedSinceTime.
    """
    replaced, new = change.replaced, change.new
    if replaced is not None:
        yield from claim_keys(replaced)
    yield from claim_keys(new)


def refers_to(pod: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Report whether a pod refers to the claim and has not finished, whether or not it is bound to a node.

    Source: podUsesPVCForUnusedSince.
    """
    key = key_of(claim)
    return not is_pod_ended(pod) and any(
        not use.ephemeral or _owns(pod, claim) for use in claims_of(pod) if use.claim == key
    )


def with_unused(claim: Object, *, used: bool, now: float) -> Object | None:
    """Return a copy of the claim with the updated condition Unused; None if the condition is correct already.

    used: whether a pod refers to the claim.
    now: Unix seconds, for lastTransitionTime.

    Source: updateUnusedCondition.
    """
    status = claim.get("status") or {}
    conditions = status.get("conditions") or ()
    current = find_condition(conditions, UNUSED)
    if current is not None and (current.get("status") == "True") is not used:
        return None
    new = {
        "type": UNUSED,
        "status": "False" if used else "True",
        "lastTransitionTime": format_time(now),
        "reason": "PodUsingPVC" if used else "NoPodsUsingPVC",
        "message": (
            "A pod is currently referencing this PVC" if used else "No pods are currently referencing this PVC"
        ),
    }
    if current is None:
        changed = [*conditions, new]
    else:
        changed = [new if condition is current else condition for condition in conditions]
    return {**claim, "status": {**status, "conditions": changed}}


def uses(pod: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Report whether a pod may use the volume of the claim: it refers to the claim and is bound to a node.

    Source: podUsesPVCForDeletion.
    """
    if not (pod.get("spec") or {}).get("nodeName"):
        return False
    key = key_of(claim)
    return any(
        not use.ephemeral or (not _is_shut_down(pod) and _owns(pod, claim))
        for use in claims_of(pod)
        if use.claim == key
    )


def _is_shut_down(pod: Mapping[str, Any]) -> bool:
    return is_deleting(pod) and metadata(pod).get("deletionGracePeriodSeconds") == 0


def _owns(pod: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    owner = controller_of(claim)
    return owner is not None and owner.uid == uid_of(pod)


class ClaimProtection:
    """Reconciler of the protection finalizer and the condition Unused of claims. Key: "namespace/name" of the claim."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        tracks_unused: bool,
        tracks_unbound: bool = True,
    ) -> None:
        """Create the reconciler.

        tracks_unused: whether the feature gate PersistentVolumeClaimUnusedSinceTime is enabled.
        tracks_unbound: whether the condition Unused is maintained before the claim is bound, too. Upstream waits for
            that since 1.37, because the write conflicts with that of the binder.
        """
        self._claims, self._pods, self._log = tables[PERSISTENT_VOLUME_CLAIMS], tables[PODS], log
        self._clock, self._tracks_unused, self._tracks_unbound = clock, tracks_unused, tracks_unbound

    def reconcile(self, key: Key) -> Reconciliation:
        """Add or remove the protection finalizer of a claim, and update its condition Unused. Source: processPVC."""
        if self._tracks_unused:
            yield from self._update_unused(key)
        claim = self._claims.get(key)
        if claim is None:
            return None
        protected = with_finalizer(claim, CLAIM_PROTECTION)
        if protected is not None:
            yield Because(f"lacks the finalizer {CLAIM_PROTECTION}: adds it")
            yield from must(update(PERSISTENT_VOLUME_CLAIMS, protected), but=(NotFound,))
        elif self._seems_unused(claim):
            yield from self._unprotect(key)
        elif is_deletion_candidate(claim, CLAIM_PROTECTION):
            user = next((pod for pod in self._pods.indexed(CLAIMS, key) if uses(pod, claim)), None)
            if user is not None:
                yield Because(f"keeps the finalizer {CLAIM_PROTECTION}: pod {name_of(user)} uses it")
        return None

    def _update_unused(self, key: Key) -> Step[None]:
        """Update the condition Unused of a claim.

        Before it becomes True, the pods of the namespace are listed, and other claims of the namespace are updated too.
        """
        claim = self._claims.get(key)
        if claim is None or is_deleting(claim) or not self._is_tracked(claim):
            return
        if self._is_referenced(claim):
            yield from self._write_unused(claim, used=True)
            return
        if not self._becomes_unused(claim):
            return
        namespace = split_key(key)[0]
        keys = [key_of(claim) for claim in self._claims.objects(namespace) if self._becomes_unused(claim)]
        pods = (yield from must_object(list_live(PODS, namespace))).get("items") or ()
        for claim_key in keys:
            claim = self._claims.get(claim_key)
            if claim is not None and self._becomes_unused(claim):
                is_used = any(refers_to(pod, claim) for pod in pods)
                yield from self._write_unused(claim, used=is_used)
                if is_used:
                    yield Enqueue(QUEUE, claim_key, after=UNSEEN_CHECK)

    def _is_tracked(self, claim: Object) -> bool:
        return self._tracks_unbound or phase_of(claim) == "Bound"

    def _is_referenced(self, claim: Object) -> bool:
        return any(refers_to(pod, claim) for pod in self._pods.indexed(CLAIMS, key_of(claim)))

    def _becomes_unused(self, claim: Object) -> bool:
        """Report whether the condition Unused should become True, because no pod in the table refers to the claim."""
        if is_deleting(claim) or not self._is_tracked(claim) or with_unused(claim, used=False, now=0.0) is None:
            return False
        return not self._is_referenced(claim)

    def _write_unused(self, claim: Object, *, used: bool) -> Step[None]:
        changed = with_unused(claim, used=used, now=self._clock.now())
        if changed is not None:
            yield Because(f"claim {key_of(claim)} is {'used by a pod' if used else 'not used by any pod'}")
            yield from must(update(PERSISTENT_VOLUME_CLAIMS, changed, subresource="status"), but=(NotFound,))
            self._log.info("updated condition Unused", claim=key_of(claim), unused=not used)

    def _seems_unused(self, claim: Object) -> bool:
        return is_deletion_candidate(claim, CLAIM_PROTECTION) and not _used(
            claim, self._pods.indexed(CLAIMS, key_of(claim))
        )

    def _unprotect(self, key: Key) -> Step[None]:
        """Remove the finalizer from this claim and from the other claims of its namespace that no pod uses.

        The pods of the namespace are listed once for all of them.
        """
        namespace = split_key(key)[0]
        keys = [key_of(claim) for claim in self._claims.objects(namespace) if self._seems_unused(claim)]
        pods = (yield from must_object(list_live(PODS, namespace))).get("items") or ()
        for claim_key in (key, *(other for other in keys if other != key)):
            claim = self._claims.get(claim_key)
            if claim is None or claim_key not in keys:
                continue
            released = None if _used(claim, pods) else without_finalizer(claim, CLAIM_PROTECTION)
            if released is None:
                yield Because(f"keeps the finalizer of claim {claim_key}: the server has a pod that uses it")
                self._log.info("claim is used by a pod, keeping its finalizer", v=2, claim=claim_key)
                yield Enqueue(QUEUE, claim_key, after=UNSEEN_CHECK)
                continue
            yield Because(f"no pod uses claim {claim_key}: removes its finalizer {CLAIM_PROTECTION}")
            yield from must(update(PERSISTENT_VOLUME_CLAIMS, released), but=(NotFound,))
            self._log.info("removed finalizer, claim is unused", claim=claim_key)


def _used(claim: Object, pods: Iterable[Mapping[str, Any]]) -> bool:
    return any(uses(pod, claim) for pod in pods)


def _with_gate(spec: ControllerSpec, options: Options) -> ControllerSpec:
    """Return the ControllerSpec for these options.

    With the feature gate PersistentVolumeClaimUnusedSinceTime, each change of a pod enqueues its claims.
    """
    if not options.feature_gates[GATE]:
        return spec
    (queue,) = spec.queues
    claims, _ = queue.watches
    return replace(spec, queues=(replace(queue, watches=(claims, Watch(PODS, to=all_claims_of_pod, interest=USE))),))


def _build(context: ControllerContext) -> ClaimProtection:
    tracks = context.options.feature_gates[GATE]
    return ClaimProtection(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        tracks_unused=tracks,
        tracks_unbound=context.options.versions.emulation <= BINARY,
    )


SPEC = ControllerSpec(
    name="persistentvolumeclaim-protection-controller",
    aliases=("pvc-protection",),
    never_blocks=True,
    client="pvc-protection-controller",
    queues=(
        Queue(
            QUEUE,
            watches=(
                Watch(PERSISTENT_VOLUME_CLAIMS, to=itself, interest=SEEN),
                Watch(PODS, to=claims_of_pod, interest=USE),
            ),
            concurrency=1,
            terminal=(),
        ),
    ),
    indexes=(PODS_BY_CLAIM,),
    build=_build,
    adapted=_with_gate,
)
