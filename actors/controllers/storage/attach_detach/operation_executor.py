"""Executor of attach and detach operations: creates or deletes a VolumeAttachment and waits for the external attacher.

Source: kubernetes v1.36 pkg/volume/util/operationexecutor/operation_generator.go, pkg/volume/csi/csi_attacher.go.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.storage.attach_detach.decisions import (
    NOT_ATTACHABLE,
    AttachmentProgress,
    attach_progress,
    attachment_of,
    detach_progress,
    new_attachment,
    volume_text,
)
from kcm.actors.controllers.storage.attach_detach.metrics import VolumeMetrics
from kcm.actors.controllers.storage.attach_detach.state import (
    ActualState,
    Operation,
    OperationKind,
    Operations,
    PodReference,
)
from kcm.actors.controllers.storage.attach_detach.volume_specs import CSI, is_attachable, source_of
from kcm.actors.reconciliation import Enqueue, Step, create, delete, get_live, perform, record
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound, Refused
from kcm.protocols.objects import decode_object
from kcm.protocols.resources import NODES, PODS, VOLUME_ATTACHMENTS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NODE_QUEUE = "attachable_nodes"  # keys: nodes whose status is patched
OPERATION_TIMEOUT = 120.0  # seconds for the external attacher


def pod_event(pod: PodReference, type: Any, reason: str, message: str) -> Record:
    return record(PODS, pod.about, type, reason, message)


class OperationExecutor:
    """Executor of the operations on volumes. It records their results in the actual state."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: VolumeMetrics,
        actual: ActualState,
        operations: Operations,
    ) -> None:
        self._tables, self._clock, self._log, self._metrics = tables, clock, log, metrics
        self._attachments = tables[VOLUME_ATTACHMENTS]
        self._actual, self._operations = actual, operations
        self._pending: dict[str, str] = {}  # volume with a pending operation, by name of its VolumeAttachment

    def begin(self, volume: str, operation: Operation) -> None:
        """Record an operation as pending."""
        self._operations.begin(volume, operation)
        attachment = attachment_of(volume, operation.node)
        if attachment is not None:
            self._pending[attachment] = volume

    def advance(self, volume: str, operation: Operation) -> Step[float]:
        """Continue a pending operation until it ends or has to wait for the external attacher.

        Returns the seconds until the volume is reconciled again, infinite without a limit.
        """
        if operation.kind is OperationKind.ATTACH:
            progress = yield from self._advance_attach(volume, operation)
        else:
            progress = yield from self._advance_detach(volume, operation)
        now = self._clock.monotonic()
        if not progress.done and not progress.error:
            left = OPERATION_TIMEOUT if operation.sent is None else operation.sent + OPERATION_TIMEOUT - now
            if left > 0:
                return left
            driver = (
                operation.spec.driver
                if operation.spec is not None and operation.kind is OperationKind.ATTACH
                else "unknown"
            )
            verb = "attach" if operation.kind is OperationKind.ATTACH else "detach"
            handle = (source_of(volume) or ("", ""))[1]
            progress = AttachmentProgress(
                error=f"timed out waiting for external-attacher of {driver} CSI driver to {verb} volume {handle}"
            )
        attachment = attachment_of(volume, operation.node)
        if attachment is not None:
            self._pending.pop(attachment, None)
        self._metrics.observe_operation(volume, operation, succeeded=not progress.error, now=now)
        if operation.kind is OperationKind.ATTACH:
            return (yield from self._end_attach(volume, operation, progress.error, now))
        return (yield from self._end_detach(volume, operation, progress.error, now))

    def volume_of(self, attachment: str) -> str | None:
        """Return the volume of the pending operation on a VolumeAttachment; None if no operation is pending."""
        return self._pending.get(attachment)

    def _advance_attach(self, volume: str, operation: Operation) -> Step[AttachmentProgress]:
        """Create the VolumeAttachment if it does not exist. Source: csiAttacher.Attach."""
        spec = operation.spec
        assert spec is not None
        name = attachment_of(volume, operation.node)
        if name is None:
            return AttachmentProgress(done=True)  # in-tree plugins attach nothing
        if operation.sent is None:
            if not is_attachable(self._tables, spec):
                return AttachmentProgress(error=NOT_ATTACHABLE)
            if self._attachments.entry(name) is None:
                outcome = yield from perform(create(VOLUME_ATTACHMENTS, new_attachment(name, operation.node, spec)))
                if isinstance(outcome, Refused):
                    raise CommandError(create(VOLUME_ATTACHMENTS, new_attachment(name, operation.node, spec)), outcome)
                if not isinstance(outcome, Done | AlreadyExists):
                    return AttachmentProgress(error=f"{CSI}: attacher.Attach failed: {outcome.message}")
            operation.sent = self._clock.monotonic()
        return attach_progress(self._attachments.get(name))

    def _end_attach(self, volume: str, operation: Operation, error: str, now: float) -> Step[float]:
        """Record the result of an attachment, with events on the pods. Source: GenerateAttachVolumeFunc."""
        spec, node = operation.spec, operation.node
        if not error:
            self._operations.succeeded(volume, operation)
            self._actual.attach(volume, node, spec=spec, confirmed=True)
            for pod in operation.pods:
                text = volume_text("AttachVolume.Attach succeeded", spec)
                yield pod_event(pod, "Normal", "SuccessfulAttachVolume", text)
            self._log.info("AttachVolume.Attach succeeded", volume=volume, node=node)
            yield Enqueue(NODE_QUEUE, node)
            return math.inf
        if error == NOT_ATTACHABLE:
            text = volume_text("AttachVolume.FindAttachablePluginBySpec failed", spec)
        else:
            self._actual.attach(volume, node, spec=spec, confirmed=False)
            text = volume_text("AttachVolume.Attach failed", spec, f": {error}")
        delay = self._operations.fail(operation, now)
        for pod in operation.pods:
            yield pod_event(pod, "Warning", "FailedAttachVolume", text)
        self._log.error("AttachVolume.Attach failed", volume=volume, node=node, error=error, retry_after=delay)
        return delay

    def _advance_detach(self, volume: str, operation: Operation) -> Step[AttachmentProgress]:
        """Check that the node does not use the volume, and delete the VolumeAttachment. Source: csiAttacher.Detach."""
        name = attachment_of(volume, operation.node)
        if operation.sent is None:
            if operation.verify:
                error = yield from self._verify(volume, operation.node)
                if error:
                    return AttachmentProgress(error=error)
            if name is None:
                return AttachmentProgress(done=True)
            which = self._attachments.entry(name) or name
            outcome = yield from perform(delete(VOLUME_ATTACHMENTS, which, depends_on=((NODES, operation.node),)))
            if isinstance(outcome, NotFound):
                return AttachmentProgress(done=True)
            if isinstance(outcome, Refused):
                raise CommandError(delete(VOLUME_ATTACHMENTS, name), outcome)
            if not isinstance(outcome, Done):
                text = f"detacher.Detach failed to delete VolumeAttachment [{name}]: {outcome.message}"
                return AttachmentProgress(error=f"{CSI}: {text}")
            operation.sent = self._clock.monotonic()
        return AttachmentProgress(done=True) if name is None else detach_progress(self._attachments.get(name))

    def _verify(self, volume: str, node: str) -> Step[str]:
        """Return why a volume must not be detached now, or "". Source: verifyVolumeIsSafeToDetach."""
        outcome = yield from perform(get_live(NODES, node))
        if isinstance(outcome, NotFound):
            return ""
        if not isinstance(outcome, Done):
            return f"DetachVolume failed fetching node from API server: {outcome.message}"
        in_use = (decode_object(outcome.body).get("status") or {}).get("volumesInUse") or ()
        return "volume is still in use by node, according to Node status" if volume in in_use else ""

    def _end_detach(self, volume: str, operation: Operation, error: str, now: float) -> Step[float]:
        """Record the result of a detachment. Source: GenerateDetachVolumeFunc."""
        node = operation.node
        if error:
            self._actual.attach(volume, node, spec=operation.spec, confirmed=False)
            delay = self._operations.fail(operation, now)
            self._log.error("DetachVolume.Detach failed", volume=volume, node=node, error=error, retry_after=delay)
            return delay
        self._operations.succeeded(volume, operation)
        self._actual.detach(volume, node)
        self._log.info("DetachVolume.Detach succeeded", volume=volume, node=node)
        yield from ()
        return math.inf
