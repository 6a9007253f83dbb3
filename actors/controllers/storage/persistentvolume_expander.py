"""PersistentVolume expander: starts the expansion of volumes whose claims request more storage.

Input: claims; volumes are read from the API server. Output: events on claims, and the annotation that names the CSI
driver which replaced the in-tree plugin of a volume. An external resizer expands volumes of CSI drivers. Only for
FlexVolumes, which the kubelet expands, this controller sets the new size of the volume and the steps in the claim's
status. Key: "namespace/name" of a bound claim.

Source: kubernetes v1.36 pkg/controller/volume/expand/expand_controller.go, pkg/volume/util/operationexecutor/
operation_generator.go, pkg/volume/noop_expandable_plugin.go. Differences:
- A claim that was deleted is not enqueued; upstream enqueues it and does nothing.
- The annotation of the driver is not written again if the claim has it already.
- Claims are written by updates of their status, upstream by patches with the resourceVersion.
- The patch of a volume has its uid as precondition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.shared.server_texts import client_go_message
from kcm.actors.controllers.storage.persistentvolume_binder.metrics import STORAGE_OPERATION
from kcm.actors.controllers.storage.persistentvolume_binder.migration import DRIVERS, migrated_plugin
from kcm.actors.controllers.storage.persistentvolume_binder.spec import CLAIM_FACTS
from kcm.actors.controllers.storage.shared.expansion import (
    finished,
    in_progress,
    is_node_expanded,
    node_pending,
    plan_expansion,
    with_resizer,
)
from kcm.actors.reconciliation import (
    Because,
    Change,
    CommandError,
    Interest,
    Reconciliation,
    Step,
    Watch,
    get_live,
    must_object,
    patch,
    record,
    step,
    update,
)
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.events import Record, RecordType
from kcm.protocols.messages.outcomes import Refused
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, annotations_of, key_of, name_of, namespace_of, uid_of
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kcm.protocols.volumes import (
    PRE_RESIZE_CAPACITY,
    capacity_of_claim,
    capacity_of_volume,
    mode_of,
    phase_of,
    requested_storage,
    volume_name_of,
)
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE = "volume_expand"  # also the source of events
GATE = "RecoverVolumeExpansionFailure"  # can only be disabled for an earlier emulated version
WORKERS = 10
EXTERNAL = "ExternalExpanding"


class UnboundVolumeError(Exception):
    """Raised if the volume of a bound claim does not refer to the claim."""

    def __init__(self, claim: Key) -> None:
        super().__init__(f"persistent Volume is not bound to PVC being updated : {claim}")


class ExpansionError(Exception):
    """Raised if a write of an expansion failed. Its text is the message of the event on the claim."""


def may_expand(change: Change, _tables: Tables) -> Iterable[Key]:
    """Enqueue a bound claim that is new, requests more storage, or has got more capacity.

    In the last case the kubelet has resized the file system, and the annotation of the volume can be removed.
    """
    new, old = change.new, change.old
    if phase_of(new) != "Bound":
        return ()
    if old is None or uid_of(old) != uid_of(new):
        return (change.key,)
    grew = any(parse_quantity(size(new)) > parse_quantity(size(old)) for size in (requested_storage, capacity_of_claim))
    return (change.key,) if grew else ()


def is_bound_to(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    reference = (volume.get("spec") or {}).get("claimRef") or {}
    return (reference.get("namespace"), reference.get("uid")) == (namespace_of(claim), uid_of(claim))


class VolumeExpander:
    """Reconciler of expansions. Key: "namespace/name" of the claim."""

    def __init__(
        self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, metrics: Metrics, recovers: bool = True
    ) -> None:
        """Create the reconciler. recovers: whether the feature gate RecoverVolumeExpansionFailure is enabled."""
        self._claims, self._clock, self._log, self._metrics = tables[PERSISTENT_VOLUME_CLAIMS], clock, log, metrics
        self._recovers = recovers

    def reconcile(self, key: Key) -> Reconciliation:
        """Start or continue the expansion of a claim that requests more than it has. Source: syncHandler."""
        claim = self._claims.get(key)
        if claim is None or not volume_name_of(claim):
            return None
        volume = yield from must_object(get_live(PERSISTENT_VOLUMES, volume_name_of(claim)))
        if not is_bound_to(volume, claim):
            raise UnboundVolumeError(key)
        wants_more = parse_quantity(requested_storage(claim)) > parse_quantity(capacity_of_claim(claim))
        if not wants_more and PRE_RESIZE_CAPACITY not in annotations_of(volume):
            return None
        yield Because(
            f"requests {requested_storage(claim)}, has {capacity_of_claim(claim)}: volume {name_of(volume)} has "
            f"{capacity_of_volume(volume)}"
        )
        plugin = migrated_plugin(volume)
        flex = (volume.get("spec") or {}).get("flexVolume")
        if plugin is not None:
            yield from self._leave_to_driver(claim, plugin)
        elif flex is None:
            yield Because("waits for an external controller to expand it")
            yield _event(claim, "Normal", EXTERNAL, "waiting for an external controller to expand this PVC")
            self._log.info("Waiting for an external controller to expand the PVC", pvcKey=key, pvcUID=uid_of(claim))
        elif is_node_expanded(claim, volume) and PRE_RESIZE_CAPACITY in annotations_of(volume):
            yield from must_object(_volume_patch(volume, {"metadata": {"annotations": {PRE_RESIZE_CAPACITY: None}}}))
        else:
            yield from self._expand(claim, volume, flex.get("driver") or "")
        return None

    @step
    def _leave_to_driver(self, claim: Object, plugin: str) -> Step[None]:
        text = f"CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc"
        yield Because(f"waits for the resizer of {DRIVERS[plugin]}, which replaces {plugin}")
        yield _event(claim, "Normal", EXTERNAL, text)
        changed = with_resizer(claim, DRIVERS[plugin])
        if changed is None:
            return
        try:
            yield from must_object(_status_update(changed))
        except CommandError as err:
            if not isinstance(err.failure, Refused):
                why = f"error setting resizer annotation to pvc {key_of(claim)}, with error {_patch_text(claim, err)}"
                yield _event(claim, "Warning", EXTERNAL, why)
            raise

    @step
    def _expand(self, claim: Object, volume: Object, driver: str) -> Step[None]:
        """Expand a FlexVolume, record the duration, and record an event if it failed."""
        begun = self._clock.monotonic()
        try:
            if self._recovers:
                yield from self._expand_and_recover(claim, volume, driver)
            else:
                yield from self._expand_at_once(claim, volume, driver)
        except ExpansionError as err:
            yield _event(claim, "Warning", "VolumeResizeFailed", str(err))
            self._observe(driver, "fail-unknown", since=begun)
            raise
        self._observe(driver, "success", since=begun)

    def _observe(self, driver: str, status: str, *, since: float) -> None:
        series = self._metrics.histogram(STORAGE_OPERATION, driver, "expand_volume", status, "false")
        series.observe(self._clock.monotonic() - since)

    @step
    def _expand_and_recover(self, claim: Object, volume: Object, driver: str) -> Step[None]:
        """Expand a FlexVolume, with each step recorded in the claim's status. Source: expandAndRecoverFunction."""
        plan, key = plan_expansion(claim, volume), key_of(claim)
        if plan.marks_node:
            yield from self._mark_node(claim, volume)
        if plan.size is None:
            return
        changed = in_progress(claim, resizer=driver, size=plan.size, now=self._clock.now())
        claim = yield from _written(changed, claim, f"error updating pvc {key} with resize in progress: ")
        yield from self._set_size(claim, volume, plan.size, f"error updating pv for pvc {key}: ")
        if mode_of(volume) == "Filesystem":
            yield from self._mark_node(claim, volume, why=f"error marking pvc {key} for node expansion: ")
        else:
            yield from self._finish(claim, plan.size, f"error marking pvc {key} as resized: ")

    @step
    def _expand_at_once(self, claim: Object, volume: Object, driver: str) -> Step[None]:
        """Expand a FlexVolume without RecoverVolumeExpansionFailure. Source: GenerateExpandVolumeFunc."""
        key, size = key_of(claim), requested_storage(claim)
        changed = in_progress(claim, resizer=driver, size=None, now=self._clock.now())
        claim = yield from must_object(_status_update(changed))
        if parse_quantity(capacity_of_volume(volume)) < parse_quantity(size):
            why = f'error updating PV spec capacity for volume "{key}" with : '
            yield from self._set_size(claim, volume, size, why)
        if mode_of(volume) == "Filesystem":
            yield from self._mark_node(claim, volume)
        else:
            yield from self._finish(claim, size, f"error marking pvc {key} as resized : ")

    @step
    def _set_size(self, claim: Object, volume: Object, size: str, why: str) -> Step[None]:
        yield from _patched(volume, {"spec": {"capacity": {"storage": size}}}, why)
        self._log.info("volume expanded", volume=name_of(volume), claim=key_of(claim), size=size)

    @step
    def _finish(self, claim: Object, size: str, why: str) -> Step[None]:
        claim = yield from _written(finished(claim, size), claim, why)
        text = f"ExpandVolume succeeded for volume {key_of(claim)}"
        yield _event(claim, "Normal", "VolumeResizeSuccessful", text)

    @step
    def _mark_node(self, claim: Object, volume: Object, why: str = "") -> Step[None]:
        """Record that the file system must be resized on the node. Source: markForPendingNodeExpansion.

        An annotation of the volume records the present size of its file system, in case the claim is deleted first.
        """
        changed = node_pending(claim, records_step=self._recovers, now=self._clock.now())
        failed = f"{why}error marking pvc {key_of(claim)} for node expansion: "
        claim = yield from _written(changed, claim, failed)
        if PRE_RESIZE_CAPACITY not in annotations_of(volume):
            before = capacity_of_claim(claim)
            failed = (
                f"{why}error updating pv {name_of(volume)} annotation ({PRE_RESIZE_CAPACITY}) "
                f"with pre-resize capacity {before}: "
            )
            yield from _patched(volume, {"metadata": {"annotations": {PRE_RESIZE_CAPACITY: before}}}, failed)


