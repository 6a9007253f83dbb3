"""Tests of the sync of claims, with upstream's table of cases and their numbers.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/binder_test.go (sets 1 to 3, 10, 13, 14),
provision_test.go (sets 11 and 12, of external provisioners), pv_controller_test.go (retroactive classes). By default,
volumes are Available and have the policy Retain, and claims are Pending.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kcm.actors.controllers.storage.persistentvolume_binder.claims import MisboundError
from kcm.actors.controllers.storage.persistentvolume_binder.metrics import (
    OPERATION_SECONDS,
    RETROACTIVE,
    RETROACTIVE_ERRORS,
)
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Get, Update
from kcm.protocols.messages.outcomes import Conflict, NotFound
from kcm.protocols.objects import Object, annotations_of
from kcm.protocols.resources import PERSISTENT_VOLUMES, STORAGE_CLASSES
from kcm.protocols.volumes import CLASS_ANNOTATION, PROVISIONER, SELECTED_NODE
from tests.actors.controllers.storage.persistentvolume_binder.scene import (
    BOTH,
    BY_US,
    Scene,
    answering,
    claim,
    class_,
    pod,
    shown_claim,
    shown_volume,
    volume,
)

WAIT = class_("wait", mode="WaitForFirstConsumer")
NODE = {SELECTED_NODE: "node1"}
LABELS = {"foo": "true"}
PICKY = {"selector": {"matchLabels": LABELS}}
BLOCK = {"volumeMode": "Block"}


class Case(NamedTuple):
    """Case of upstream's table.

    volumes, claim: objects before the sync.
    after: changed volumes, and the claim, after the sync.
    """

    volumes: list[Object]
    claim: Object
    after: tuple[str, ...] = ()
    event: str = ""


BOUND = "claim Bound v +us +done"
BOUND_VOLUME = "v Bound claim/uid +us"
LOST = "claim Lost"

CASES = {
    "1-1": Case([volume("v")], claim(), (BOUND_VOLUME, BOUND)),
    "1-2": Case([volume("v")], claim(size="10Gi"), (), "FailedBinding"),
    "1-3": Case([volume("v")], claim(size="10Gi", phase="Bound"), ("claim Pending",), "FailedBinding"),
    "1-4": Case([volume("big", "10Gi"), volume("v")], claim(), (BOUND_VOLUME, BOUND)),
    "1-5": Case([volume("v", "10Gi", of="claim"), volume("other")], claim(), ("v Bound claim/uid", BOUND)),
    "1-6": Case([volume("v", "10Gi", of="claim", uid="uid"), volume("other")], claim(), ("v Bound claim/uid", BOUND)),
    "1-7": Case([volume("v", "10Gi", of="claim", uid="other")], claim(), (), "FailedBinding"),
    "1-8": Case([volume("v", of="claim", uid="uid", marks=BY_US)], claim(), (BOUND_VOLUME, BOUND)),
    "1-9": Case([volume("v", of="claim", uid="uid", phase="Bound", marks=BY_US)], claim(), (BOUND,)),
    "1-10": Case([volume("v", of="claim", uid="uid", phase="Bound", marks=BY_US)], claim(to="v", marks=BOTH), (BOUND,)),
    "1-11": Case([volume("v", labels=LABELS)], claim(**PICKY), (BOUND_VOLUME, BOUND)),
    "1-12": Case([volume("v")], claim(**PICKY), (), "FailedBinding"),
    "1-13": Case([volume("v", class_="wait")], claim(class_="wait"), (), "WaitForFirstConsumer"),
    "1-14": Case([volume("v", class_="wait", of="claim")], claim(class_="wait"), ("v Bound claim/uid", BOUND)),
    "1-15": Case([volume("v", "10Gi"), volume("small")], claim(to="v"), (BOUND_VOLUME, "claim Bound v +done")),
    "1-16": Case([volume("v")], claim(to="v", accessModes=["ReadWriteMany"]), (), "VolumeMismatch"),
    "1-17": Case(
        [volume(f"v-{phase}", phase=phase) for phase in ("Pending", "Failed", "Released", "")],
        claim(),
        (),
        "FailedBinding",
    ),
    "1-18": Case(
        [volume("v", class_="wait", of="claim", uid="uid")],
        claim(class_="wait", marks=NODE),
        ("v Bound claim/uid", BOUND),
    ),
    "2-1": Case([], claim(to="v", size="10Gi")),
    "2-2": Case([], claim(to="v", phase="Bound"), ("claim Pending v",)),
    "2-3": Case([volume("v")], claim(to="v"), (BOUND_VOLUME, "claim Bound v +done")),
    "2-4": Case([volume("v", of="claim")], claim(to="v"), ("v Bound claim/uid", "claim Bound v +done")),
    "2-5": Case([volume("v", of="claim", uid="uid")], claim(to="v"), ("v Bound claim/uid", "claim Bound v +done")),
    "2-6": Case(
        [volume("v", of="other", uid="other", phase="Bound")],
        claim(to="v", phase="Bound"),
        ("claim Pending v",),
        "FailedBinding",
    ),
    "2-8": Case([volume("v")], claim(to="v", **PICKY), (BOUND_VOLUME, "claim Bound v +done")),
    "2-9": Case([volume("v")], claim(to="v", size="2Gi"), (), "VolumeMismatch"),
    "2-10": Case([volume("v", class_="gold")], claim(to="v", class_="silver"), (), "VolumeMismatch"),
    "2-11": Case(
        [volume("v", volumeAttributesClassName="slow", csi={})],
        claim(to="v", volumeAttributesClassName="fast"),
        (),
        "VolumeMismatch",
    ),
    "2-12": Case(
        [volume("v", volumeAttributesClassName="fast", csi={})],
        claim(to="v", volumeAttributesClassName="fast"),
        (BOUND_VOLUME, "claim Bound v +done"),
    ),
    "2-13": Case([volume("v")], claim(to="v", volumeAttributesClassName=""), (BOUND_VOLUME, "claim Bound v +done")),
    "3-1": Case([volume("v")], claim(phase="Bound", marks=BOTH), (f"{LOST} +us +done",), "ClaimLost"),
    "3-2": Case([], claim(to="v", phase="Bound", marks=BOTH), (f"{LOST} v +us +done",), "ClaimLost"),
    "3-3": Case([volume("v")], claim(to="v", marks=BOTH), (BOUND_VOLUME, BOUND)),
    "3-4": Case(
        [volume("v", of="claim", uid="other")],
        claim(to="v", phase="Bound", marks=BOTH),
        (f"{LOST} v +us +done",),
        "ClaimMisbound",
    ),
    "3-5": Case([volume("v", of="claim", uid="uid")], claim(to="v", marks=BOTH), ("v Bound claim/uid", BOUND)),
    "3-6": Case(
        [volume("v", of="other", uid="other")],
        claim(to="v", phase="Bound", marks=BOTH),
        (f"{LOST} v +us +done",),
        "ClaimMisbound",
    ),
    "3-7": Case([volume("v")], claim(to="v", marks=BOTH, **PICKY), (BOUND_VOLUME, BOUND)),
    "13-1": Case(
        [volume("none"), volume("silver", class_="silver"), volume("v", "10Gi", class_="gold")],
        claim(class_="gold"),
        (BOUND_VOLUME, BOUND),
    ),
    "13-2": Case([volume("gold", class_="gold"), volume("v", "10Gi")], claim(), (BOUND_VOLUME, BOUND)),
    "13-3": Case(
        [volume("silver", class_="silver"), volume("v", "10Gi", class_="gold")],
        claim(class_="gold"),
        (BOUND_VOLUME, BOUND),
    ),
    "13-4": Case([volume("gold", class_="gold"), volume("v", "10Gi")], claim(class_=""), (BOUND_VOLUME, BOUND)),
    "13-5": Case([volume("v")], claim(class_=None), (BOUND_VOLUME, BOUND)),
    "13, by annotation": Case(
        [volume("v", class_="gold"), volume("other")],
        claim(class_="silver", marks={CLASS_ANNOTATION: "gold"}),
        (BOUND_VOLUME, BOUND),
    ),
    "14-1": Case([volume("v", **BLOCK)], claim(**BLOCK), (BOUND_VOLUME, BOUND)),
    "14-3": Case([volume("v")], claim(**BLOCK), (), "FailedBinding"),
    "14-4": Case([volume("v", **BLOCK)], claim(), (), "FailedBinding"),
    "14-5-2": Case([volume("v", class_="gold")], claim(to="v", class_="silver"), (), "VolumeMismatch"),
    "14-7, 14-10": Case([volume("v", of="claim", **BLOCK)], claim(**BLOCK), ("v Bound claim/uid", BOUND)),
    "14-8": Case([volume("v", **BLOCK)], claim(to="v"), (), "VolumeMismatch"),
    "14-8-1": Case([volume("v", of="claim", **BLOCK)], claim(), (), "FailedBinding"),
    "14-9": Case([volume("v", **BLOCK)], claim(to="v", **BLOCK), (BOUND_VOLUME, "claim Bound v +done")),
    "14, a volume that says no mode": Case([volume("v", volumeMode=None)], claim(), (BOUND_VOLUME, BOUND)),
    "being deleted": Case([volume("v", deleted=True)], claim(), (), "FailedBinding"),
    "being deleted, named": Case([volume("v", deleted=True)], claim(to="v"), (), "VolumeMismatch"),
    "few access modes go first": Case(
        [volume("wide", accessModes=["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"]), volume("v", "10Gi")],
        claim(),
        (BOUND_VOLUME, BOUND),
    ),
    "other attributes": Case(
        [volume("v", volumeAttributesClassName="slow", csi={})],
        claim(volumeAttributesClassName="fast"),
        (),
        "FailedBinding",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_claim_sync_equals_upstreams(case: Case) -> None:
    scene = Scene(case.volumes, [case.claim], [WAIT, class_("gold"), class_("silver")])
    driven = scene.sync_claim()
    changed = {line.split()[0]: line for line in case.after}
    assert scene.volumes == sorted(changed.get(line.split()[0], line) for line in map(shown_volume, case.volumes))
    assert scene.claims == [changed.get("claim", shown_claim(case.claim))]
    assert [reason for _, reason, _ in driven.events] == ([case.event] if case.event else [])
    assert scene.sync_claim().commands == driven.of(Get)  # a second sync only reads


def test_status_of_bound_claim_follows_its_volume() -> None:
    scene = Scene(
        [volume("v", "10Gi", volumeAttributesClassName="fast", csi={})], [claim(volumeAttributesClassName="fast")]
    )
    scene.sync_claim()
    assert scene.claim()["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "capacity": {"storage": "10Gi"},
        "currentVolumeAttributesClassName": "fast",
    }


def test_claim_with_pending_resize_reports_the_previous_capacity() -> None:
    growing = {"volume.alpha.kubernetes.io/pre-resize-capacity": "512Mi"}
    scene = Scene([volume("v", marks=growing)], [claim(size="100Mi")])
    scene.sync_claim()
    assert scene.claim()["status"]["capacity"] == {"storage": "512Mi"}


@pytest.mark.parametrize("written", range(1, 5))
def test_binding_is_completed_after_a_crash_between_any_two_writes(written: int) -> None:
    scene = Scene([volume("v")], [claim()])
    scene.sync_claim(stop_after=written)
    scene.bench.catch_up()
    scene.binder = scene.build()
    scene.sync_claim()
    assert (scene.volumes, scene.claims) == ([BOUND_VOLUME], [BOUND])


def test_claim_bound_to_volume_of_another_claim_is_an_error() -> None:  # 2-7
    scene = Scene([volume("v", of="other", uid="other", phase="Bound")], [claim(to="v", phase="Bound", marks=BY_US)])
    driven = scene.sync_claim(raises=MisboundError)
    assert str(driven.error) == (
        'invalid binding of claim "default/claim" to volume "v": volume already claimed by "default/other"'
    )
    assert driven.events == [("Warning", "FailedBinding", 'volume "v" already bound to a different claim.')]
    assert driven.commands == []


@pytest.mark.parametrize(
    ("offered", "text"),
    [
        (volume("v", deleted=True), 'the volume is marked for deletion "v"'),
        (volume("v", "1Mi"), "requested PV is too small"),
        (volume("v", class_="gold"), "storageClassName does not match"),
        (volume("v", volumeAttributesClassName="x", csi={}), "volumeAttributesClassName does not match"),
        (volume("v", volumeMode="Block"), "incompatible volumeMode"),
        (volume("v", accessModes=["ReadWriteOnce"]), "incompatible accessMode"),
    ],
)
def test_mismatch_of_the_requested_volume_is_recorded(offered: Object, text: str) -> None:
    events = Scene([offered], [claim(to="v")]).sync_claim().events
    assert events == [("Warning", "VolumeMismatch", f'Cannot bind to requested volume "v": {text}')]


def test_claim_is_not_lost_if_the_table_of_volumes_is_stale() -> None:
    late = Scene([], [claim(to="v", phase="Bound", marks=BOTH)])
    there = Scene([volume("v", of="claim", uid="uid", phase="Bound", marks=BY_US)])
    driven = late.sync_claim(answer=answering({Get: there.bench.accept}, late.bench.accept))
    assert driven.of(Update) == []
    assert late.claims == [BOUND]


@pytest.mark.parametrize(
    ("pods", "event"),
    [
        ([], ("WaitForFirstConsumer", "waiting for first consumer to be created before binding")),
        ([pod("a", node="")], ("WaitForPodScheduled", "waiting for pod a to be scheduled")),
        ([pod("b", node=""), pod("a", node="")], ("WaitForPodScheduled", "waiting for pods a,b to be scheduled")),
        (
            [pod("a", node="", phase="Failed"), pod("b"), pod("c", of="other", node="")],
            ("WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        ),
    ],
)
def test_reason_of_a_waiting_claim_is_recorded(pods: list[Object], event: tuple[str, str]) -> None:
    driven = Scene([], [claim(class_="wait")], [WAIT], pods).sync_claim()
    assert driven.events == [("Normal", *event)]


def test_class_without_binding_mode_is_an_error() -> None:
    scene = Scene([volume("v", class_="odd")], [claim(class_="odd")], [class_("odd", mode="")])
    assert str(scene.sync_claim(raises=ValueError).error) == 'VolumeBindingMode not set for StorageClass "odd"'


def test_claim_with_invalid_selector_is_not_bound() -> None:
    wrong = {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
    scene = Scene([volume("v")], [claim(**wrong)])
    scene.sync_claim(raises=ValueError)
    assert scene.volumes == ["v Available"]


# Default classes that were created after the claim.

MARK = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
OLD = class_("old", metadata={**MARK, "creationTimestamp": "2025-01-01T00:00:00Z"})
NEW = class_("new", metadata={"annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}})
NEWER_BY_NAME = class_("alike", metadata=MARK)


@pytest.mark.parametrize(
    ("classes", "given"), [([OLD], "old"), ([OLD, NEW], "new"), ([OLD, NEW, NEWER_BY_NAME], "alike"), ([], None)]
)
def test_claim_without_class_gets_the_newest_default_class(classes: list[Object], given: str | None) -> None:
    scene = Scene([], [claim()], classes)
    driven = scene.sync_claim()
    assert scene.claim()["spec"].get("storageClassName") == given
    assert [event[1] for event in driven.events] == ([] if given else ["FailedBinding"])
    assert scene.metrics.counter(RETROACTIVE).value == (given is not None)


@pytest.mark.parametrize("spec", [claim(class_=""), claim(marks={CLASS_ANNOTATION: ""})])
def test_claim_with_empty_class_gets_no_default_class(spec: Object) -> None:
    scene = Scene([], [spec], [OLD])
    scene.sync_claim()
    assert scene.claim()["spec"].get("storageClassName") == spec["spec"].get("storageClassName")


def test_failed_class_assignment_is_counted_and_retried() -> None:
    scene = Scene([], [claim()], [OLD])
    scene.sync_claim(answer=answering({Update: lambda _: Conflict()}, scene.bench.accept), raises=CommandError)
    assert scene.metrics.counter(RETROACTIVE_ERRORS).value == 1


# Claims with an external provisioner.

EXTERNAL = (
    "Waiting for a volume to be created either by the external provisioner 'example.com/disk' or manually by the "
    "system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)


@pytest.mark.parametrize("marks", [{}, NODE])
def test_claim_is_annotated_for_an_external_provisioner(marks: dict[str, str]) -> None:  # 11-17, 11-24
    mode = "WaitForFirstConsumer" if marks else "Immediate"
    scene = Scene([], [claim(class_="gold", marks=marks)], [class_("gold", mode=mode)])
    assert scene.sync_claim().events == [("Normal", "ExternalProvisioning", EXTERNAL)]
    assert scene.claims == ["claim Pending +example.com/disk"]
    again = scene.sync_claim()
    assert (again.commands, again.events) == ([], [("Normal", "ExternalProvisioning", EXTERNAL)])


def test_data_source_is_supported_with_external_provisioner() -> None:  # 11-26
    known = claim(class_="gold", marks={PROVISIONER: "example.com/disk"}, dataSource={"kind": "VolumeSnapshot"})
    driven = Scene([], [known], [class_("gold")]).sync_claim()
    assert (driven.commands, driven.events) == ([], [("Normal", "ExternalProvisioning", EXTERNAL)])


@pytest.mark.parametrize(
    ("made", "after"),
    [
        (volume("v", class_="gold"), BOUND_VOLUME),  # 12-2
        (volume("v", class_="gold", of="claim", uid="uid", phase="Bound", marks=BY_US), BOUND_VOLUME),  # 12-4
        (volume("v", class_="gold", of="claim", uid="uid"), "v Bound claim/uid"),
    ],
)
def test_externally_provisioned_volume_is_bound_and_timed(made: Object, after: str) -> None:
    scene = Scene([], [claim(class_="gold")], [class_("gold")])
    scene.sync_claim()
    scene.bench.clock.advance(30.0)
    scene.bench.show(PERSISTENT_VOLUMES, made)
    assert scene.sync_claim().events == []
    assert (scene.volumes, scene.claims) == ([after], [f"{BOUND} +example.com/disk"])
    took = scene.metrics.histogram(OPERATION_SECONDS, "example.com/disk", "provision")
    assert (took.sum, sum(took.counts)) == (30.0, 1)


def test_claim_of_a_migrated_plugin_is_annotated_with_the_driver() -> None:  # 11-21
    scene = Scene([], [claim(class_="gold")], [class_("gold", "kubernetes.io/gce-pd")])
    assert [event[1] for event in scene.sync_claim().events] == ["ExternalProvisioning"]
    assert scene.claims == ["claim Pending +pd.csi.storage.gke.io"]


def test_migration_annotation_is_updated() -> None:
    old = {"volume.beta.kubernetes.io/storage-provisioner": "kubernetes.io/aws-ebs"}
    scene = Scene([], [claim(class_="", marks=old)])
    scene.sync_claim()
    assert annotations_of(scene.claim())["pv.kubernetes.io/migrated-to"] == "ebs.csi.aws.com"
    stale = {"volume.kubernetes.io/storage-provisioner": "example.com/disk", "pv.kubernetes.io/migrated-to": "x"}
    scene = Scene([], [claim(class_="", marks=stale)])
    scene.sync_claim()
    assert "pv.kubernetes.io/migrated-to" not in annotations_of(scene.claim())


@pytest.mark.parametrize(
    ("classes", "text"),
    [
        ([], 'storageclass.storage.k8s.io "gold" not found'),  # 11-14
        (
            [class_("gold", "kubernetes.io/no-provisioner")],
            "no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
        ([class_("gold", "kubernetes.io/nfs")], "no provisionable volume plugin matched"),
    ],
)
def test_missing_provisioner_is_recorded_in_an_event(classes: list[Object], text: str) -> None:  # 11-2, 11-18
    scene = Scene([], [claim(class_="gold")], classes)
    assert scene.sync_claim().events == [("Warning", "ProvisioningFailed", text)]
    assert scene.claims == ["claim Pending"]


def test_existing_volume_is_bound_instead_of_provisioning() -> None:  # 11-6, 11-22
    scene = Scene([volume("v", class_="gold")], [claim(class_="gold")], [class_("gold")])
    assert scene.sync_claim().events == []
    assert scene.claims == [BOUND]


def test_nothing_is_provisioned_if_disabled() -> None:
    scene = Scene([], [claim(class_="gold")], [class_("gold")], enable_dynamic_provisioning=False)
    driven = scene.sync_claim()
    assert (driven.commands, driven.events) == ([], [])


def test_failed_annotation_of_a_claim_is_recorded() -> None:
    scene = Scene([], [claim(class_="gold")], [class_("gold")])
    refusing = answering({Update: lambda _: NotFound("is gone")}, scene.bench.accept)
    driven = scene.sync_claim(answer=refusing, raises=CommandError)
    assert driven.events == [("Warning", "ProvisioningFailed", "Error saving claim: is gone")]


def test_two_claims_never_get_one_volume_although_the_watch_is_late() -> None:
    scene = Scene([volume("v")], [claim("a", uid="a"), claim("b", uid="b")])
    scene.sync_claim("a")
    scene.sync_claim("b")
    assert scene.volumes == ["v Bound a/a +us"]
    assert scene.claims == ["a Bound v +us +done", "b Pending"]


def test_claim_and_volume_created_together_are_bound() -> None:  # 10-1
    scene = Scene([volume("v", phase="Pending")], [claim()])
    scene.settle()
    assert (scene.volumes, scene.claims) == ([BOUND_VOLUME], [BOUND])


def test_second_volume_bound_to_a_claim_becomes_available() -> None:  # 10-2
    two = [volume(name, of="claim", uid="uid", phase="Bound", marks=BY_US) for name in ("v", "w")]
    scene = Scene(two, [claim(to="v", phase="Bound", marks=BOTH)])
    scene.settle()
    assert (scene.volumes, scene.claims) == ([BOUND_VOLUME, "w Available"], [BOUND])


def test_unreadable_volume_does_not_block_claims() -> None:
    scene = Scene([volume("v")], [claim()])
    scene.bench.spoil(PERSISTENT_VOLUMES, "bad")
    scene.sync_claim()
    assert scene.claims == [BOUND]


def test_new_class_provisions_waiting_claims() -> None:
    scene = Scene([], [claim(class_="gold")])
    scene.sync_claim()
    scene.bench.show(STORAGE_CLASSES, class_("gold"))
    assert [event[1] for event in scene.sync_claim().events] == ["ExternalProvisioning"]
