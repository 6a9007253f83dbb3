"""Hollow resizer: expands the volumes of the hollow provisioner when their claims request more storage.

It is the external resizer of the CSI driver with the provisioner's name. A volume is expanded at once. If it has a file
system, the kubelet of a pod that uses it then resizes the file system (kubelet/expansion.py). Key: "namespace/name" of
a bound claim.

The annotation hollow.kcm.dev/largest-size of a claim ("5Gi") is the largest size that the driver can expand its volume
to: the expansion to a larger size is infeasible, until the user requests less.

Source: kubernetes-csi/external-resizer pkg/controller/{controller,expand_and_recover,resize_status}.go. Differences:
the volume is read from the API server, and an infeasible expansion is not retried until the claim changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.controllers.storage.persistentvolume_binder.spec import CLAIM_FACTS
from kcm.actors.controllers.storage.shared.expansion import (
    finished,
    in_progress,
    infeasible,
    is_node_expanded,
    node_pending,
    plan_expansion,
)
from kcm.actors.hollow.behaviour import DOMAIN
from kcm.actors.hollow.intervals import MANY
from kcm.actors.hollow.provisioner import NAME
from kcm.actors.reconciliation import (
    Because,
    Change,
    Interest,
    Reconciliation,
    Step,
    Watch,
    get_live,
    must,
    must_object,
    patch,
    record,
    step,
    update,
)
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.messages.events import Record, RecordType
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, annotations_of, decode_object, is_deleting, name_of, uid_of
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kcm.protocols.volumes import (
    PRE_RESIZE_CAPACITY,
    capacity_of_claim,
    is_of,
    mode_of,
    phase_of,
    requested_storage,
    resize_status_of,
    volume_name_of,
)
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

LARGEST = f"{DOMAIN}largest-size"


class HollowResizer:
    """Reconciler of the expansions of hollow volumes. Key: "namespace/name" of the claim."""

    def __init__(self, *, tables: Tables, clock: Clock) -> None:
        self._claims, self._clock = tables[PERSISTENT_VOLUME_CLAIMS], clock

    def reconcile(self, key: Key) -> Reconciliation:
        claim = self._claims.get(key)
        if claim is None or not _has_volume(claim) or is_deleting(claim):
            return None
        outcome = yield from must(get_live(PERSISTENT_VOLUMES, volume_name_of(claim)), but=(NotFound,))
        volume = decode_object(outcome.body) if isinstance(outcome, Done) else None
        if volume is None or not _is_ours(volume) or not is_of(volume, claim):
            return None
        if _grows(claim):
            yield from self._expand(claim, volume)
        elif is_node_expanded(claim, volume) and PRE_RESIZE_CAPACITY in annotations_of(volume):
            yield from _patch(volume, annotations={PRE_RESIZE_CAPACITY: None})
        return None

    @step
    def _expand(self, claim: Object, volume: Object) -> Step[None]:
        """Expand the volume. Source: expandAndRecover."""
        plan, now = plan_expansion(claim, volume), self._clock.now()
        if plan.marks_node:
            yield from self._write(node_pending(claim, now=now))
        if plan.size is None:
            yield Because(f"requests {requested_storage(claim)}: {_waits_for(claim)}")
            return
        claim = yield from self._write(in_progress(claim, resizer=NAME, size=plan.size, now=now))
        yield _event(claim, "Normal", "Resizing", f"External resizer is resizing volume {name_of(volume)}")
        why = too_large(claim, plan.size)
        if why:
            yield Because(f"cannot expand volume {name_of(volume)} to {plan.size}, until less is requested: {why}")
            yield from self._write(infeasible(claim, why, now=now))
            text = f'resize volume "{name_of(volume)}" by resizer "{NAME}" failed: {why}'
            yield _event(claim, "Warning", "VolumeResizeFailed", text)
            return
        yield Because(f"expands volume {name_of(volume)} from {capacity_of_claim(claim)} to {plan.size}")
        if mode_of(volume) == "Block":
            yield from _patch(volume, size=plan.size)
            claim = yield from self._write(finished(claim, plan.size))
            yield _event(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")
            return
        before = annotations_of(volume).get(PRE_RESIZE_CAPACITY, capacity_of_claim(claim))
        yield from _patch(volume, size=plan.size, annotations={PRE_RESIZE_CAPACITY: before})
        claim = yield from self._write(node_pending(claim, now=now))
        text = "Require file system resize of volume on node"
        yield _event(claim, "Normal", "FileSystemResizeRequired", text)

    @step
    def _write(self, claim: Object) -> Step[Object]:
        return (yield from must_object(update(PERSISTENT_VOLUME_CLAIMS, claim, subresource="status")))


def _grows(claim: Mapping[str, Any]) -> bool:
    """Report whether a claim requests more storage than it has."""
    return parse_quantity(requested_storage(claim)) > parse_quantity(capacity_of_claim(claim))


def _waits_for(claim: Mapping[str, Any]) -> str:
    status = resize_status_of(claim)
    if status.endswith("Infeasible"):
        return f"its expansion is {status}, until less is requested"
    return "the kubelet of a pod that uses it must expand the file system"


def too_large(claim: Mapping[str, Any], size: str) -> str:
    """Return the error of the driver if the claim's annotation does not allow this size; otherwise ""."""
    largest = annotations_of(claim).get(LARGEST)
    if largest is None:
        return ""
    try:
        limit = parse_quantity(largest)
    except ValueError:
        return ""
    if parse_quantity(size) <= limit:
        return ""
    return f"rpc error: code = OutOfRange desc = {size} requested, at most {largest} available"


def _is_ours(volume: Mapping[str, Any]) -> bool:
    return ((volume.get("spec") or {}).get("csi") or {}).get("driver") == NAME


@step
def _patch(volume: Object, *, size: str = "", annotations: Mapping[str, str | None] | None = None) -> Step[None]:
    body: Object = {"metadata": {"uid": uid_of(volume)}}
    if annotations is not None:
        body["metadata"]["annotations"] = annotations
    if size:
        body["spec"] = {"capacity": {"storage": size}}
    yield from must_object(patch(PERSISTENT_VOLUMES, name_of(volume), body))


def _event(claim: Object, type_: RecordType, reason: str, message: str) -> Record:
    return record(PERSISTENT_VOLUME_CLAIMS, claim, type_, reason, message)


def bound_claim(change: Change, _tables: Tables) -> Iterable[Key]:
    return (change.key,) if _has_volume(change.new) else ()


def _has_volume(claim: Mapping[str, Any]) -> bool:
    """Report whether the binding of a claim is complete: its capacity is written last, with its phase."""
    return phase_of(claim) == "Bound" and bool(volume_name_of(claim))


SPEC = ControllerSpec(
    name="hollow-resizer-controller",
    never_blocks=True,
    client="hollow-resizer",
    component=f"external-resizer {NAME}",
    queues=(
        Queue(
            "hollow-expansions",
            watches=(
                Watch(
                    PERSISTENT_VOLUME_CLAIMS,
                    to=bound_claim,
                    interest=Interest(
                        types=(EventType.ADDED, EventType.MODIFIED),
                        changed=("phase", "volume", "requested", "capacity"),
                    ),
                ),
            ),
            concurrency=MANY,
            terminal=(),
        ),
    ),
    facts=(CLAIM_FACTS,),
    build=lambda context: HollowResizer(tables=context.tables, clock=context.clock),
)
