"""persistentvolumeclaim-protection-controller: a claim that pods use is not gone before they are.

In: claims, pods. Out: the finalizer kubernetes.io/pvc-protection of claims, which each has that is not being deleted,
and which is taken from one that is, once no pod with a node uses it. A pod counts until it is deleted, though it has
ended. Key: "namespace/name" of a claim.

A table may be late: before a finalizer is taken away, the pods of the namespace are listed. What one list shows serves
all claims of the namespace that are being deleted.

Source: kubernetes v1.36 pkg/controller/volume/pvcprotection/pvc_protection_controller.go. Differences: claims of one
namespace share a list whenever one of them needs it, there as they happen to be in the queue together. The condition
Unused, behind the alpha gate PersistentVolumeClaimUnusedSinceTime, is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from actors.controllers.storage.shared.pods_by_claim import CLAIMS, PODS_BY_CLAIM
from actors.controllers.storage.shared.protecting import may_go, protected, unprotected
from actors.reconciliation import (
    Change,
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
from actors.reconciliation.specs import ControllerSpec, Queue
from protocols.messages.outcomes import NotFound
from protocols.messages.watching import EventType
from protocols.objects import Key, Object, controller_of, is_deleting, key_of, metadata, split_key, uid_of
from protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from protocols.volumes import CLAIM_PROTECTION, claim_keys, claims_of, is_pod_ended
from runtime.tables.overlay import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SEEN = Interest(types=(EventType.ADDED, EventType.MODIFIED))


def claims_of_pod(change: Change, _tables: Tables) -> Iterator[Key]:
    """Its claims, where it may have stopped using them. Another pod of its name has taken its place, or it is gone,
    has ended, or has no node.
    """
    old, new = change.old, change.new
    if old is not None and uid_of(old) != uid_of(new):
        yield from claim_keys(old)
    if change.deleted or is_pod_ended(new) or not new["spec"].get("nodeName"):
        yield from claim_keys(new)


def uses(pod: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Whether a pod may have the claim's volume in use."""
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
    def __init__(self, *, tables: Tables, log: FilteringBoundLogger) -> None:
        self._claims, self._pods, self._log = tables[PERSISTENT_VOLUME_CLAIMS], tables[PODS], log

    def reconcile(self, key: Key) -> Reconciliation:
        claim = self._claims.get(key)
        if claim is None:
            return None
        wanting = protected(claim, CLAIM_PROTECTION)
        if wanting is not None:
            yield from must(update(PERSISTENT_VOLUME_CLAIMS, wanting), but=(NotFound,))
        elif self._seems_free(claim):
            yield from self._free(key)
        return None

    def _seems_free(self, claim: Object) -> bool:
        return may_go(claim, CLAIM_PROTECTION) and not _used(claim, self._pods.indexed(CLAIMS, key_of(claim)))

    def _free(self, key: Key) -> Step[None]:
        """Let go of this claim, and of those of its namespace for which the same list of pods serves."""
        namespace = split_key(key)[0]
        keys = [key_of(one) for one in self._claims.objects(namespace) if self._seems_free(one)]
        pods = (yield from must_object(list_live(PODS, namespace))).get("items") or ()
        for each in (key, *(one for one in keys if one != key)):
            claim = self._claims.get(each)
            if claim is None or each not in keys:
                continue
            freed = None if _used(claim, pods) else unprotected(claim, CLAIM_PROTECTION)
            if freed is None:
                self._log.info("claim is used by a pod, keeping its finalizer", v=2, claim=each)
                continue
            yield from must(update(PERSISTENT_VOLUME_CLAIMS, freed), but=(NotFound,))
            self._log.info("removed finalizer, claim is unused", claim=each)


def _used(claim: Object, pods: Iterable[Mapping[str, Any]]) -> bool:
    return any(uses(pod, claim) for pod in pods)


SPEC = ControllerSpec(
    name="persistentvolumeclaim-protection-controller",
    aliases=("pvc-protection",),
    never_blocks=True,
    client="pvc-protection-controller",
    queues=(
        Queue(
            "pvcprotection",
            watches=(
                Watch(PERSISTENT_VOLUME_CLAIMS, to=itself, interest=SEEN),
                Watch(PODS, to=claims_of_pod, interest=Interest(changed=("phase", "deleting", "node"))),
            ),
            concurrency=1,
            terminal=(),
        ),
    ),
    indexes=(PODS_BY_CLAIM,),
    build=lambda context: ClaimProtection(tables=context.tables, log=context.log),
)
