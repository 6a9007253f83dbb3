"""Own writes in the overlay, from their responses."""

from __future__ import annotations

import pytest

from kcm.actors.engine.controller.own_writes import remember
from kcm.actors.reconciliation import create, delete, get_live, patch, update
from kcm.actors.simulation.driver import Bench
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import PODS
from kcm.protocols.versions import ObjectVersion
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import Tables

KEY = "default/p"
POD: Object = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {}, "status": {}}
LAST: Object = {"metadata": {**POD["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize("command", [delete(PODS, KEY, uid="u"), patch(PODS, KEY, {})])
def test_concurrently_deleted_object_is_removed(command: Command) -> None:
    # kube-apiserver returns the last state of the object without a resourceVersion.
    bench = Bench({PODS: [POD]})
    remember(bench.tables, command, Done(encode_object(LAST)))
    assert bench.tables[PODS].get(KEY) is None


def at(version: int) -> Object:
    """Return the pod with this version and its fields in the order of kube-apiserver."""
    return {**POD, "metadata": {**POD["metadata"], "resourceVersion": str(version)}}


@pytest.mark.parametrize(
    ("command", "writer"),
    [
        pytest.param(create(PODS, POD), "me", id="created"),
        pytest.param(update(PODS, at(6)), "me", id="updated"),
        pytest.param(update(PODS, at(7)), "", id="updated without a change"),
        pytest.param(update(PODS, POD), "", id="updated whatever its version was"),
        pytest.param(patch(PODS, KEY, {}), "", id="patched, maybe without a change"),
        pytest.param(get_live(PODS, KEY), "", id="read"),
    ],
)
def test_version_is_of_the_own_write_only_if_that_is_certain(command: Command, writer: str) -> None:
    table = Table(PODS)
    informer = table.claim()
    informer.replace([], 5)
    remember(Tables({PODS.id: table}, writer="me"), command, Done(encode_object(at(7))))
    foreseen = informer.foreseen(ObjectVersion(KEY, "u", 7))
    assert foreseen is not None
    assert foreseen.writer == writer
