"""Own writes in the overlay, from their responses."""

from __future__ import annotations

import pytest

from kcm.actors.engine.controller.own_writes import remember
from kcm.actors.reconciliation import delete, patch
from kcm.actors.simulation.driver import Bench
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import PODS

KEY = "default/p"
POD: Object = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {}, "status": {}}
LAST: Object = {"metadata": {**POD["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize("command", [delete(PODS, KEY, uid="u"), patch(PODS, KEY, {})])
def test_concurrently_deleted_object_is_removed(command: Command) -> None:
    # kube-apiserver returns the last state of the object without a resourceVersion.
    bench = Bench({PODS: [POD]})
    remember(bench.tables, command, Done(encode_object(LAST)))
    assert bench.tables[PODS].get(KEY) is None
