"""What responses show of our own writes."""

from __future__ import annotations

import pytest

from actors.engine.controller.own_writes import remember
from actors.reconciliation import delete, patch
from actors.simulation.driver import Bench
from protocols.messages.commands import Command
from protocols.messages.outcomes import Done
from protocols.objects import Object, encode_object
from protocols.resources import PODS

KEY = "default/p"
POD: Object = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {}, "status": {}}
LAST: Object = {"metadata": {**POD["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize("command", [delete(PODS, KEY, uid="u"), patch(PODS, KEY, {})])
def test_an_object_that_somebody_else_deleted_at_the_same_moment_is_gone(command: Command) -> None:
    """kube-apiserver then returns its last state, without a resourceVersion."""
    bench = Bench({PODS: [POD]})
    remember(bench.tables, command, Done(encode_object(LAST)))
    assert bench.tables[PODS].get(KEY) is None
