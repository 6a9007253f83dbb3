"""Tests of the sync of volumes, with upstream's table of cases and their numbers.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/{binder,recycle,delete}_test.go (sets 4, 6, 8, 9, 14).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from kcm.actors.controllers.storage.persistentvolume_binder import provisioning
from kcm.actors.controllers.storage.persistentvolume_binder.provisioning import DeletionError
from kcm.actors.controllers.storage.persistentvolume_binder.recycler_pod import check_templates, read_template
from kcm.actors.options import Options
from kcm.actors.reconciliation import TerminalError
from kcm.protocols.messages.commands import Create, Delete, Get, List
from kcm.protocols.messages.outcomes import AlreadyExists, Forbidden, NotFound, Outcome
from kcm.protocols.objects import Object, finalizers_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.runtime.tables.lister import UnreadableError
from tests.actors.controllers.storage.persistentvolume_binder.scene import (
    BOTH,
    BY_US,
    HOST_PATH,
    Scene,
    answering,
    claim,
    pod,
    shown_volume,
    volume,
)

PROVISIONED = {"pv.kubernetes.io/provisioned-by": HOST_PATH}
EXTERNAL = {"pv.kubernetes.io/provisioned-by": "example.com/disk"}
MIGRATED = {"pv.kubernetes.io/migrated-to": "pd.csi.storage.gke.io"}
BLOCK = {"volumeMode": "Block"}
NO_PLUGIN = 'error getting deleter volume plugin for volume "v": no volume plugin matched'


def used(**more: object) -> Object:
    """Return a volume that is bound to the claim with the uid "uid"."""
    return volume("v", of="claim", uid="uid", **{"phase": "Bound", **more})  # type: ignore[arg-type]


class Case(NamedTuple):
    """Case of upstream's table. after: the volume after the sync; None if it is unchanged."""

    volume: Object
    claims: list[Object]
    after: str = ""
    message: str = ""
    events: tuple[str, ...] = ()


