"""Deletion of an object: immediately, after its grace period, or when its last finalizer is removed.

Source: apiserver pkg/registry/rest/delete.go (BeforeDelete), pkg/registry/generic/registry/store.go (Delete; v1.36).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from kcm.protocols.objects import Key, Object, decode_object
from kcm.protocols.times import format_time, parse_time
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import GarbageCollectionPolicy

ORPHAN, FOREGROUND, BACKGROUND = "Orphan", "Foreground", "Background"
ORPHAN_FINALIZER, FOREGROUND_FINALIZER = "orphan", "foregroundDeletion"
LATEST = parse_time("9999-12-31T23:59:59Z")  # latest deletionTimestamp; a grace period that ends later is shortened


class DeleteOptions(Struct, frozen=True, kw_only=True):
    """Options of a deletion, from metav1.DeleteOptions."""

    grace: int | None = None  # seconds; None: the object's own
    uid: str | None = None  # precondition; None: any
    resource_version: str | None = None  # precondition; None: any
    propagation: str | None = None  # ORPHAN, FOREGROUND or BACKGROUND; None: by the finalizers or the kind
    dry_run: bool = False


def store(cluster: Cluster, definition: ResourceDefinition, key: Key, obj: Object) -> bytes:
    """Store an updated object, or remove it if the update completes its deletion. Returns its JSON in either case."""
    if is_deletion_complete(definition, obj):
        return cluster.state.remove(definition.storage, key, obj)
    return cluster.state.put(definition.storage, key, obj)


def is_deletion_complete(definition: ResourceDefinition, obj: Object) -> bool:
    """Report whether the deletion of an object is complete.

    Then it has a deletionTimestamp, no grace period and no finalizers, and its Strategy does not delay the removal.
    """
    meta = obj["metadata"]
    deleting = "deletionTimestamp" in meta and not meta.get("deletionGracePeriodSeconds")
    return deleting and not meta.get("finalizers") and not definition.strategy.held(obj)


def admit_all(_obj: Object) -> None:
    """Admit every deletion."""


def delete_object(
    cluster: Cluster,
    definition: ResourceDefinition,
    key: Key,
    options: DeleteOptions,
    admit: Callable[[Object], None] = admit_all,
) -> tuple[Object, bool]:
    """Delete an object, or mark it for deletion. Returns (object, whether it was removed). Raises StatusError.

    admit: called with the object, which it must not change; raises StatusError to reject the deletion.
    """
    record = cluster.record(definition, key)
    obj = decode_object(record.raw)
    meta, strategy = obj["metadata"], definition.strategy
    check_preconditions(definition, obj, options)
    admit(obj)
    if strategy.finalizer_on_delete and "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = cluster.timestamp()
        meta["finalizers"] = [*(meta.get("finalizers") or []), strategy.finalizer_on_delete]
        if not options.dry_run:
            cluster.state.put(definition.storage, key, obj)
        return obj, False
    finalizers = _finalizers(definition, meta.get("finalizers") or [], options.propagation)
    if strategy.grace_period is not None or finalizers or strategy.held(obj):
        grace = _settle_grace(cluster, definition, obj, options)
    else:
        grace = 0  # the deletionTimestamp would never be visible
    if grace is None:
        return obj, False
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    if grace == 0 and not finalizers and not strategy.held(obj):
        if not options.dry_run:
            if strategy.grace_period is not None:
                # As upstream, the deletion is an update and a removal, so watches receive both events.
                cluster.state.put(definition.storage, key, obj)
            cluster.state.remove(definition.storage, key, obj)
        return obj, True
    if strategy.held(obj):
        strategy.terminate(obj)
        meta.pop("deletionGracePeriodSeconds", None)
    if obj != decode_object(record.raw) and not options.dry_run:
        cluster.state.put(definition.storage, key, obj)
    return obj, False


def _settle_grace(cluster: Cluster, definition: ResourceDefinition, obj: Object, options: DeleteOptions) -> int | None:
    """Set the deletionTimestamp and grace period of an object in place. Returns the grace period in seconds.

    Returns None if an earlier deletion remains in effect, because no shorter grace period is requested.
    """
    meta, strategy = obj["metadata"], definition.strategy
    requested = None if options.grace is None else (1 if options.grace < 0 else options.grace)
    now = cluster.clock.now()
    if "deletionTimestamp" not in meta:
        grace = 0 if strategy.grace_period is None else strategy.grace_period(obj, requested)
        meta["deletionTimestamp"] = format_time(min(now + grace, LATEST))
        meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation"):
            meta["generation"] += 1
        return grace
    running = meta.get("deletionGracePeriodSeconds") or 0
    if running == 0 or strategy.grace_period is None:
        return 0
    if requested is None or requested >= running:
        return None
    deadline = parse_time(meta["deletionTimestamp"])
    shortened = (now if deadline >= LATEST else deadline - running) + requested
    if shortened < now:
        shortened = now
        # The kubelet still has to stop the pod, so only a request for grace period 0 removes it immediately.
        requested = 1 if requested else 0
    meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = format_time(min(shortened, LATEST)), requested
    return requested


def _finalizers(definition: ResourceDefinition, finalizers: list[str], propagation: str | None) -> list[str]:
    """Return the finalizers of an object after a deletion.

    The propagation policy determines whether they include "orphan" or "foregroundDeletion" of the garbage collector.
    """
    policy = definition.strategy.default_garbage_collection_policy
    if policy is GarbageCollectionPolicy.UNSUPPORTED:
        return finalizers
    collector_finalizers = (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)
    kept = [name for name in finalizers if name not in collector_finalizers]
    if propagation is None and (present := [name for name in finalizers if name in collector_finalizers]):
        return kept + present[:1]
    if propagation == ORPHAN or (propagation is None and policy is GarbageCollectionPolicy.ORPHAN_DEPENDENTS):
        return [*kept, ORPHAN_FINALIZER]
    if propagation == FOREGROUND:
        return [*kept, FOREGROUND_FINALIZER]
    return kept


def check_preconditions(definition: ResourceDefinition, obj: Object, options: DeleteOptions) -> None:
    """Raise StatusError (409) if the object does not meet the preconditions in the options."""
    meta = obj["metadata"]
    if options.uid is not None and options.uid != meta["uid"]:
        raise status_errors.conflict(
            definition.group,
            definition.kind,
            meta["name"],
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated",
        )
    version = meta["resourceVersion"]
    if options.resource_version is not None and options.resource_version != version:
        raise status_errors.conflict(
            definition.group,
            definition.kind,
            meta["name"],
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({version}). The object might have been modified",
        )