def _status_update(claim: Object) -> Command:
    return update(PERSISTENT_VOLUME_CLAIMS, claim, subresource="status")


def _volume_patch(volume: Object, changes: Mapping[str, Any]) -> Command:
    meta = {**(changes.get("metadata") or {}), "uid": uid_of(volume)}
    return patch(PERSISTENT_VOLUMES, name_of(volume), {**changes, "metadata": meta})


@step
def _written(changed: Object, claim: Object, why: str) -> Step[Object]:
    """Update the status of a claim and return the claim. Raises ExpansionError with a text that begins with `why`."""
    if changed == claim:
        return claim
    try:
        return (yield from must_object(_status_update(changed)))
    except CommandError as err:
        if isinstance(err.failure, Refused):
            raise
        raise ExpansionError(why + _patch_text(claim, err)) from err


@step
def _patched(volume: Object, changes: Mapping[str, Any], why: str) -> Step[None]:
    """Patch a volume. Raises ExpansionError with a text that begins with `why`."""
    try:
        yield from must_object(_volume_patch(volume, changes))
    except CommandError as err:
        if isinstance(err.failure, Refused):
            raise
        text = client_go_message(err.failure, f"patch persistentvolumes {name_of(volume)}")
        raise ExpansionError(f'{why}error Patching PV "{name_of(volume)}" with error : {text}') from err