CASES = {
    "4-1": Case(volume("v", phase="Pending"), [], "v Available"),
    "4-2": Case(volume("v", of="claim", phase="Pending"), [], "v Available claim/"),
    "4-3": Case(used(), [], "v Released claim/uid"),
    "4-4": Case(used(), [claim(uid="other")], "v Released claim/uid"),
    "4-5": Case(used(marks=BY_US), [claim()]),
    "4-5, bound by a user": Case(used(), [claim()]),
    "4-6": Case(used(phase="Available"), [claim(to="v")], "v Bound claim/uid"),
    "4-7": Case(used(marks=BY_US), [claim(to="other", marks=BOTH)], "v Available"),
    "4-8": Case(used(), [claim(to="other", marks=BOTH)], "v Available claim/"),
    "4-9": Case(used(phase="Released"), [claim(to="v")], "v Bound claim/uid"),
    "4-10": Case(used(policy="Delete"), [], "v Failed claim/uid", NO_PLUGIN, ("VolumeFailedDelete",)),
    "6-3": Case(
        used(policy="Recycle"),
        [],
        "v Failed claim/uid",
        "No recycler plugin found for the volume!",
        ("VolumeFailedRecycle",),
    ),
    "6-10": Case(
        used(policy="Unknown"),
        [],
        "v Failed claim/uid",
        "Volume has unrecognized PersistentVolumeReclaimPolicy",
        ("VolumeUnknownReclaimPolicy",),
    ),
    "8-3": Case(used(policy="Delete"), [], "v Failed claim/uid", NO_PLUGIN, ("VolumeFailedDelete",)),
    "8-3, by provisioner": Case(
        used(policy="Delete", marks={"pv.kubernetes.io/provisioned-by": "kubernetes.io/x"}),
        [],
        "v Failed claim/uid +provisioned",
        "no volume plugin matched name: kubernetes.io/x",
        ("VolumeFailedDelete",),
    ),
    "8-10-1": Case(used(policy="Delete", marks=EXTERNAL), [], "v Released claim/uid +provisioned"),
    "8-10-2": Case(used(policy="Delete", csi={"driver": "example.com"}), [], "v Released claim/uid"),
    "8-10-3": Case(
        used(policy="Delete", marks={**MIGRATED, "pv.kubernetes.io/provisioned-by": "kubernetes.io/gce-pd"}),
        [],
        "v Released claim/uid +provisioned",
    ),
    "8-12": Case(
        used(policy="Delete", marks=EXTERNAL, csi={}), [claim(to="other")], "v Released claim/uid +provisioned"
    ),
    "14-13": Case(used(marks=BY_US), [claim(**BLOCK)], events=("VolumeMismatch", "VolumeMismatch")),
    "14-13-1": Case(used(marks=BY_US, **BLOCK), [claim()], events=("VolumeMismatch", "VolumeMismatch")),
    "14-14": Case(used(marks=BY_US, **BLOCK), [claim(**BLOCK)]),
    "nothing of an NFS volume is deleted": Case(
        used(policy="Delete", nfs={"server": "s", "path": "/"}),
        [],
        "v Failed claim/uid",
        'error getting deleter volume plugin for volume "v": no deletable volume plugin matched',
        ("VolumeFailedDelete",),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_volume_sync_equals_upstreams(case: Case) -> None:
    scene = Scene([case.volume], case.claims)
    events = scene.settle_volume("v")
    assert scene.volumes == [case.after or shown_volume(case.volume)]
    assert scene.volume("v")["status"].get("message", "") == case.message
    assert [reason for _, reason in events] == list(case.events)
    assert scene.get(PERSISTENT_VOLUMES, "v") is not None


def test_claim_to_bind_is_enqueued() -> None:  # 4-5
    driven = Scene([used()], [claim()]).sync_volume("v")
    assert [(enqueue.queue, enqueue.key) for enqueue in driven.enqueued] == [("claims", "default/claim")]


def test_volume_of_another_mode_is_not_bound_to_its_claim() -> None:
    driven = Scene([used(volumeMode="Block")], [claim()]).sync_volume("v")
    assert [event[2] for event in driven.events] == [
        'Cannot bind PersistentVolume to requested PersistentVolumeClaim "claim" due to incompatible volumeMode.',
        'Cannot bind PersistentVolume "v" to requested PersistentVolumeClaim due to incompatible volumeMode.',
    ]
    assert driven.enqueued == []


@pytest.mark.parametrize("cached", [[], [claim(uid="before", to="v")]])
def test_claim_is_read_live_before_a_volume_is_released(cached: list[Object]) -> None:  # 4-11, 4-12
    scene = Scene([used()], cached)
    live = Scene([], [claim(to="v")])
    events = scene.settle_volume("v", answer=answering({Get: live.bench.accept}, scene.bench.accept))
    assert (scene.volumes, events) == (["v Bound claim/uid"], [])


# Finalizers and annotations.


@pytest.mark.parametrize(
    ("marks", "policy", "before", "after"),
    [
        (PROVISIONED, "Delete", (), ("kubernetes.io/pv-controller",)),
        (PROVISIONED, "Retain", ("kubernetes.io/pv-controller",), ()),
        (
            PROVISIONED,
            "Delete",
            ("external-provisioner.volume.kubernetes.io/finalizer",),
            ("kubernetes.io/pv-controller",),
        ),
        (EXTERNAL, "Delete", ("a.b/c",), ("a.b/c",)),
        ({}, "Delete", (), ()),
        (
            {"pv.kubernetes.io/provisioned-by": "kubernetes.io/gce-pd"},
            "Delete",
            ("kubernetes.io/pv-controller", "external-provisioner.volume.kubernetes.io/finalizer"),
            ("external-provisioner.volume.kubernetes.io/finalizer",),
        ),
    ],
)
def test_in_tree_volumes_have_a_finalizer_until_they_are_deleted(
    marks: dict[str, str], policy: str, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    scene = Scene([volume("v", marks=marks, policy=policy, finalizers=before)])
    scene.sync_volume("v")
    assert finalizers_of(scene.volume("v")) == after


# Volumes that the controller deletes itself.


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "volume"
    made.mkdir()
    (made / "file").write_text("data")
    return made


@pytest.fixture(autouse=True)
def _below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow the deletion of directories that the test has created."""
    ours = str(tmp_path)
    monkeypatch.setattr(provisioning, "deletion_problem", lambda path: "" if path.startswith(ours) else f"not {path}")


def of_directory(path: Path, **more: object) -> Object:
    marks = {**PROVISIONED, **BY_US}
    return used(policy="Delete", marks=marks, hostPath={"path": str(path)}, **more)


def gone(scene: Scene) -> bool:
    return scene.get(PERSISTENT_VOLUMES, "v") is None


@pytest.mark.parametrize("claims", [[], [claim(uid="other")], [claim(to="other")]], ids=["8-1, 8-2", "8-9", "8-11"])
def test_released_host_path_volume_is_deleted(directory: Path, claims: list[Object]) -> None:
    scene = Scene([of_directory(directory, finalizers=("kubernetes.io/pv-controller",))], claims)
    assert scene.settle_volume("v") == []
    assert not directory.exists()
    assert gone(scene)


def test_finalizer_of_terminating_volume_is_removed_after_deletion(directory: Path) -> None:  # 8-13
    scene = Scene([of_directory(directory, deleted=True, finalizers=("kubernetes.io/pv-controller",))])
    scene.settle_volume("v")
    assert not directory.exists()


@pytest.mark.parametrize("shown", [volume("v"), used(), None])
def test_claim_is_read_live_before_anything_is_deleted(directory: Path, shown: Object | None) -> None:  # 8-6, 8-7
    scene = Scene([of_directory(directory, phase="Released")])
    if shown is not None:
        scene.bench.show(PERSISTENT_VOLUME_CLAIMS, claim())

    def live(get: Get) -> Outcome | None:
        return NotFound() if shown is None else Scene([shown]).bench.accept(get)

    scene.run("deletions", "v", answer=answering({Get: live}, scene.bench.accept))
    assert directory.exists()


def test_unreadable_claim_counts_as_existing(directory: Path) -> None:
    scene = Scene([of_directory(directory, phase="Released")])
    scene.bench.spoil(PERSISTENT_VOLUME_CLAIMS, "default/claim")
    assert scene.sync_volume("v", raises=UnreadableError).enqueued == []
    scene.run("deletions", "v", raises=UnreadableError)
    assert directory.exists()


def test_foreign_directory_is_not_deleted(tmp_path: Path) -> None:
    scene = Scene([of_directory(Path("/etc"), phase="Released")])
    driven = scene.run("deletions", "v", raises=DeletionError)
    assert driven.events == [("Warning", "VolumeFailedDelete", "not /etc")]
    assert scene.volume("v")["status"] == {"phase": "Failed", "message": "not /etc"}
    assert scene.run("deletions", "v", raises=DeletionError).events == []  # recorded once
    assert tmp_path.exists()


def test_provisioned_volume_without_directory_fails_without_retry() -> None:  # 8-4
    scene = Scene([used(policy="Delete", phase="Released", marks=PROVISIONED)])
    why = 'failed to create deleter for volume "v": spec.PersistentVolumeSource.HostPath is nil'
    driven = scene.run("deletions", "v", raises=TerminalError)
    assert driven.events == [("Warning", "VolumeFailedDelete", why)]
    assert scene.volume("v")["status"] == {"phase": "Failed", "message": why}


def test_failed_deletion_is_retried(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # 8-5, 9-1
    def fail(path: str) -> None:
        raise OSError(f"{path} is busy")

    scene = Scene([of_directory(directory, finalizers=("kubernetes.io/pv-controller",))])
    with monkeypatch.context() as failing:
        failing.setattr(provisioning, "delete_directory", fail)
        scene.sync_volume("v")
        driven = scene.run("deletions", "v", raises=DeletionError)
    ((type_, reason, message),) = driven.events
    assert (type_, reason) == ("Warning", "VolumeFailedDelete")
    assert message.endswith("is busy")
    assert scene.volume("v")["status"] == {"phase": "Failed", "message": message}
    assert scene.settle_volume("v") == []
    assert gone(scene)


# Recycling.


def scrubbed(**more: object) -> Object:
    return used(policy="Recycle", hostPath={"path": "/tmp/some"}, **{"phase": "Released", **more})


def recycler(phase: str, *, path: str = "/tmp/some", message: str = "") -> Object:
    spec = {"volumes": [{"name": "vol", "hostPath": {"path": path}}]}
    status = {"phase": phase, **({"message": message} if message else {})}
    return {"metadata": {"name": "recycler-for-v", "namespace": "default"}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("claims", "pods"),
    [
        ([], []),
        ([claim(uid="other")], []),  # 6-9
        ([claim(uid="other")], [pod("user")]),  # 6-14
        ([], [pod("user", phase="Succeeded")]),  # 6-13
    ],
)
@pytest.mark.parametrize(("marks", "after"), [(BY_US, "v Available"), ({}, "v Available claim/")])  # 6-1, 6-2
def test_recycled_volume_becomes_available(
    claims: list[Object], pods: list[Object], marks: dict[str, str], after: str
) -> None:
    scene = Scene([scrubbed(marks=marks)], claims, pods=pods)
    made = scene.run("recyclings", "v").of(Create)
    assert len(made) == 1
    assert scene.run("recyclings", "v").commands == scene.run("recyclings", "v").of(Get)  # the recycler pod is running
    running = scene.get(PODS, "default/recycler-for-v")
    assert running is not None
    newer = {**running["metadata"], "resourceVersion": "1000000"}
    scene.bench.show(PODS, {**running, "metadata": newer, "status": {"phase": "Succeeded"}})
    driven = scene.run("recyclings", "v")
    assert driven.events == [("Normal", "VolumeRecycled", "Volume recycled")]
    assert [deletion.key for deletion in driven.of(Delete)] == ["default/recycler-for-v"]
    assert scene.volumes == [after]


def test_recycler_pod_equals_upstreams() -> None:
    scene = Scene([scrubbed(capacity={"storage": "5Gi"})])
    scene.run("recyclings", "v")
    made = scene.get(PODS, "default/recycler-for-v")
    assert made is not None
    assert made["spec"]["activeDeadlineSeconds"] == 150
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["spec"]["volumes"] == [{"name": "vol", "hostPath": {"path": "/tmp/some"}}]
    assert made["spec"]["containers"][0]["volumeMounts"] == [{"name": "vol", "mountPath": "/scrub"}]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (recycler("Failed", message="no disk"), "failed to recycle volume: no disk"),
        (recycler("Failed"), "failed to recycle volume: pod failed, pod.Status.Message unknown"),
        (recycler("Succeeded", path="/tmp/other"), "old recycler pod found, will retry later"),
    ],
)
def test_volume_that_cannot_be_recycled_becomes_failed(found: Object, why: str) -> None:  # 6-4, 6-5
    scene = Scene([scrubbed()], pods=[found])
    text = f"Recycle failed: {why}"
    assert scene.run("recyclings", "v").events == [("Warning", "VolumeFailedRecycle", text)]
    assert scene.volume("v")["status"] == {"phase": "Failed", "message": text}


@pytest.mark.parametrize("may_list", [True, False])
def test_events_of_the_recycler_pod_are_repeated_for_the_volume(may_list: bool) -> None:
    scene = Scene([scrubbed()], pods=[recycler("Failed", message="no disk")])
    events = [{"type": "Warning", "message": "cannot mount"}, {"type": "Normal", "message": "pulled"}]
    scene.pod_events = events if may_list else None
    driven = scene.run("recyclings", "v")
    (listed,) = driven.of(List)
    assert (listed.namespace, listed.field_selector) == ("default", "involvedObject.uid=uid-of-recycler-for-v")
    *repeated, (_, reason, _) = driven.events
    assert reason == "VolumeFailedRecycle"
    texts = [(type_, "RecyclerPod", f"Recycler pod: {text}") for type_, text in (event.values() for event in events)]
    assert repeated == (texts if may_list else [])


def test_deleted_recycler_pod_counts_as_failed() -> None:
    scene = Scene([scrubbed()])
    scene.run("recyclings", "v")
    scene.bench.catch_up()
    scene.bench.hide(PODS, "default/recycler-for-v")
    text = "Recycle failed: failed to recycle volume: recycler pod was deleted"
    assert scene.run("recyclings", "v").events == [("Warning", "VolumeFailedRecycle", text)]
    assert scene.run("recyclings", "v").of(Create)  # the next recycler pod


def test_rejected_recycler_pod_fails_the_volume() -> None:
    scene = Scene([scrubbed()])
    refusing = answering({Create: lambda _: Forbidden("no room")}, scene.bench.accept)
    text = "Recycle failed: unexpected error creating recycler pod:  no room"
    assert scene.run("recyclings", "v", answer=refusing).events == [("Warning", "VolumeFailedRecycle", text)]
    late = Scene([scrubbed()])
    known = answering({Create: lambda _: AlreadyExists()}, late.bench.accept)
    assert late.run("recyclings", "v", answer=known).events == []


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_used_volume_is_not_recycled(phase: str) -> None:  # 6-11, 6-12
    scene = Scene([scrubbed()], pods=[pod("user", phase=phase)])
    driven = scene.run("recyclings", "v")
    assert driven.events == [("Normal", "VolumeFailedRecycle", "Volume is used by pods: default/user")]
    assert driven.of(Create) == []
    assert scene.volumes == ["v Released claim/uid"]


@pytest.mark.parametrize("shown", [volume("v", policy="Recycle"), None], ids=["6-7, 6-8", "6-6"])
def test_claim_is_read_live_before_a_volume_is_recycled(shown: Object | None) -> None:
    scene = Scene([scrubbed()])

    def live(get: Get) -> Outcome | None:
        return NotFound() if shown is None else Scene([shown]).bench.accept(get)

    assert scene.run("recyclings", "v", answer=answering({Get: live}, scene.bench.accept)).of(Create) == []


@pytest.mark.parametrize("text", ["[", "kind: Service", "kind: Pod\nspec: {}", "3"])
def test_template_without_a_pod_with_a_volume_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="file"):
        read_template(text, "file")


def test_missing_template_prevents_the_start() -> None:
    assert list(check_templates(Options())) == []
