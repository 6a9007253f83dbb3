"""Tests of the finalizer of volumes.

Source of the cases: kubernetes v1.36 pkg/controller/volume/pvprotection.
"""

from __future__ import annotations

import pytest

from kcm.actors.controllers.storage.volume_protection import VolumeProtection
from kcm.actors.simulation.driver import Bench, drive, failing
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Update
from kcm.protocols.messages.outcomes import ServerFailure
from kcm.protocols.objects import Object, finalizers_of
from kcm.protocols.resources import PERSISTENT_VOLUMES

OURS = "kubernetes.io/pv-protection"


def volume(phase: str = "Available", *, finalizers: tuple[str, ...] = (), deleted: bool = False) -> Object:
    meta: Object = {"name": "v", "finalizers": list(finalizers)}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta, "spec": {}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (volume(), (OURS,)),
        (volume(finalizers=("a.b/c",)), ("a.b/c", OURS)),
        (volume(finalizers=(OURS,)), None),
        (volume(deleted=True, finalizers=("a.b/c", OURS)), ("a.b/c",)),
        (volume("Released", deleted=True, finalizers=(OURS,)), ()),
        (volume("Bound", deleted=True, finalizers=(OURS,)), None),
        (volume(deleted=True, finalizers=("a.b/c",)), None),
    ],
)
def test_finalizer_is_kept_while_the_volume_is_bound(before: Object, after: tuple[str, ...] | None) -> None:
    bench = Bench({PERSISTENT_VOLUMES: [before]})
    protection = VolumeProtection(tables=bench.tables)
    written = drive(protection, "v", bench.accept, tables=bench.tables).of(Update)
    assert len(written) == (after is not None)
    found = bench.tables[PERSISTENT_VOLUMES].get("v")
    assert found is not None
    assert finalizers_of(found) == (finalizers_of(before) if after is None else after)


@pytest.mark.parametrize("before", [volume(), volume(deleted=True, finalizers=(OURS,))])
def test_failed_update_is_retried(before: Object) -> None:
    bench = Bench({PERSISTENT_VOLUMES: [before]})
    refusing = failing(after=0, outcome=ServerFailure(), to=Update, otherwise=bench.accept)
    drive(VolumeProtection(tables=bench.tables), "v", refusing, tables=bench.tables, raises=CommandError)
    assert drive(VolumeProtection(tables=bench.tables), "gone", bench.accept, tables=bench.tables).commands == []
