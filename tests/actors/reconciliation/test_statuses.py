"""Behaviour of patch_status for fields that the server ignores."""

from __future__ import annotations

from kcm.actors.reconciliation import patch_status
from kcm.actors.simulation.driver import Bench, drive_steps
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import REPLICASETS
from tests.support.objects import replica_set


def test_status_that_the_server_ignores_is_written_once() -> None:
    web = replica_set("web", metadata={"uid": "u1", "resourceVersion": "7"}, status={"replicas": 1})
    bench = Bench({REPLICASETS: [web]})
    sets = bench.tables[REPLICASETS]

    def ignore(_command: Command) -> Outcome:
        return Done(encode_object(web))

    def written(status: Object) -> int:
        return len(drive_steps(patch_status(sets, web, status), ignore, tables=bench.tables).commands)

    assert [written({"replicsa": 2}), written({"replicsa": 2}), written({"replicsa": 3})] == [1, 0, 1]
    assert [write.fields for write in bench.tables.ineffective.unreported] == [("status.replicsa",)]
