"""Tests of the expansion of volumes.

Source of the cases: kubernetes v1.36 pkg/controller/volume/expand/expand_controller_test.go, pkg/volume/util/
operationexecutor/operation_generator_test.go (TestOperationGenerator_GenerateExpandAndRecoverVolumeFunc),
pkg/volume/util/resize_util_test.go.
"""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import CapturingLogger

from kcm.actors.controllers.storage.persistentvolume_binder.metrics import STORAGE_OPERATION
from kcm.actors.controllers.storage.persistentvolume_expander import (
    SPEC,
    ExpansionError,
    UnboundVolumeError,
    VolumeExpander,
    may_expand,
)
from kcm.actors.controllers.storage.shared.expansion import ExpansionStep, finished, node_pending, plan_expansion
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import NOW, Bench, Driven, drive, failing
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Get, Patch, Update
from kcm.protocols.messages.outcomes import Conflict, Refused
from kcm.protocols.objects import Object, annotations_of, encode_object
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kcm.protocols.times import format_time
from kcm.runtime.metrics.registry import Metrics

KEY = "default/claim"
PRE_RESIZE = "volume.alpha.kubernetes.io/pre-resize-capacity"
RESIZER = "volume.kubernetes.io/storage-resizer"
EBS = {"awsElasticBlockStore": {"volumeID": "v"}}
CSI = {"csi": {"driver": "com.csi.ceph", "volumeHandle": "v"}}
FLEX = {"flexVolume": {"driver": "example.com/flex"}}
MARKING = f"error marking pvc {KEY} for node expansion: "
PATCHING = 'error Patching PV "v" with error : '
MOVED = "the object has been modified"


def claim(size: str = "2Gi", has: str = "1Gi", *, uid: str = "claim", volume: str = "v", **status: Any) -> Object:
    return {
        "metadata": {"name": "claim", "namespace": "default", "uid": uid},
        "spec": {"volumeName": volume, "resources": {"requests": {"storage": size}}},
        "status": {"phase": "Bound", "capacity": {"storage": has}, **status},
    }


def steps(status: str = "", allocated: str = "") -> Object:
    """Return the fields of the status of a claim that record its expansion."""
    found: Object = {}
    if status:
        found["allocatedResourceStatuses"] = {"storage": status}
    if allocated:
        found["allocatedResources"] = {"storage": allocated}
    return found


def volume(source: Object, size: str = "1Gi", *, uid: str = "claim", before: str = "", mode: str = "") -> Object:
    meta: Object = {"name": "v", "uid": "v"}
    if before:
        meta["annotations"] = {PRE_RESIZE: before}
    spec = {**source, "claimRef": {"namespace": "default", "name": "claim", "uid": uid}, "capacity": {"storage": size}}
    return {"metadata": meta, "spec": {**spec, **({"volumeMode": mode} if mode else {})}}


class Scene:
    """Bench with one claim and its volume."""

    def __init__(self, of: Object, volume: Object | None, *, recovers: bool = True) -> None:
        volumes = [] if volume is None else [volume]
        self.bench = Bench({PERSISTENT_VOLUME_CLAIMS: [of], PERSISTENT_VOLUMES: volumes}, facts=SPEC.facts)
        self.metrics = Metrics()
        self._reconciler = VolumeExpander(
            tables=self.bench.tables,
            clock=self.bench.clock,
            log=CapturingLogger(),  # type: ignore[arg-type]
            metrics=self.metrics,
            recovers=recovers,
        )

    def reconcile(self, answer: Any = None, raises: type[Exception] | None = None) -> Driven:
        answer = self.bench.accept if answer is None else answer
        return drive(self._reconciler, KEY, answer, tables=self.bench.tables, raises=raises)

    @property
    def claim(self) -> Object:
        found = self.bench.tables[PERSISTENT_VOLUME_CLAIMS].get(KEY)
        assert found is not None
        return found

    @property
    def volume(self) -> Object:
        found = self.bench.tables[PERSISTENT_VOLUMES].get("v")
        assert found is not None
        return found

    def operations(self, status: str) -> int:
        labels = ("example.com/flex", "expand_volume", status, "false")
        return sum(self.metrics.histogram(STORAGE_OPERATION, *labels).counts)


WAITING = ("Normal", "ExternalExpanding", "waiting for an external controller to expand this PVC")
MIGRATED = (
    "Normal",
    "ExternalExpanding",
    "CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc",
)