def _patch_text(claim: Object, err: CommandError) -> str:
    text = client_go_message(err.failure, f"patch persistentvolumeclaims {name_of(claim)}")
    return f'patchPVCStatus failed to patch PVC "{name_of(claim)}": {text}'


def _event(claim: Object, type_: RecordType, reason: str, message: str) -> Record:
    return record(PERSISTENT_VOLUME_CLAIMS, claim, type_, reason, message)


def _build(context: ControllerContext) -> VolumeExpander:
    return VolumeExpander(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        metrics=context.metrics,
        recovers=context.options.feature_gates[GATE],
    )


SPEC = ControllerSpec(
    name="persistentvolume-expander-controller",
    aliases=("persistentvolume-expander",),
    never_blocks=True,
    client="expand-controller",
    component=QUEUE,
    queues=(
        Queue(
            QUEUE,
            watches=(
                Watch(
                    PERSISTENT_VOLUME_CLAIMS,
                    to=may_expand,
                    interest=Interest(
                        types=(EventType.ADDED, EventType.MODIFIED),
                        changed=("requested", "capacity"),
                        having=(("phase", ("Bound",)),),
                    ),
                ),
            ),
            concurrency=WORKERS,
            terminal=(),
        ),
    ),
    facts=(CLAIM_FACTS,),
    build=_build,
)
