"""Tests of the finalizer of VolumeAttributesClasses.

Source: kubernetes v1.36 pkg/controller/volume/vacprotection.
"""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import CapturingLogger

from kcm.actors.controllers.storage.attributes_class_protection import (
    SPEC,
    AttributesClassProtection,
    classes_left_by,
    classes_of,
)
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import Bench, drive, failing
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Update
from kcm.protocols.messages.outcomes import ServerFailure
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Object, encode_object, finalizers_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTRIBUTES_CLASSES

OURS = "kubernetes.io/vac-protection"


def speed(*, finalizers: tuple[str, ...] = (), deleted: bool = False) -> Object:
    meta: Object = {"name": "fast", "finalizers": list(finalizers)}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta, "driverName": "example.com"}


def volume(of: str = "") -> Object:
    return {"metadata": {"name": "v"}, "spec": {"volumeAttributesClassName": of} if of else {}}


def claim(of: str | None = None, *, current: str | None = None, target: str | None = None) -> Object:
    status: Object = {} if current is None else {"currentVolumeAttributesClassName": current}
    if target is not None:
        status["modifyVolumeStatus"] = {"targetVolumeAttributesClassName": target, "status": "Pending"}
    spec = {} if of is None else {"volumeAttributesClassName": of}
    return {"metadata": {"name": "c", "namespace": "default"}, "spec": spec, "status": status}


def bench_of(attributes_class: Object, volumes: tuple[Object, ...] = (), claims: tuple[Object, ...] = ()) -> Bench:
    objects = {
        VOLUME_ATTRIBUTES_CLASSES: [attributes_class],
        PERSISTENT_VOLUMES: volumes,
        PERSISTENT_VOLUME_CLAIMS: claims,
    }
    return Bench(objects, indexes=SPEC.indexes)


def protection(bench: Bench) -> AttributesClassProtection:
    return AttributesClassProtection(tables=bench.tables, log=CapturingLogger())  # type: ignore[arg-type]


GOING = speed(deleted=True, finalizers=("a.b/c", OURS))


@pytest.mark.parametrize(
    ("before", "users", "after"),
    [
        (speed(), {}, (OURS,)),
        (speed(finalizers=("a.b/c",)), {}, ("a.b/c", OURS)),
        (speed(finalizers=(OURS,)), {}, None),
        (GOING, {}, ("a.b/c",)),
        (GOING, {"volumes": (volume("slow"),), "claims": (claim("slow"),)}, ("a.b/c",)),
        (GOING, {"volumes": (volume("fast"),)}, None),
        (GOING, {"claims": (claim("fast"),)}, None),
        (GOING, {"claims": (claim("slow", current="fast"),)}, None),
        (GOING, {"claims": (claim("slow", current="slow", target="fast"),)}, None),
        (speed(deleted=True, finalizers=("a.b/c",)), {}, None),
    ],
)
def test_finalizer_follows_the_use_of_a_class(before: Object, users: Any, after: tuple[str, ...] | None) -> None:
    bench = bench_of(before, **users)
    written = drive(protection(bench), "fast", bench.accept, tables=bench.tables).of(Update)
    assert len(written) == (after is not None)
    found = bench.tables[VOLUME_ATTRIBUTES_CLASSES].get("fast")
    assert found is not None
    assert finalizers_of(found) == (finalizers_of(before) if after is None else after)


@pytest.mark.parametrize("before", [speed(), GOING])
def test_failed_update_is_retried(before: Object) -> None:
    bench = bench_of(before)
    refusing = failing(after=0, outcome=ServerFailure(), to=Update, otherwise=bench.accept)
    drive(protection(bench), "fast", refusing, tables=bench.tables, raises=CommandError)
    assert drive(protection(bench), "gone", bench.accept, tables=bench.tables).commands == []


def test_classes_of_a_claim_are_the_current_and_desired_ones() -> None:
    assert classes_of(claim("a", current="b", target="c")) == {"a", "b", "c"}
    assert classes_of(claim("", current="a")) == {"a"}
    assert classes_of(claim()) == classes_of(volume()) == set()


def change(before: Object | None, after: Object, type_: EventType = EventType.MODIFIED) -> Change:
    previous = b"" if before is None else encode_object(before)
    return Change(type=type_, key="default/c", raw=encode_object(after), controller=None, previous=previous)


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        (change(None, claim("a"), EventType.ADDED), []),
        (change(claim("a"), claim("a")), []),
        (change(claim("a"), claim("b", current="a")), []),
        (change(claim("b", current="a"), claim("b", current="b")), ["a"]),
        (change(volume("a"), volume("b")), ["a"]),
        (change(None, claim("a", current="b"), EventType.DELETED), ["a", "b"]),
    ],
)
def test_class_is_enqueued_when_it_is_not_used_any_more(seen: Change, left: list[str]) -> None:
    assert list(classes_left_by(seen, {})) == left
