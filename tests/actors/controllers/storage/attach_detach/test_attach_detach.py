"""Tests of the attach/detach controller: attachments, detachments, and the state after a restart.

Source of the cases: kubernetes v1.36 pkg/controller/volume/attachdetach/{reconciler,statusupdater,populator}/*_test.go
and attach_detach_controller_test.go.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from kcm.actors.controllers.storage.attach_detach.decisions import (
    AttachmentProgress,
    Detachment,
    attach_progress,
    conflict_texts,
    decide_detachment,
    detach_progress,
    status_with,
)
from kcm.actors.controllers.storage.attach_detach.metrics import FORCED_DETACHES, IN_USE_VOLUMES, TOTAL_VOLUMES
from kcm.actors.controllers.storage.attach_detach.state import AttachState, PodReference
from kcm.actors.controllers.storage.attach_detach.volume_specs import VolumeSpec
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch
from kcm.protocols.messages.outcomes import Done, Forbidden, Outcome, ServerFailure, Unknown
from kcm.protocols.objects import Object, decode_object, encode_object
from kcm.protocols.resources import CSI_DRIVERS, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.protocols.resources import VOLUME_ATTACHMENTS as ATTACHMENTS
from tests.actors.controllers.storage.attach_detach.scene import (
    DISK,
    DRIVER,
    LATER,
    Scene,
    attachment,
    claim,
    disk,
    key_of_pod,
    node,
    pod,
)

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
SUCCEEDED = ("Normal", "SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "disk" ')


def failed(why: str) -> tuple[str, str, str]:
    return "Warning", "FailedAttachVolume", f'AttachVolume.Attach failed for volume "disk" : {why}'


def attached_scene(in_use: bool = False, **given: Any) -> Scene:
    """Return a scene whose volume is attached to node n1, and whose history is forgotten."""
    scene = Scene([node(), node("n2")], [pod()], [disk()], **given).settle()
    if in_use:
        scene.show(NODES, node(in_use=[DISK], attached=[DISK]))
    assert scene.attached == {"disk": ["n1"]}
    scene.events()
    scene.took()
    return scene


def test_volume_of_a_scheduled_pod_is_attached_and_reported() -> None:
    scene = Scene([node()], [pod()], [disk()]).settle()
    created = scene.took()
    assert [type(command) for command in created] == [Create, Patch]
    assert decode_object(created[0].body) == {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "csi-5ada109b51d237d72aaf3eef00476ba46fb27724326b5a411311a674488e5f82"},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "disk"}},
    }
    assert scene.reported() == [DISK]
    assert scene.events() == [SUCCEEDED]
    assert scene.settle(600).took() == []


@pytest.mark.parametrize(
    "objects",
    [
        ([node()], [], [disk()]),
        ([node()], [pod(on="")], [disk()]),
        ([node(managed=False)], [pod()], [disk()]),
        ([], [pod()], [disk()]),
        ([node()], [pod(phase="Succeeded")], [disk()]),
        ([node()], [pod(phase="Failed")], [disk()]),
        ([node()], [pod(deletionTimestamp=LATER)], [disk()]),  # without a running container
        ([node()], [pod()], [disk(claim="other")]),
        ([node()], [pod()], [disk(hostPath={"path": "/data"})]),
        ([node()], [pod(volume={"name": "data", "emptyDir": {}})], []),
        ([node()], [pod(volume={"name": "data", "csi": {"driver": DRIVER}})], []),
    ],
)
def test_nothing_is_attached_for_pods_that_need_no_volume(objects: Any) -> None:
    assert Scene(*objects).settle(300).took() == []


def test_volume_is_attached_once_its_claim_is_bound() -> None:
    scene = Scene([node()], [pod()], [disk()], [claim(phase="Pending")]).settle()
    assert scene.took() == []
    scene.bench.show(PERSISTENT_VOLUME_CLAIMS, claim())
    scene.run(lambda: scene.controller.sync_claim("default/disk"))
    assert scene.attached == {"disk": ["n1"]}


def test_pods_of_a_node_that_becomes_managed_are_attached() -> None:
    scene = Scene([node(managed=False)], [pod()], [disk()]).settle()
    assert scene.show(NODES, node()).attached == {"disk": ["n1"]}


def test_unused_volume_is_detached_after_its_node_no_longer_reports_it() -> None:
    scene = attached_scene()
    scene.hide(PODS, key_of_pod())
    patch, deletion = scene.took()
    assert (decode_object(patch.body)["status"], patch.subresource) == ({"volumesAttached": None}, "status")
    assert isinstance(deletion, Delete)
    assert (scene.attached, scene.reported()) == ({}, [])
    assert scene.controller.actual.state(DISK, "n1") is AttachState.DETACHED


@pytest.mark.parametrize(
    "ended", [pod(phase="Succeeded"), pod(deletionTimestamp=LATER), pod(uid="replaced", of="other")]
)
def test_volume_is_detached_after_its_pod_has_ended(ended: Object) -> None:
    assert attached_scene().show(PODS, ended).attached == {}


def test_mounted_volume_stays_attached_to_a_ready_node() -> None:
    scene = attached_scene(in_use=True).hide(PODS, key_of_pod())
    assert scene.settle(3600).took() == []
    scene.show(NODES, node(attached=[DISK]))
    assert scene.attached == {}


def test_volume_that_is_not_mounted_is_detached_after_an_attachment_without_report() -> None:
    scene = attached_scene()
    scene.controller.actual.attach(DISK, "n2", spec=None, confirmed=False)
    assert scene.controller.actual.is_in_use(DISK, "n2")
    scene.settle(60)
    assert scene.took() == []  # assumed to be mounted
    scene.show(NODES, node("n2"))
    scene.settle(11)
    assert [type(command) for command in scene.took()] == [Delete]


def test_volume_is_not_detached_while_the_status_of_the_node_cannot_be_patched() -> None:
    scene = attached_scene()
    scene.refusing = lambda command: ServerFailure("down") if isinstance(command, Patch) else None
    scene.hide(PODS, key_of_pod()).settle(30)
    assert scene.took(Delete) == []
    scene.refusing = lambda _command: None
    assert scene.settle(5).attached == {}


def test_volume_stays_attached_if_a_pod_needs_it_again_before_it_is_detached() -> None:
    scene = attached_scene()
    scene.refusing = lambda command: ServerFailure("down") if isinstance(command, Patch) else None
    scene.hide(PODS, key_of_pod())
    scene.refusing = lambda _command: None
    scene.show(PODS, pod("next"))
    assert (scene.settle(30).attached, scene.reported()) == ({"disk": ["n1"]}, [DISK])
    assert scene.took(Delete) == []


def test_shared_volume_is_attached_to_all_nodes() -> None:
    pods = [pod(), pod("other", on="n2")]
    scene = Scene([node(), node("n2")], pods, [disk(modes=["ReadWriteMany"])]).settle()
    assert scene.attached == {"disk": ["n1", "n2"]}
    assert scene.hide(PODS, key_of_pod()).attached == {"disk": ["n2"]}
    assert scene.hide(PODS, key_of_pod("other")).attached == {}


def test_exclusive_volume_is_attached_to_the_next_node_after_the_first_has_detached_it() -> None:
    scene = attached_scene(in_use=True).show(PODS, pod("other", on="n2"))
    message = 'Multi-Attach error for volume "disk" Volume is already used by pod(s) pod'
    assert scene.events("other") == [("Warning", "FailedAttachVolume", message)]
    scene.settle(300)
    assert (scene.events("other"), scene.took()) == ([], [])
    scene.hide(PODS, key_of_pod()).settle(300)
    assert scene.attached == {"disk": ["n1"]}
    scene.show(NODES, node(attached=[DISK]))
    assert scene.attached == {"disk": ["n2"]}
    assert scene.events("other") == [SUCCEEDED]
    assert (scene.reported(), scene.reported("n2")) == ([], [DISK])


def test_volume_whose_attachment_timed_out_is_detached_before_it_is_attached_elsewhere() -> None:
    scene = Scene([node(), node("n2")], [pod()], [disk()])
    scene.attacher = "off"
    scene.settle(121)
    assert scene.events() == [
        failed(f"timed out waiting for external-attacher of {DRIVER} CSI driver to attach volume disk")
    ]
    assert scene.controller.actual.state(DISK, "n1") is AttachState.UNCERTAIN
    assert scene.reported() == []
    scene.show(NODES, node())  # nothing is mounted
    scene.hide(PODS, key_of_pod())
    scene.attacher = "on"
    scene.show(PODS, pod("other", on="n2")).settle(200)
    assert scene.attached == {"disk": ["n2"]}


def test_failed_attachment_is_retried_with_increasing_delays() -> None:
    scene = Scene([node()], [pod()], [disk()])
    scene.attacher = "failing"
    scene.settle()
    assert scene.events() == [failed("no such disk")]
    counts = []
    for seconds in (0.4, 0.2, 0.8, 0.2, 1.8, 0.2):
        scene.settle(seconds)
        counts.append(len(scene.events()))
    assert counts == [0, 1, 0, 1, 0, 1]
    for _ in range(10):
        scene.settle(122)
    scene.events()
    scene.settle(1200)
    assert 9 <= len(scene.events()) <= 10
    scene.attacher = "on"
    assert scene.settle(123).reported() == [DISK]


@pytest.mark.parametrize("outcome", [Forbidden("no quota"), Unknown("no quota"), ServerFailure("no quota")])
def test_refused_attachment_is_reported_and_retried(outcome: Any) -> None:
    scene = Scene([node()], [pod()], [disk()])
    scene.refusing = lambda command: outcome if isinstance(command, Create) else None
    scene.settle()
    assert scene.events() == [failed("kubernetes.io/csi: attacher.Attach failed: no quota")]
    scene.refusing = lambda _command: None
    assert scene.settle(1).reported() == [DISK]


def test_attachment_that_is_being_deleted_is_not_used() -> None:
    scene = Scene([node()], [pod()], [disk()], attachments=[attachment(deleted=True, attached=True)])
    scene.attacher = "off"
    scene.settle()
    assert scene.events()[:1] == [failed("volume attachment is being deleted")]
    scene.attacher = "on"
    assert scene.settle(2).reported() == [DISK]


def test_failed_detachment_is_retried_and_its_volume_is_not_reported() -> None:
    scene = attached_scene()
    scene.attacher = "failing"
    scene.hide(PODS, key_of_pod()).settle(10)
    assert scene.controller.actual.state(DISK, "n1") is AttachState.UNCERTAIN
    assert (scene.reported(), scene.events()) == ([], [])
    scene.attacher = "on"
    assert scene.settle(20).attached == {}


def test_volume_whose_detachment_failed_is_attached_again_for_a_new_pod() -> None:
    scene = attached_scene()
    scene.refusing = lambda command: ServerFailure("down") if isinstance(command, Delete) else None
    scene.hide(PODS, key_of_pod()).settle(10)
    scene.show(PODS, pod("next")).settle(1)
    assert (scene.events("next"), scene.reported()) == ([SUCCEEDED], [DISK])


def test_deletion_of_a_missing_attachment_is_a_success() -> None:
    scene = attached_scene()
    scene.bench.hide(ATTACHMENTS, scene.bench.tables[ATTACHMENTS].entries()[0].key)
    scene.hide(PODS, key_of_pod())
    assert scene.controller.actual.state(DISK, "n1") is AttachState.DETACHED


def test_node_that_uses_the_volume_on_the_server_keeps_it() -> None:
    scene = attached_scene()
    live = Done(encode_object(node(in_use=[DISK])))
    scene.refusing = lambda command: live if isinstance(command, Get) else None
    scene.hide(PODS, key_of_pod()).settle(5)
    assert scene.took(Delete) == []
    scene.refusing = lambda command: ServerFailure("down") if isinstance(command, Get) else None
    assert scene.settle(60).took(Delete) == []
    scene.refusing = lambda _command: None
    assert scene.settle(130).attached == {}


def test_volume_is_reported_again_if_a_pod_needs_it_after_its_report_was_withdrawn() -> None:
    scene = attached_scene()
    patched = []

    def wait(command: Command) -> Outcome | None:
        """Let a pod arrive while the node is patched."""
        if isinstance(command, Patch) and not patched:
            patched.append(command)
            scene.bench.show(PODS, pod("next"))
            scene.enqueue(PODS, key_of_pod("next"))
        return None

    scene.refusing = wait
    scene.hide(PODS, key_of_pod())
    assert patched
    assert (scene.reported(), scene.took(Delete)) == ([DISK], [])


def test_volume_is_not_detached_while_a_patch_that_reports_it_may_be_in_flight() -> None:
    scene = Scene([node()], [pod()], [disk()])
    scene.refusing = lambda command: Unknown("timed out") if isinstance(command, Patch) else None
    scene.settle()
    assert scene.reported() == []  # in the cache
    scene.took()
    scene.hide(PODS, key_of_pod()).settle(5)
    assert {type(command) for command in scene.took()} == {Patch}
    scene.refusing = lambda _command: None
    scene.settle(5)
    *_, patch, deletion = scene.took()
    assert decode_object(patch.body)["status"] == {"volumesAttached": None}
    assert isinstance(deletion, Delete)


# Detachment by force.


@pytest.mark.parametrize(
    ("elapsed", "in_use", "ready", "taint", "force", "decision"),
    [
        (0.0, False, True, False, True, Detachment()),
        (0.0, False, False, False, True, Detachment()),
        (0.0, True, True, False, True, Detachment(wait=math.inf)),
        (0.0, True, False, False, True, Detachment(wait=360.001)),
        (360.0, True, False, False, True, Detachment(wait=0.001)),
        (360.1, True, False, False, True, Detachment(reason="timeout")),
        (360.1, True, True, False, True, Detachment(wait=math.inf)),
        (360.1, True, False, False, False, Detachment(wait=math.inf)),
        (360.1, False, True, False, True, Detachment(reason="timeout")),  # as upstream: not verified
        (360.1, False, True, False, False, Detachment()),
        (0.0, True, True, True, True, Detachment(reason="out-of-service")),
        (0.0, False, True, True, True, Detachment(reason="out-of-service")),
        (360.1, True, False, True, False, Detachment(reason="out-of-service")),
        (360.1, True, False, True, True, Detachment(reason="timeout")),
    ],
)
def test_volume_is_detached_by_force(
    elapsed: float, in_use: bool, ready: bool, taint: bool, force: bool, decision: Detachment
) -> None:
    found = decide_detachment(elapsed=elapsed, in_use=in_use, ready=ready, out_of_service=taint, force_on_timeout=force)
    assert (found.reason, found.wait) == (decision.reason, pytest.approx(decision.wait))


def test_mounted_volume_is_detached_from_an_unready_node_after_six_minutes() -> None:
    scene = attached_scene(in_use=True).hide(PODS, key_of_pod())
    scene.settle(400)
    assert scene.attached == {"disk": ["n1"]}  # the node is ready
    scene.show(NODES, node(ready=False, in_use=[DISK], attached=[DISK]))
    assert scene.attached == {}
    assert scene.metric(FORCED_DETACHES, "timeout") == 1
    assert scene.metric(FORCED_DETACHES, "out-of-service") == 0


def test_mounted_volume_is_detached_from_an_unready_node_when_the_time_is_over() -> None:
    scene = attached_scene(in_use=True)
    scene.show(NODES, node(ready=False, in_use=[DISK], attached=[DISK])).hide(PODS, key_of_pod())
    assert scene.settle(359).attached == {"disk": ["n1"]}
    assert scene.settle(2).attached == {}


def test_volume_is_not_detached_by_force_if_that_is_disabled() -> None:
    scene = attached_scene(in_use=True, force_on_timeout=False)
    scene.show(NODES, node(ready=False, in_use=[DISK], attached=[DISK])).hide(PODS, key_of_pod())
    assert scene.settle(3600).attached == {"disk": ["n1"]}
    scene.show(NODES, node(ready=False, in_use=[DISK], attached=[DISK], taints=[OUT_OF_SERVICE]))
    assert scene.attached == {}
    assert scene.metric(FORCED_DETACHES, "out-of-service") == 1
    assert scene.metric(FORCED_DETACHES, "timeout") == 0


def test_mounted_volume_is_detached_from_an_out_of_service_node_at_once() -> None:
    scene = attached_scene(in_use=True)
    scene.show(NODES, node(in_use=[DISK], attached=[DISK], taints=[OUT_OF_SERVICE]))
    assert scene.attached == {"disk": ["n1"]}
    assert scene.hide(PODS, key_of_pod()).attached == {}


def test_mounted_volume_of_a_deleted_node_is_detached_after_six_minutes() -> None:
    scene = attached_scene(in_use=True).hide(PODS, key_of_pod()).hide(NODES, "n1")
    assert scene.settle(350).attached == {"disk": ["n1"]}
    assert scene.settle(11).attached == {}


def test_request_to_detach_is_withdrawn_when_a_pod_needs_the_volume() -> None:
    scene = attached_scene(in_use=True)
    scene.show(NODES, node(ready=False, in_use=[DISK], attached=[DISK])).hide(PODS, key_of_pod()).settle(350)
    scene.show(PODS, pod("next")).settle(60)
    scene.hide(PODS, key_of_pod("next")).settle(350)
    assert scene.attached == {"disk": ["n1"]}


# Multi-attach errors.


def reference(key: str) -> PodReference:
    namespace, name = key.split("/")
    return PodReference(namespace=namespace, name=name, uid=key, resource_version="1")


@pytest.mark.parametrize(
    ("users", "text"),
    [
        ((), "Volume is already exclusively attached to one node and can't be attached to another"),
        (("ns1/pod2",), "Volume is already used by pod(s) pod2"),
        (("ns2/pod2",), "Volume is already used by 1 pod(s) in different namespaces"),
        (("ns2/pod2", "ns1/pod3"), "Volume is already used by pod(s) pod3 and 1 pod(s) in different namespaces"),
        (("ns1/pod2", "ns1/pod3"), "Volume is already used by pod(s) pod2, pod3"),
    ],
)
def test_multi_attach_error_names_only_pods_of_the_same_namespace(users: tuple[str, ...], text: str) -> None:
    spec = VolumeSpec(name="volume-name", plugin="kubernetes.io/csi")
    scheduled = reference("ns1/pod1")
    assert conflict_texts(spec, [scheduled], map(reference, users)) == [
        (scheduled, f'Multi-Attach error for volume "volume-name" {text}')
    ]


def test_multi_attach_error_without_a_pod_on_the_other_node() -> None:
    scene = attached_scene(in_use=True).hide(PODS, key_of_pod())
    scene.show(PODS, pod("other", on="n2"))
    text = "Volume is already exclusively attached to one node and can't be attached to another"
    assert scene.events("other") == [("Warning", "FailedAttachVolume", f'Multi-Attach error for volume "disk" {text}')]


# Restarts.


def test_attachments_are_recovered_from_the_status_of_the_node() -> None:
    scene = attached_scene(in_use=True)
    scene.restart()
    scene.settle(120)
    assert scene.took() == []
    assert scene.controller.actual.state(DISK, "n1") is AttachState.ATTACHED
    spec = scene.controller.actual.spec(DISK)
    assert spec is not None
    assert spec.name == "disk"


@pytest.mark.parametrize("with_volume", [True, False])
def test_attachment_of_a_pod_that_was_deleted_during_a_restart_is_removed(with_volume: bool) -> None:
    scene = attached_scene()
    scene.restart()
    scene.bench.hide(PODS, key_of_pod())
    if not with_volume:
        scene.bench.hide(PERSISTENT_VOLUMES, "disk")
    assert scene.settle(10).attached == {}
    assert scene.reported() == []


def test_volume_of_a_node_that_was_deleted_before_a_restart_is_detached_after_six_minutes() -> None:
    scene = attached_scene(in_use=True).hide(PODS, key_of_pod()).hide(NODES, "n1").settle(100)
    scene.restart()
    scene.run(scene.controller.populate)
    assert scene.settle(350).attached == {"disk": ["n1"]}
    assert scene.settle(11).attached == {}


@pytest.mark.parametrize(
    ("pods", "attached", "state"),
    [
        ([pod()], True, AttachState.ATTACHED),  # confirmed again
        ([pod()], False, AttachState.ATTACHED),  # the attacher completes it
        ([], True, AttachState.DETACHED),
        ([], False, AttachState.DETACHED),
    ],
)
def test_attachment_that_the_node_does_not_report_is_uncertain_after_a_restart(
    pods: list[Object], attached: bool, state: AttachState
) -> None:
    scene = Scene([node()], pods, [disk()], attachments=[attachment(attached=attached)])
    scene.controller._observer.begin()
    assert scene.controller.actual.state(DISK, "n1") is AttachState.UNCERTAIN
    scene.settle().show(NODES, node()).settle(20)
    assert scene.controller.actual.state(DISK, "n1") is state


@pytest.mark.parametrize(
    "known",
    [
        {**attachment(), "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"inlineVolumeSpec": {}}}},
        {**attachment("missing")},
        {**attachment(), "spec": "malformed"},
    ],
)
def test_unknown_attachments_are_skipped_after_a_restart(known: Object) -> None:
    scene = Scene([node()], [], [disk()], attachments=[known]).settle(10)
    assert (scene.took(), scene.controller.actual.volumes()) == ([], [])


def test_volume_in_use_at_the_start_is_not_detached() -> None:
    scene = Scene([node(in_use=[DISK], attached=[DISK])], [], [disk()], attachments=[attachment(attached=True)])
    assert scene.settle(3600).took() == []


@pytest.mark.parametrize("volume", ["kubernetes.io/aws-ebs/aws://vol-1", "broken", "kubernetes.io/csi/only-a-driver"])
def test_volume_of_an_unknown_plugin_stays_in_the_status(volume: str) -> None:
    scene = Scene([node(attached=[volume])]).settle(600)
    assert (scene.took(), scene.reported()) == ([], [volume])


# Passes.


def test_pods_that_no_longer_exist_are_removed_by_the_pass() -> None:
    scene = attached_scene()
    scene.bench.hide(PODS, key_of_pod())
    scene.run(scene.controller.populate)
    assert scene.attached == {}


def test_volume_that_no_longer_has_to_be_attached_is_detached_by_the_pass() -> None:
    scene = attached_scene()
    scene.bench.show(CSI_DRIVERS, {"metadata": {"name": DRIVER}, "spec": {"attachRequired": False}})
    scene.run(scene.controller.populate)
    assert scene.attached == {}
    scene.bench.hide(CSI_DRIVERS, DRIVER)
    scene.run(scene.controller.populate)
    assert scene.attached == {}
    scene.settle(180)
    scene.run(scene.controller.populate)
    assert scene.attached == {"disk": ["n1"]}


@pytest.mark.parametrize(
    ("verifies", "known", "again"),
    [(True, None, 1), (False, None, 0), (True, {"attached": True}, 0), (True, {"attached": False}, 0)],
)
def test_volume_whose_attachment_is_deleted_is_attached_again_by_the_pass(
    verifies: bool, known: Object | None, again: int
) -> None:
    scene = attached_scene(verifies=verifies)
    scene.bench.hide(ATTACHMENTS, scene.bench.tables[ATTACHMENTS].entries()[0].key)
    if known is not None:
        scene.bench.show(ATTACHMENTS, attachment(**known))
    scene.run(scene.controller.verify)
    assert len(scene.took(Create)) == again
    assert scene.reported() == [DISK]


# Metrics.


def test_metrics_count_volumes_by_plugin_and_state() -> None:
    scene = attached_scene()
    plugin = f"kubernetes.io/csi:{DRIVER}"
    assert scene.metric(IN_USE_VOLUMES, "n1", plugin) == 1
    states = ("desired_state_of_world", "actual_state_of_world")
    assert [scene.metric(TOTAL_VOLUMES, plugin, state) for state in states] == [1, 1]
    scene.show(PODS, pod("other", on="n2"))
    assert [scene.metric(TOTAL_VOLUMES, plugin, state) for state in states] == [2, 1]
    assert scene.metric(IN_USE_VOLUMES, "n2", plugin) == 1
    scene.hide(PODS, key_of_pod("other")).hide(PODS, key_of_pod())
    shown = {family: series for family, series in scene.metrics.collect() if series}
    assert not shown.keys() & {TOTAL_VOLUMES, IN_USE_VOLUMES}


# Decisions.


@pytest.mark.parametrize(
    ("known", "progress"),
    [
        (None, AttachmentProgress()),
        (attachment(), AttachmentProgress()),
        ({**attachment(), "status": None}, AttachmentProgress()),
        (attachment(attached=True), AttachmentProgress(done=True)),
        (attachment(attachError={"message": "full"}), AttachmentProgress(error="full")),
        (attachment(attached=True, attachError={"message": "full"}), AttachmentProgress(done=True)),
        (attachment(attached=True, deleted=True), AttachmentProgress(error="volume attachment is being deleted")),
    ],
)
def test_progress_of_an_attachment(known: Object | None, progress: AttachmentProgress) -> None:
    assert attach_progress(known) == progress


@pytest.mark.parametrize(
    ("known", "progress"),
    [
        (None, AttachmentProgress(done=True)),
        (attachment(attached=True, deleted=True), AttachmentProgress()),
        (attachment(deleted=True, detachError={"message": "busy"}), AttachmentProgress(error="busy")),
    ],
)
def test_progress_of_a_detachment(known: Object | None, progress: AttachmentProgress) -> None:
    assert detach_progress(known) == progress


@pytest.mark.parametrize(
    ("before", "volumes", "after"),
    [
        ([], [], None),
        (["a"], ["a"], None),
        (["b", "a"], ["a", "b"], None),
        (["b", "a"], ["a"], ["a"]),
        (["b", "a"], ["a", "c", "b"], ["b", "a", "c"]),
        (["a"], [], []),
    ],
)
def test_status_of_a_node_keeps_the_order_of_its_volumes(
    before: list[str], volumes: list[str], after: list[str] | None
) -> None:
    found = status_with(node(attached=before), volumes, {"c": "/dev/c"})
    assert (None if found is None else [each["name"] for each in found]) == after
    assert found is None or all(each["devicePath"] == ("/dev/c" if each["name"] == "c" else "") for each in found)