@pytest.mark.parametrize(
    ("claimed", "disk", "events", "resizer"),
    [
        (claim(), volume(EBS), [MIGRATED], "ebs.csi.aws.com"),
        (
            claim(),
            volume({"azureFile": {"shareName": "s"}}),
            [(*MIGRATED[:2], MIGRATED[2].replace("aws-ebs", "azure-file"))],
            "file.csi.azure.com",
        ),
        (claim(), volume(CSI), [WAITING], None),
        (claim(), volume({"nfs": {"server": "s", "path": "/"}}), [WAITING], None),
        (claim("1Gi"), volume(CSI), [], None),
        (claim("1Gi"), volume(EBS), [], None),
        (claim("1Gi", "2Gi"), volume(FLEX), [], None),
        # As long as the volume has the annotation, the expansion is not complete.
        (claim("2Gi", "2Gi"), volume(EBS, "2Gi", before="1Gi"), [MIGRATED], "ebs.csi.aws.com"),
        (claim("2Gi", "2Gi"), volume(CSI, "2Gi", before="1Gi"), [WAITING], None),
    ],
)
def test_volumes_of_other_drivers_are_left_to_an_external_resizer(
    claimed: Object, disk: Object, events: list[tuple[str, str, str]], resizer: str | None
) -> None:
    scene = Scene(claimed, disk)
    driven = scene.reconcile()
    assert driven.events == events
    assert len(driven.of(Update)) == (resizer is not None)
    assert driven.of(Patch) == []
    assert annotations_of(scene.claim).get(RESIZER) == resizer
    assert scene.reconcile().of(Update) == []  # the annotation is there


def test_failed_annotation_is_an_event_and_retried() -> None:
    scene = Scene(claim(), volume(EBS))
    conflict = failing(after=0, outcome=Conflict(MOVED, b'{"kind":"Status"}'), to=Update, otherwise=scene.bench.accept)
    text = f'error setting resizer annotation to pvc {KEY}, with error patchPVCStatus failed to patch PVC "claim": '
    driven = scene.reconcile(conflict, raises=CommandError)
    assert driven.events == [MIGRATED, ("Warning", "ExternalExpanding", text + MOVED)]


@pytest.mark.parametrize(
    ("disk", "error"),
    [
        (None, CommandError),
        (volume(CSI, uid="another claim"), UnboundVolumeError),
        ({**volume(CSI), "spec": {**CSI, "capacity": {"storage": "1Gi"}}}, UnboundVolumeError),
    ],
)
def test_missing_or_foreign_volume_is_retried(disk: Object | None, error: type[Exception]) -> None:
    assert Scene(claim(), disk).reconcile(raises=error).events == []


def test_nothing_is_written_for_a_deleted_claim() -> None:
    scene = Scene(claim(), volume(CSI))
    scene.bench.hide(PERSISTENT_VOLUME_CLAIMS, KEY)
    assert scene.reconcile().commands == []


# The decision, for a claim that requests 2Gi and has 1Gi.


@pytest.mark.parametrize(
    ("status", "size"),
    [
        (steps(), "2Gi"),
        (steps(allocated="3Gi"), "2Gi"),
        (steps("ControllerResizeInProgress"), "2Gi"),
        (steps("ControllerResizeInProgress", "3Gi"), "3Gi"),
        (steps("NodeResizePending", "3Gi"), "3Gi"),
        (steps("NodeResizeInProgress", "3Gi"), "3Gi"),
        (steps("NodeResizeInfeasible", "3Gi"), "3Gi"),
        (steps("ControllerResizeInfeasible", "3Gi"), "2Gi"),
    ],
)
def test_size_of_a_volume_that_is_too_small(status: Object, size: str) -> None:
    assert plan_expansion(claim(**status), volume(FLEX, "1Gi")) == ExpansionStep(size=size)


@pytest.mark.parametrize(
    ("status", "plan"),
    [
        (steps(), ExpansionStep(size="2Gi")),
        (steps(allocated="3Gi"), ExpansionStep(size="3Gi")),
        (steps("ControllerResizeInProgress"), ExpansionStep(size="2Gi")),
        (steps("ControllerResizeInProgress", "3Gi"), ExpansionStep(size="3Gi")),
        (steps("ControllerResizeInfeasible", "3Gi"), ExpansionStep(size="3Gi")),
        (steps("NodeResizePending", "3Gi"), ExpansionStep()),
        (steps("NodeResizeInProgress", "3Gi"), ExpansionStep()),
        (steps("NodeResizeInfeasible", "3Gi"), ExpansionStep(marks_node=True)),
        (steps("of a later release", "3Gi"), ExpansionStep(size="2Gi")),
    ],
)
@pytest.mark.parametrize("has", ["2Gi", "3Gi"])
def test_next_step_of_a_volume_that_is_large_enough(status: Object, plan: ExpansionStep, has: str) -> None:
    assert plan_expansion(claim(**status), volume(FLEX, has)) == plan


