"""Tests of warnings about SELinux labels of volumes.

Source of the cases: kubernetes v1.36 pkg/controller/volume/selinuxwarning, its tests, those of cache and translator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from kcm.actors.controllers.storage.selinux_warning import (
    CONFLICTS,
    MOUNT_OPTION,
    RECURSIVE,
    SPEC,
    SELinuxConflict,
    SELinuxWarnings,
    VolumeUse,
    VolumeUses,
    conflicts,
    driver_that_changed,
    label_of,
    mounted_labels,
    pod_came_or_went,
    pods_of_bound_claim,
    pods_of_bound_volume,
)
from kcm.actors.reconciliation import Change, Enqueue, RetryQuietly
from kcm.actors.simulation.driver import Bench, Driven, drive, drive_steps
from kcm.protocols.objects import Object, encode_object, key_of
from kcm.protocols.resources import CSI_DRIVERS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.runtime.metrics.registry import Metrics

DRIVER = "example.com"
SAME = "that uses the same volume as this pod with"
END = "If both pods land on the same node, only one of them may access the volume."

# Labels.


@pytest.mark.parametrize(
    ("options", "label"),
    [
        (None, ""),
        ({}, ""),
        ({"user": "system_u", "role": "r", "type": "t", "level": "s0:c1,c2"}, "system_u:r:t:s0:c1,c2"),
        ({"user": "system_u", "level": "s0"}, "system_u:::s0"),
        ({"level": "s0:c1,c2"}, ":::s0:c1,c2"),
    ],
)
def test_label_contains_the_given_parts_only(options: Object | None, label: str) -> None:
    assert label_of(options) == label


@pytest.mark.parametrize(
    ("label", "other", "conflict"),
    [
        ("", "", False),
        ("system_u:system_r:container_t", "", False),
        ("", ":::s0:c1,c2", True),
        ("system_u::", "system_u:system_r:container_t", False),
        ("a:b", "a:b:c", False),
        ("a:b", "a:x:c", True),
        ("a::c:s0", "a:b:x:s0", True),
        ("a::c:s0", ":b::s0", False),
        ("a:b:c:", "a:b:c:s0", True),
        ("a:b:c:s0:c1,c2", ":::s0:c1,c2", False),
        ("a:b:c:s0:c1,c2", ":::s0:c98,c99", True),
        ("a:b:c:s0:extra", "a:b:c:s0", True),
        ("system_u:system_r:label7", "::label7:c0,c1", True),
    ],
)
def test_missing_parts_conflict_with_nothing_except_the_level(label: str, other: str, conflict: bool) -> None:
    assert conflicts(label, other) is conflict
    assert conflicts(other, label) is conflict
    assert not conflicts(label, label)


def test_labels_of_a_volume_are_those_of_the_containers_that_mount_it() -> None:
    def container(level: str, *mounts: str) -> Object:
        found: Object = {"volumeMounts": [{"name": name} for name in mounts]}
        return {**found, "securityContext": {"seLinuxOptions": {"level": level}}} if level else found

    spec = {
        "securityContext": {"seLinuxOptions": {"level": "pod"}},
        "initContainers": [container("a", "first")],
        "containers": [container("", "first", "second"), container("b", "third"), {"volumeDevices": [{"name": "raw"}]}],
        "ephemeralContainers": [container("b", "third")],
    }
    found = mounted_labels({"spec": spec})
    assert found == {"first": {":::a", ":::pod"}, "second": {":::pod"}, "third": {":::b"}}
    assert mounted_labels({"spec": {"containers": [container("", "first")]}}) == {"first": set()}


# The uses of volumes. The cases have upstream's names of labels.

MOUNTED = [
    ("ns1/pod1", "vol1", "system_u:system_r:label1", MOUNT_OPTION),
    ("ns2/pod2", "vol2", "", RECURSIVE),
    ("ns3/pod3-1", "vol3", "", RECURSIVE),
    ("ns3/pod3-2", "vol3", "", RECURSIVE),
    ("ns4/pod4-1", "vol4", "system_u:system_r:label4", MOUNT_OPTION),
    ("ns4/pod4-2", "vol4", "system_u:system_r:label4", MOUNT_OPTION),
    ("ns5/pod5", "vol5", "::label5", MOUNT_OPTION),
    ("ns6/pod6", "vol6", ":system_r:label6", MOUNT_OPTION),
    ("ns7/pod7", "vol7", "::label7:c0,c1", MOUNT_OPTION),
    ("ns8/pod8", "vol8", "", MOUNT_OPTION),
]


def uses_with(rows: Iterable[tuple[str, str, str, str]]) -> VolumeUses:
    uses = VolumeUses()
    for pod, volume, label, policy in rows:
        assert uses.add(volume, pod, VolumeUse(label, policy), driver=DRIVER) == []
    return uses


@pytest.mark.parametrize(
    ("pod", "volume", "use", "found"),
    [
        ("t/new", "vol-new", VolumeUse("system_u:system_r:label-new", MOUNT_OPTION), []),
        ("t/new", "vol1", VolumeUse("system_u:system_r:label1", MOUNT_OPTION), []),
        (
            "t/new",
            "vol1",
            VolumeUse("system_u:system_r:label-new", MOUNT_OPTION),
            [("SELinuxLabel", "system_u:system_r:label-new", "ns1/pod1", "system_u:system_r:label1")],
        ),
        ("t/new", "vol1", VolumeUse("", RECURSIVE), [("SELinuxChangePolicy", RECURSIVE, "ns1/pod1", MOUNT_OPTION)]),
        ("ns2/pod2", "vol2", VolumeUse("system_u:system_r:label-new", MOUNT_OPTION), []),
        (
            "ns3/pod3-1",
            "vol3",
            VolumeUse("system_u:system_r:label-new", MOUNT_OPTION),
            [("SELinuxChangePolicy", MOUNT_OPTION, "ns3/pod3-2", RECURSIVE)],
        ),
        ("t/new", "vol5", VolumeUse("system_u:system_r:label5", MOUNT_OPTION), []),
        ("t/new", "vol5", VolumeUse("::label6", MOUNT_OPTION), [("SELinuxLabel", "::label6", "ns5/pod5", "::label5")]),
        ("t/new", "vol6", VolumeUse("system_u::label6", MOUNT_OPTION), []),
        (
            "t/new",
            "vol7",
            VolumeUse("system_u:system_r:label7", MOUNT_OPTION),
            [("SELinuxLabel", "system_u:system_r:label7", "ns7/pod7", "::label7:c0,c1")],
        ),
        ("t/new", "vol8", VolumeUse("system_u:system_r:label8", MOUNT_OPTION), []),
        (
            "t/new",
            "vol7",
            VolumeUse("", RECURSIVE),
            [
                ("SELinuxChangePolicy", RECURSIVE, "ns7/pod7", MOUNT_OPTION),
                ("SELinuxLabel", "", "ns7/pod7", "::label7:c0,c1"),
            ],
        ),
    ],
)
def test_conflicts_of_an_added_pod(
    pod: str, volume: str, use: VolumeUse, found: list[tuple[str, str, str, str]]
) -> None:
    uses = uses_with(MOUNTED)
    expected = [SELinuxConflict(what, pod, mine, other, its) for what, mine, other, its in found]
    both = {*expected, *(conflict.reversed for conflict in expected)}
    assert set(uses.add(volume, pod, use, driver=DRIVER)) == uses.conflicts() == both
    assert uses.add(volume, pod, use, driver=DRIVER) == []  # known, and reported already
    assert uses.conflicts() == both
    uses.remove(pod)
    assert uses.conflicts() == set()


def test_conflicts_of_other_pods_remain() -> None:
    uses = VolumeUses()
    for name in ("a", "b", "c"):
        uses.add("v", f"ns/{name}", VolumeUse(f":::{name}", MOUNT_OPTION), driver=DRIVER)
    assert len(uses.conflicts()) == 6
    uses.remove("ns/b")
    assert {(found.pod, found.other) for found in uses.conflicts()} == {("ns/a", "ns/c"), ("ns/c", "ns/a")}
    assert uses.pods_of_driver(DRIVER) == {"ns/a", "ns/c"}
    uses.remove("ns/a")
    uses.remove("ns/c")
    uses.remove("ns/c")
    assert (uses.conflicts(), uses.pods_of_driver(DRIVER)) == (set(), set())


def test_names_of_other_namespaces_are_not_revealed() -> None:
    near = SELinuxConflict("SELinuxLabel", "a/x", ":::1", "a/y", ":::2")
    assert near.message == f'SELinuxLabel ":::1" conflicts with pod y {SAME} SELinuxLabel ":::2". {END}'
    far = SELinuxConflict("SELinuxLabel", "a/x", ":::1", "b/y", ":::2")
    assert far.message == (f'SELinuxLabel":::1" conflicts with another pod {SAME} a different SELinuxLabel. {END}')


# The reconciler.


def pod(
    name: str, level: str = "", *, policy: str = "", claim: str = "data", phase: str = "Running", **more: Any
) -> Object:
    context: Object = {"seLinuxOptions": {"level": level}} if level else {}
    if policy:
        context["seLinuxChangePolicy"] = policy
    spec = {
        "securityContext": context,
        "containers": [{"name": "c", "volumeMounts": [{"name": "v"}]}],
        "volumes": [{"name": "empty", "emptyDir": {}}, {"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
    }
    meta = {"name": name, "namespace": "ns", "uid": f"uid-of-{name}"}
    return {"metadata": meta, "spec": {**spec, **more}, "status": {"phase": phase}}


def claim(phase: str = "Bound", volume: str = "disk") -> Object:
    meta = {"name": "data", "namespace": "ns", "uid": "claim"}
    return {"metadata": meta, "spec": {"volumeName": volume}, "status": {"phase": phase}}


CSI = {"csi": {"driver": DRIVER, "volumeHandle": "h"}}


def disk(source: Object = CSI, uid: str = "claim") -> Object:
    reference = {"namespace": "ns", "name": "data", "uid": uid}
    return {"metadata": {"name": "disk"}, "spec": {**source, "claimRef": reference}}


def driver(name: str = DRIVER, *, mounts: bool | None = True) -> Object:
    return {"metadata": {"name": name}, "spec": {} if mounts is None else {"seLinuxMount": mounts}}


class Scene:
    """Bench with the reconciler. By default the claim is bound, and its driver supports mounts with a label."""

    def __init__(
        self,
        *pods: Object,
        claims: Iterable[Object] = (claim(),),
        volumes: Iterable[Object] = (disk(),),
        drivers: Iterable[Object] = (driver(),),
        mounts: bool = True,
    ) -> None:
        objects = {
            PODS: list(pods),
            PERSISTENT_VOLUME_CLAIMS: claims,
            PERSISTENT_VOLUMES: volumes,
            CSI_DRIVERS: drivers,
        }
        self.bench, self.metrics = Bench(objects, indexes=SPEC.indexes), Metrics()
        self.reconciler = SELinuxWarnings(
            tables=self.bench.tables,
            log=CapturingLogger(),  # type: ignore[arg-type]
            metrics=self.metrics,
            mounts=mounts,
        )

    def reconcile(self, name: str, raises: type[Exception] | None = None) -> Driven:
        driven = drive(self.reconciler, f"ns/{name}", self.bench.accept, tables=self.bench.tables, raises=raises)
        assert driven.commands == []
        return driven

    def shown(self) -> set[tuple[str, ...]]:
        """Return property and names of the pods of each shown conflict."""
        found = {family.name: series for family, series in self.metrics.collect()}
        return {(labels[0], labels[2], labels[5]) for labels, _ in found.get(CONFLICTS.name, [])}


def labels(driven: Driven) -> list[str]:
    return [f"{reason} {record.name}" for record, (_, reason, _) in zip(driven.records, driven.events, strict=True)]


def test_both_pods_of_a_conflict_are_warned_once() -> None:
    scene = Scene(pod("one", "s0:c1,c2"), pod("two", "s0:c98,c99"))
    assert scene.reconcile("one").events == []
    driven = scene.reconcile("two")
    start, end = "SELinuxLabel", "that uses the same volume as this pod with SELinuxLabel"
    assert driven.events == [
        (
            "Normal",
            "SELinuxLabelConflict",
            f'{start} ":::s0:c98,c99" conflicts with pod one {end} ":::s0:c1,c2". {END}',
        ),
        (
            "Normal",
            "SELinuxLabelConflict",
            f'{start} ":::s0:c1,c2" conflicts with pod two {end} ":::s0:c98,c99". {END}',
        ),
    ]
    assert [record.name for record in driven.records] == ["two", "one"]
    assert scene.shown() == {("SELinuxLabel", "one", "two"), ("SELinuxLabel", "two", "one")}
    assert scene.reconcile("two").events == []
    scene.bench.hide(PODS, "ns/one")
    assert scene.reconcile("one").events == []
    assert scene.shown() == set()


@pytest.mark.parametrize(
    ("first", "second", "events"),
    [
        (pod("one", "s0"), pod("two", "s0"), []),
        (pod("one", "s0", policy=RECURSIVE), pod("two", "s1", policy=RECURSIVE), []),
        (
            pod("one", "s0", policy=RECURSIVE),
            pod("two", "s1", policy=MOUNT_OPTION),
            [f"{what}Conflict {name}" for what in ("SELinuxChangePolicy", "SELinuxLabel") for name in ("two", "one")],
        ),
        (pod("one", policy=MOUNT_OPTION), pod("two", policy=RECURSIVE), []),  # an empty label implies Recursive
        (pod("one", "s0", phase="Pending"), pod("two", "s1"), ["SELinuxLabelConflict two", "SELinuxLabelConflict one"]),
        (pod("one", "s0", phase=""), pod("two", "s1"), ["SELinuxLabelConflict two", "SELinuxLabelConflict one"]),
        (pod("one", "s0", phase="Succeeded"), pod("two", "s1"), []),
        (pod("one", "s0", phase="Failed"), pod("two", "s1"), []),
    ],
)
def test_conflicts_depend_on_label_policy_and_phase(first: Object, second: Object, events: list[str]) -> None:
    scene = Scene(first, second)
    assert scene.reconcile("one").events == []
    assert labels(scene.reconcile("two")) == events


@pytest.mark.parametrize(
    ("source", "drivers", "conflict"),
    [
        (CSI, [driver()], True),
        (CSI, [driver(mounts=False)], False),
        (CSI, [driver(mounts=None)], False),
        (CSI, [], False),
        ({"fc": {"targetWWNs": ["w"], "lun": 1}}, [], True),
        ({"iscsi": {"targetPortal": "p", "iqn": "i", "lun": 1}}, [], True),
        ({"awsElasticBlockStore": {"volumeID": "v"}}, [driver("ebs.csi.aws.com")], True),
        ({"awsElasticBlockStore": {"volumeID": "v"}}, [], False),
        ({"nfs": {"server": "s", "path": "/"}}, [], False),
        ({"hostPath": {"path": "/"}}, [], False),
    ],
)
def test_driver_decides_whether_a_volume_is_mounted_with_a_label(
    source: Object, drivers: list[Object], conflict: bool
) -> None:
    scene = Scene(pod("one", "s0"), pod("two", "s1"), volumes=[disk(source)], drivers=drivers)
    scene.reconcile("one")
    assert bool(scene.reconcile("two").events) is conflict


def test_labels_are_not_compared_without_the_feature_gate() -> None:
    scene = Scene(pod("one", "s0"), pod("two", "s1"), mounts=False)
    scene.reconcile("one")
    assert scene.reconcile("two").events == []


def test_change_of_a_driver_is_evaluated_for_its_pods() -> None:
    scene = Scene(pod("one", "s0"), pod("two", "s1"), drivers=[driver(mounts=False)])
    scene.reconcile("one")
    scene.reconcile("two")
    scene.bench.show(CSI_DRIVERS, driver())
    running = scene.reconciler.driver_changed(DRIVER)
    keys = [Enqueue("selinux_warning", "ns/one"), Enqueue("selinux_warning", "ns/two")]
    assert drive_steps(running, scene.bench.accept, tables=scene.bench.tables).enqueued == keys
    assert labels(scene.reconcile("one"))[0] == "SELinuxChangePolicyConflict one"  # the other one is still Recursive
    assert "SELinuxLabelConflict two" in labels(scene.reconcile("two"))
    assert {what for what, *_ in scene.shown()} == {"SELinuxLabel"}


@pytest.mark.parametrize(
    "missing",
    [
        {"claims": []},
        {"claims": [claim("Pending", "")]},
        {"volumes": []},
        {"volumes": [disk(uid="another")]},
    ],
)
def test_pod_with_an_unbound_claim_is_retried(missing: Any) -> None:
    scene = Scene(pod("one", "s0"), pod("two", "s1"), **missing)
    assert scene.reconcile("one", RetryQuietly).events == []
    assert scene.reconcile("two", RetryQuietly).events == []


def test_volume_with_two_labels_in_a_pod_is_a_warning() -> None:
    inner = {"name": "d", "volumeMounts": [{"name": "v"}], "securityContext": {"seLinuxOptions": {"level": "s9"}}}
    containers = [{"name": "c", "volumeMounts": [{"name": "v"}]}, inner]
    scene = Scene(pod("one", "s0", containers=containers))
    text = 'Volume "v" is mounted twice with different SELinux labels inside this pod'
    assert scene.reconcile("one", RetryQuietly).events == [("Warning", "MultipleSELinuxLabels", text)]


def test_events_end_at_a_pod_that_does_not_exist() -> None:
    scene = Scene(pod("one", "s0"), pod("two", "s1"))
    scene.reconcile("one")
    scene.bench.hide(PODS, "ns/one")
    assert labels(scene.reconcile("two")) == ["SELinuxLabelConflict two"]


def test_pod_that_replaces_another_one_leaves_no_conflicts() -> None:
    scene = Scene(pod("one", "s0"), pod("two", "s1"))
    scene.reconcile("one")
    scene.reconcile("two")
    other = pod("one", "s5", volumes=[{"name": "v", "emptyDir": {}}])
    scene.bench.show(PODS, {**other, "metadata": {**other["metadata"], "uid": "next"}})
    scene.reconcile("one")
    assert scene.shown() == set()


def test_ephemeral_volume_of_another_pod_is_not_used() -> None:
    volumes = [{"name": "v", "ephemeral": {}}]
    meta = {"name": "one-v", "namespace": "ns", "uid": "claim"}
    foreign = {**claim(), "metadata": meta}
    scene = Scene(pod("one", "s0", volumes=volumes), pod("two", "s1"), claims=[foreign, claim()])
    scene.reconcile("two")
    assert scene.reconcile("one", RetryQuietly).events == []
    assert scene.shown() == set()


def change(new: Object, old: Object | None = None, type_: str = "") -> Change:
    meta = new["metadata"]
    key = key_of(new) if "namespace" in meta else meta["name"]
    previous = b"" if old is None else encode_object(old)
    type_ = type_ or ("ADDED" if old is None else "MODIFIED")
    return Change(type=type_, key=key, raw=encode_object(new), controller=None, previous=previous)


USED = pod("one", "s0")
UNBOUND = claim("Pending", "")
FREE = {"metadata": {"name": "disk"}, "spec": CSI}
RESERVED = {"metadata": {"name": "disk"}, "spec": {**CSI, "claimRef": {"namespace": "ns", "name": "data"}}}


@pytest.mark.parametrize(
    ("to", "seen", "keys"),
    [
        (pod_came_or_went, change(USED), ["ns/one"]),
        (pod_came_or_went, change(USED, type_="DELETED"), ["ns/one"]),
        (pod_came_or_went, change(USED, pod("one", phase="Pending")), []),
        (pod_came_or_went, change(pod("one", phase="Failed"), USED), ["ns/one"]),
        (pods_of_bound_claim, change(claim()), ["ns/one"]),
        (pods_of_bound_claim, change(UNBOUND), []),
        (pods_of_bound_claim, change(claim(), UNBOUND), ["ns/one"]),
        (pods_of_bound_claim, change(claim(), claim("Pending")), ["ns/one"]),
        (pods_of_bound_claim, change(claim(), claim()), []),
        (pods_of_bound_volume, change(disk()), ["ns/one"]),
        (pods_of_bound_volume, change(FREE), []),
        (pods_of_bound_volume, change(RESERVED), []),
        (pods_of_bound_volume, change(disk(), RESERVED), ["ns/one"]),
        (pods_of_bound_volume, change(disk(), disk()), []),
        (pods_of_bound_volume, change(FREE, disk()), []),
        (driver_that_changed, change(driver(mounts=None)), [DRIVER]),
        (driver_that_changed, change(driver(), driver(mounts=False)), [DRIVER]),
        (driver_that_changed, change(driver(mounts=None), driver(mounts=False)), []),
        (driver_that_changed, change(driver(), driver()), []),
        (driver_that_changed, change(driver(), type_="DELETED"), [DRIVER]),
        (driver_that_changed, change(driver(mounts=None), type_="DELETED"), []),
    ],
)
def test_keys_of_a_change(to: Any, seen: Change, keys: list[str]) -> None:
    scene = Scene(USED, pod("other", claim="another"))
    assert list(to(seen, scene.bench.tables)) == keys
