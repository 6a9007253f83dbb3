"""Decisions of the hollow attacher, and its CSIDriver."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.hollow import behaviour
from kcm.actors.hollow.attacher import FailedCall, HollowAttacher, attach_failure, attacher_spec
from kcm.actors.simulation.driver import Bench, created_names, deleted_keys, drive_steps
from kcm.protocols.objects import Object
from kcm.protocols.resources import CSI_DRIVERS, NODES, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def attachment(name: str = "a", *, volume: str = "v", node: str = "n", driver: str = behaviour.DRIVER) -> Object:
    source = {"persistentVolumeName": volume}
    spec = {"attacher": driver, "nodeName": node, "source": source}
    return {"metadata": {"name": name}, "spec": spec, "status": {"attached": True}}


def volume(*modes: str, meta: Any = None, **annotations: str) -> Object:
    metadata = {"name": "v", "annotations": annotations, **(meta or {})}
    return {"metadata": metadata, "spec": {"accessModes": list(modes or ("ReadWriteOnce",))}}


def node(**annotations: str) -> Object:
    return {"metadata": {"name": "n", "annotations": annotations}}


LIMITED = {behaviour.ATTACH_LIMIT: "1"}
ELSEWHERE = (attachment("b", node="m"),)
CASES: dict[str, tuple[Object, Object | None, Object | None, tuple[Object, ...], str]] = {
    "nothing prevents it": (attachment(), volume(), node(), (), ""),
    "no volume": (attachment(), None, node(), (), 'could not get PersistentVolume: persistentvolume "v" not found'),
    "deleted volume": (attachment(), volume(meta=DELETED), node(), (), 'PersistentVolume "v" is marked for deletion'),
    "no node": (attachment(), volume(), None, (), 'csinode.storage.k8s.io "n" not found'),
    "unregistered driver": (
        attachment(driver="d.io"),
        volume(),
        node(),
        (),
        "CSINode n does not contain driver d.io",
    ),
    "error of the volume": (
        attachment(),
        volume(**{behaviour.ATTACH_ERROR: "no disk"}),
        node(**{behaviour.ATTACH_ERROR: "no room"}),
        (),
        "rpc error: code = Internal desc = no disk",
    ),
    "attached elsewhere": (
        attachment(),
        volume(),
        node(),
        ELSEWHERE,
        "rpc error: code = FailedPrecondition desc = volume v is attached to node m",
    ),
    "for many nodes": (attachment(), volume("ReadWriteMany"), node(), ELSEWHERE, ""),
    "another volume elsewhere": (attachment(), volume(), node(), (attachment("b", volume="w", node="m"),), ""),
    "limit reached": (
        attachment(),
        volume(),
        node(**LIMITED),
        (attachment("b", volume="w"),),
        "rpc error: code = ResourceExhausted desc = node n has 1 of at most 1 volumes attached",
    ),
    "limit of another driver": (attachment(), volume(), node(**LIMITED), (attachment("b", driver="d.io"),), ""),
}


@pytest.mark.parametrize("case", CASES)
def test_attachments_fail_where_a_driver_would_fail(case: str) -> None:
    given, found, on, others, message = CASES[case]
    failed = attach_failure(given, found, on, others)
    assert ("" if failed is None else failed.message) == message
    if message.startswith("rpc error: code = ResourceExhausted"):
        assert failed == FailedCall(message, 8)


@pytest.mark.parametrize(
    ("present", "attach", "deleted", "created"),
    [
        (None, True, [], True),
        (True, True, [], False),
        (False, False, [], False),
        (False, True, [behaviour.DRIVER], True),
        (True, False, [behaviour.DRIVER], True),
    ],
)
def test_driver_is_replaced_if_it_differs(
    present: bool | None, attach: bool, deleted: list[str], created: bool
) -> None:
    drivers = [] if present is None else [{"metadata": {"name": behaviour.DRIVER}, "spec": {"attachRequired": present}}]
    objects = {CSI_DRIVERS: drivers, VOLUME_ATTACHMENTS: (), PERSISTENT_VOLUMES: (), NODES: ()}
    bench = Bench(objects, indexes=attacher_spec(attach=attach).indexes)
    attacher = HollowAttacher(tables=bench.tables, clock=bench.clock, attach=attach)
    driven = drive_steps(attacher.make_driver(), bench.accept, tables=bench.tables)
    assert (deleted_keys(driven), created_names(driven)) == (deleted, [behaviour.DRIVER] if created else [])


def test_invalid_annotation_of_a_volume_is_reported_once() -> None:
    named = volume(meta={"uid": "u"})
    named["metadata"]["annotations"] = {behaviour.MOUNT_SECONDS: "soon", behaviour.ATTACH_SECONDS: "5"}
    objects = {CSI_DRIVERS: (), VOLUME_ATTACHMENTS: (), PERSISTENT_VOLUMES: (named,), NODES: ()}
    bench = Bench(objects, indexes=attacher_spec(attach=True).indexes)
    attacher = HollowAttacher(tables=bench.tables, clock=bench.clock, attach=True)
    events = [drive_steps(attacher.release("v"), bench.accept, tables=bench.tables).events for _ in range(2)]
    text = "annotation hollow.kcm.dev/mount-seconds: 'soon' is not a number of seconds >= 0"
    assert events == [[("Warning", "InvalidAnnotation", text)], []]