# FlexVolumes.


def test_expansion_of_a_flex_volume_waits_for_the_node() -> None:
    scene = Scene(claim(), volume(FLEX))
    driven = scene.reconcile()
    assert [type(command) for command in driven.commands] == [Get, Update, Patch, Update, Patch]
    assert annotations_of(scene.claim) == {RESIZER: "example.com/flex"}
    status = scene.claim["status"]
    assert status["allocatedResources"] == {"storage": "2Gi"}
    assert status["allocatedResourceStatuses"] == {"storage": "NodeResizePending"}
    assert status["capacity"] == {"storage": "1Gi"}
    message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
    since = {"status": "True", "lastTransitionTime": format_time(NOW)}
    assert list(status["conditions"]) == [
        {"type": "Resizing", **since},
        {"type": "FileSystemResizePending", **since, "message": message},
    ]
    assert scene.volume["spec"]["capacity"] == {"storage": "2Gi"}
    assert annotations_of(scene.volume) == {PRE_RESIZE: "1Gi"}
    assert driven.events == []
    assert scene.operations("success") == 1
    assert [type(command) for command in scene.reconcile().commands] == [Get]  # it is the kubelet's turn


def test_expansion_of_a_block_volume_ends_at_once() -> None:
    scene = Scene(claim(), volume(FLEX, mode="Block"))
    driven = scene.reconcile()
    assert driven.events == [("Normal", "VolumeResizeSuccessful", f"ExpandVolume succeeded for volume {KEY}")]
    status = scene.claim["status"]
    assert status["capacity"] == {"storage": "2Gi"}
    assert "allocatedResourceStatuses" not in status
    assert "conditions" not in status
    assert status["allocatedResources"] == {"storage": "2Gi"}  # as upstream: only its status is removed
    assert annotations_of(scene.volume) == {}


def test_annotation_of_the_volume_is_removed_once_the_node_has_resized_it() -> None:
    scene = Scene(claim("2Gi", "2Gi"), volume(FLEX, "2Gi", before="1Gi"))
    assert [type(command) for command in scene.reconcile().commands] == [Get, Patch]
    assert annotations_of(scene.volume) == {}
    assert [type(command) for command in scene.reconcile().commands] == [Get]


def test_volume_that_the_node_could_not_resize_is_marked_for_the_node_again() -> None:
    scene = Scene(claim(**steps("NodeResizeInfeasible", "2Gi")), volume(FLEX, "2Gi", before="1Gi"))
    assert [type(command) for command in scene.reconcile().commands] == [Get, Update]
    assert scene.claim["status"]["allocatedResourceStatuses"] == {"storage": "NodeResizePending"}


@pytest.mark.parametrize(
    ("after", "to", "text"),
    [
        (0, Update, f'error updating pvc {KEY} with resize in progress: patchPVCStatus failed to patch PVC "claim": '),
        (0, Patch, f"error updating pv for pvc {KEY}: {PATCHING}"),
        (
            1,
            Update,
            f'{MARKING}{MARKING}patchPVCStatus failed to patch PVC "claim": ',
        ),
        (
            1,
            Patch,
            f"{MARKING}error updating pv v annotation ({PRE_RESIZE}) with pre-resize capacity 1Gi: {PATCHING}",
        ),
    ],
)
def test_expansion_continues_after_each_failed_write(after: int, to: type[Command], text: str) -> None:
    scene = Scene(claim(), volume(FLEX))
    outcome = Conflict(MOVED, b'{"kind":"Status"}')
    broken = failing(after=after, outcome=outcome, to=to, otherwise=scene.bench.accept)
    driven = scene.reconcile(broken, raises=ExpansionError)
    assert driven.events == [("Warning", "VolumeResizeFailed", text + MOVED)]
    assert scene.operations("fail-unknown") == 1
    scene.reconcile()
    assert scene.claim["status"]["allocatedResourceStatuses"] == {"storage": "NodeResizePending"}
    assert scene.volume["spec"]["capacity"] == {"storage": "2Gi"}


