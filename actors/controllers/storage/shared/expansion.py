"""States of the expansion of a claim's volume, in the status of the claim.

An expansion has two steps: the controller expands the volume (ControllerResizeInProgress), and then, for a volume with
a file system, the kubelet resizes the file system (NodeResizePending, NodeResizeInProgress). status.allocatedResources
contains the size that the present expansion leads to; a user may request another size meanwhile.

The functions return whole objects, for updates of the status with the resourceVersion that was read.

Source: kubernetes v1.36 pkg/volume/util/resize_util.go, pkg/volume/util/operationexecutor/operation_generator.go
(expandAndRecoverFunction).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, annotations_of, metadata
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.times import format_time
from kcm.protocols.volumes import (
    RESIZER,
    capacity_of_claim,
    capacity_of_volume,
    requested_storage,
    resize_status_of,
)

CONTROLLER_IN_PROGRESS, CONTROLLER_INFEASIBLE = "ControllerResizeInProgress", "ControllerResizeInfeasible"
NODE_PENDING, NODE_IN_PROGRESS, NODE_INFEASIBLE = "NodeResizePending", "NodeResizeInProgress", "NodeResizeInfeasible"
RESIZING, FILE_SYSTEM_PENDING = "Resizing", "FileSystemResizePending"
CONTROLLER_ERROR = "ControllerResizeError"
CONDITIONS = frozenset({RESIZING, FILE_SYSTEM_PENDING, CONTROLLER_ERROR, "NodeResizeError"})
RESTART_A_POD = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."


def allocated_storage(claim: Mapping[str, Any]) -> str | None:
    """Return status.allocatedResources[storage], or None."""
    size: str | None = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
    return size


class ExpansionStep(NamedTuple):
    """Next step of an expansion.

    size: the size to expand the volume to; None for no expansion.
    marks_node: record again that the file system must be resized, which the kubelet had found infeasible.
    """

    size: str | None = None
    marks_node: bool = False


def plan_expansion(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> ExpansionStep:
    """Return the next step of the expansion of a claim that requests more than it has."""
    requested, allocated, status = requested_storage(claim), allocated_storage(claim), resize_status_of(claim)
    resumed = ExpansionStep(size=requested if allocated is None else allocated)
    if parse_quantity(capacity_of_volume(volume)) < parse_quantity(requested):
        began = status in (CONTROLLER_IN_PROGRESS, NODE_PENDING, NODE_IN_PROGRESS, NODE_INFEASIBLE)
        return resumed if began else ExpansionStep(size=requested)
    # The volume has been expanded. Either the kubelet has to act, or the writes that record it are incomplete.
    if status in (NODE_PENDING, NODE_IN_PROGRESS):
        return ExpansionStep()
    if status == NODE_INFEASIBLE:
        return ExpansionStep(marks_node=True)
    return resumed if status in ("", CONTROLLER_IN_PROGRESS, CONTROLLER_INFEASIBLE) else ExpansionStep(size=requested)


def is_node_expanded(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    """Report whether the claim has the capacity that it requests and that its volume has."""
    size = parse_quantity(capacity_of_claim(claim))
    return size >= parse_quantity(requested_storage(claim)) and size >= parse_quantity(capacity_of_volume(volume))


def with_resizer(claim: Mapping[str, Any], resizer: str) -> Object | None:
    """Return a copy of the claim with the annotation that names its resizer; None if it has it already."""
    if annotations_of(claim).get(RESIZER) == resizer:
        return None
    meta = {**metadata(claim), "annotations": {**annotations_of(claim), RESIZER: resizer}}
    return {**claim, "metadata": meta}


def in_progress(claim: Mapping[str, Any], *, resizer: str, size: str | None, now: float) -> Object:
    """Return a copy of the claim while its volume is expanded.

    size: the new size; None to record neither the size nor the step (without RecoverVolumeExpansionFailure).
    now: Unix seconds.
    """
    changed = with_resizer(claim, resizer) or claim
    status = _with_conditions(changed.get("status") or {}, [_condition(RESIZING, now)], keeps_others=False)
    if size is not None:
        status = _with_step(status, CONTROLLER_IN_PROGRESS)
        status["allocatedResources"] = {**(status.get("allocatedResources") or {}), "storage": size}
    return {**changed, "status": status}


def infeasible(claim: Mapping[str, Any], error: str, *, now: float) -> Object:
    """Return a copy of the claim whose volume cannot be expanded to the allocated size.

    Source: external-resizer, markControllerExpansionInfeasible.
    """
    failed = _condition(CONTROLLER_ERROR, now, f"failed to expand pvc with {error}")
    status = _with_conditions(claim.get("status") or {}, [failed], keeps_others=True)
    return {**claim, "status": _with_step(status, CONTROLLER_INFEASIBLE)}


def node_pending(claim: Mapping[str, Any], *, records_step: bool = True, now: float) -> Object:
    """Return a copy of the claim whose file system must be resized by the kubelet.

    records_step: False without RecoverVolumeExpansionFailure.
    """
    pending = _condition(FILE_SYSTEM_PENDING, now, RESTART_A_POD)
    status = _with_conditions(claim.get("status") or {}, [pending], keeps_others=True)
    return {**claim, "status": _with_step(status, NODE_PENDING) if records_step else status}


def node_in_progress(claim: Mapping[str, Any]) -> Object:
    """Return a copy of the claim while the kubelet resizes its file system."""
    return {**claim, "status": _with_step(claim.get("status") or {}, NODE_IN_PROGRESS)}


def finished(claim: Mapping[str, Any], size: str) -> Object:
    """Return a copy of the claim with its new capacity, and without the traces of the expansion."""
    status = _with_conditions(claim.get("status") or {}, (), keeps_others=False)
    status["capacity"] = {**(status.get("capacity") or {}), "storage": size}
    steps = {name: step for name, step in (status.get("allocatedResourceStatuses") or {}).items() if name != "storage"}
    status.pop("allocatedResourceStatuses", None)
    if steps:
        status["allocatedResourceStatuses"] = steps
    return {**claim, "status": status}


def _with_step(status: Mapping[str, Any], step: str) -> Object:
    return {
        **status,
        "allocatedResourceStatuses": {**(status.get("allocatedResourceStatuses") or {}), "storage": step},
    }


def _condition(type_: str, now: float, message: str = "") -> Object:
    condition: Object = {"type": type_, "status": "True", "lastTransitionTime": format_time(now)}
    return {**condition, "message": message} if message else condition


def _with_conditions(status: Mapping[str, Any], new: Iterable[Object], *, keeps_others: bool) -> Object:
    """Return a copy of the status with these conditions. Existing conditions that are True already are kept.

    keeps_others: whether other conditions of an expansion are kept. Conditions of other kinds always are.
    Source: MergeResizeConditionOnPVC.
    """
    wanted = {condition["type"]: condition for condition in new}
    before = status.get("conditions") or ()
    merged: list[Mapping[str, Any]] = []
    for condition in before:
        type_ = condition.get("type")
        if type_ in wanted:
            merged.append(condition if condition.get("status") == wanted[type_]["status"] else wanted[type_])
        elif keeps_others or type_ not in CONDITIONS:
            merged.append(condition)
    merged += [condition for type_, condition in wanted.items() if find_condition(before, type_) is None]
    changed = {name: value for name, value in status.items() if name != "conditions"}
    return {**changed, "conditions": merged} if merged else changed