def test_refused_write_records_no_event() -> None:
    scene = Scene(claim(), volume(FLEX))
    unsent = failing(after=0, outcome=Refused("not the leader"), to=Update, otherwise=scene.bench.accept)
    assert scene.reconcile(unsent, raises=CommandError).events == []


def test_larger_request_during_an_expansion_is_served_after_it() -> None:
    scene = Scene(claim("5Gi", **steps("NodeResizePending", "2Gi")), volume(FLEX, "2Gi", before="1Gi"))
    scene.reconcile()
    assert scene.claim["status"]["allocatedResources"] == {"storage": "2Gi"}
    scene.bench.show(PERSISTENT_VOLUME_CLAIMS, claim("5Gi", "2Gi"))
    scene.bench.forget_writes()
    later = Scene(claim("5Gi", "2Gi", **steps(allocated="2Gi")), volume(FLEX, "2Gi"))
    later.reconcile()
    assert later.claim["status"]["allocatedResources"] == {"storage": "5Gi"}


def test_steps_are_not_recorded_without_the_feature_gate() -> None:
    scene = Scene(claim(), volume(FLEX), recovers=False)
    assert scene.reconcile().events == []
    assert not scene.claim["status"].keys() & {"allocatedResources", "allocatedResourceStatuses"}
    assert [each["type"] for each in scene.claim["status"]["conditions"]] == ["Resizing", "FileSystemResizePending"]
    assert (scene.volume["spec"]["capacity"], annotations_of(scene.volume)) == ({"storage": "2Gi"}, {PRE_RESIZE: "1Gi"})
    block = Scene(claim(), volume(FLEX, mode="Block"), recovers=False)
    assert [reason for _, reason, _ in block.reconcile().events] == ["VolumeResizeSuccessful"]
    assert block.claim["status"]["capacity"] == {"storage": "2Gi"}


# Conditions, and the changes that enqueue a claim.


def condition(type_: str, status: str = "True", since: str = "2026-01-01T00:00:00Z") -> Object:
    return {"type": type_, "status": status, "lastTransitionTime": since}


@pytest.mark.parametrize(
    ("before", "pending", "done"),
    [
        ([], ["FileSystemResizePending"], None),
        (["Resizing"], ["Resizing", "FileSystemResizePending"], None),
        (["other", "NodeResizeError"], ["other", "NodeResizeError", "FileSystemResizePending"], ["other"]),
        (["FileSystemResizePending", "other"], ["FileSystemResizePending", "other"], ["other"]),
        (["ControllerResizeError", "Resizing"], ["ControllerResizeError", "Resizing", "FileSystemResizePending"], None),
    ],
)
def test_conditions_of_an_expansion_are_merged(before: list[str], pending: list[str], done: list[str] | None) -> None:
    obj = claim(conditions=[condition(type_) for type_ in before]) if before else claim()
    waiting = node_pending(obj, now=NOW)["status"]["conditions"]
    assert [each["type"] for each in waiting] == pending
    kept = [each["lastTransitionTime"] for each in waiting if each["type"] in before]
    assert kept == ["2026-01-01T00:00:00Z"] * len(before)
    left = finished(obj, "2Gi")["status"].get("conditions")
    assert left == (None if done is None else [condition(type_) for type_ in done])


def test_condition_with_another_status_is_replaced() -> None:
    obj = claim(conditions=[condition("FileSystemResizePending", "False")])
    (changed,) = node_pending(obj, now=NOW)["status"]["conditions"]
    assert (changed["status"], changed["lastTransitionTime"]) == ("True", format_time(NOW))


def change(new: Object, old: Object | None = None) -> Change:
    previous = b"" if old is None else encode_object(old)
    type_ = "ADDED" if old is None else "MODIFIED"
    return Change(type=type_, key=KEY, raw=encode_object(new), controller=None, previous=previous)


PENDING = {**claim(), "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("seen", "enqueued"),
    [
        (change(claim()), True),
        (change(PENDING), False),
        (change(claim(), PENDING), True),
        (change(claim("2Gi"), claim("1Gi")), True),
        (change(claim("1Gi"), claim("2Gi")), False),
        (change(claim("2Gi", "2Gi"), claim("2Gi", "1Gi")), True),
        (change(claim("2Gi", "2Gi"), claim("2048Mi", "2Gi")), False),
        (change(claim(), claim()), False),
        (change(claim(uid="new"), claim(uid="old")), True),
    ],
)
def test_claim_is_enqueued_when_it_grows(seen: Change, enqueued: bool) -> None:
    assert list(may_expand(seen, {})) == ([KEY] if enqueued else [])
