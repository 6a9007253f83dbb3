"""StorageVersion garbage collector: upstream's cases in a simulated cluster, and failures.

Cases: kubernetes v1.36 pkg/controller/storageversiongc/gc_controller_test.go.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.apimachinery.storageversiongc import SPEC, StorageVersionCollector, with_servers
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import NOW, Driven, StillClock, drive_steps
from kcm.actors.simulation.trials.apimachinery.storageversionmigrator import serve_migrations
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Delete, Get, Update
from kcm.protocols.messages.outcomes import Conflict, Done, Forbidden, NotFound, Outcome, ServerFailure
from kcm.protocols.objects import Object, encode_object, make_key
from kcm.protocols.resources import LEASES, STORAGE_VERSIONS
from kcm.protocols.times import format_time
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.tables.tables import Tables

NAME = "k8s.test.resources"
OPTIONS = read_options(["--feature-gates=APIServerIdentity=true,StorageVersionAPI=true"])


def lease(number: int, identity: str = "kube-apiserver") -> Object:
    labels = {"apiserver.kubernetes.io/identity": identity} if identity else {}
    name = f"kube-apiserver-{number}"
    meta = {"name": name, "namespace": "kube-system", "labels": labels}
    return {"metadata": meta, "spec": {"holderIdentity": name}}


def server(number: int, version: str) -> Object:
    return {
        "apiServerID": f"kube-apiserver-{number}",
        "encodingVersion": version,
        "decodableVersions": [version],
    }


def status(*servers: Object, common: str | None = None, **more: Any) -> Object:
    return {
        "storageVersions": list(servers),
        **({} if common is None else {"commonEncodingVersion": common}),
        **more,
    }


def found(cluster: SimulatedCluster) -> Object | None:
    version = cluster.get(STORAGE_VERSIONS, NAME)
    return None if version is None else version["status"]


def play(cluster: SimulatedCluster, *leases: Object, given: Object, deleted: int | None) -> Object | None:
    """Create a StorageVersion, start the controller, delete a Lease, and return the final status."""
    serve_migrations(cluster)
    for each in leases:
        cluster.create(LEASES, each)
    cluster.create(STORAGE_VERSIONS, {"metadata": {"name": NAME}, "spec": {}})
    cluster.merge(STORAGE_VERSIONS, NAME, {"status": given}, subresource="status")
    cluster.manager(controllers=[SPEC], options=OPTIONS)
    cluster.run_for(5.0)
    if deleted is not None:
        cluster.delete(LEASES, make_key("kube-system", f"kube-apiserver-{deleted}"))
        cluster.run_for(5.0)
    return found(cluster)


THREE = [lease(1), lease(2), lease(3)]


def test_remaining_servers_agree_on_a_version(cluster: SimulatedCluster) -> None:
    given = status(server(1, "v1"), server(2, "v2"), server(3, "v2"))
    final = play(cluster, *THREE, given=given, deleted=1)
    assert final is not None
    assert final["storageVersions"] == [server(2, "v2"), server(3, "v2")]
    assert final["commonEncodingVersion"] == "v2"
    [condition] = final["conditions"]
    assert (condition["type"], condition["status"]) == ("AllEncodingVersionsEqual", "True")
    assert (condition["reason"], condition["message"]) == ("CommonEncodingVersionSet", "Common encoding version set")


def test_lease_of_another_server_changes_nothing(cluster: SimulatedCluster) -> None:
    given = status(server(1, "v1"), server(3, "v2"))
    assert play(cluster, *THREE, given=given, deleted=2) == given


def test_entry_without_a_lease_is_removed(cluster: SimulatedCluster) -> None:
    given = status(server(1, "v1"), server(2, "v2"), server(3, "v2"), server(4, "v2"))
    final = play(cluster, *THREE, given=given, deleted=None)
    assert final is not None
    assert final["storageVersions"] == given["storageVersions"][:3]
    assert "commonEncodingVersion" not in final
    [condition] = final["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "CommonEncodingVersionUnset")


def test_last_entry_ends_the_storage_version(cluster: SimulatedCluster) -> None:
    assert play(cluster, lease(1), given=status(server(1, "v1"), common="v1"), deleted=1) is None


@pytest.mark.parametrize("identity", ["", "kube-scheduler"])
def test_lease_without_the_identity_label_is_none(cluster: SimulatedCluster, identity: str) -> None:
    given = status(server(1, "v1"), server(2, "v1"), common="v1")
    final = play(cluster, lease(1), lease(2, identity), given=given, deleted=None)
    assert final is not None
    assert final["storageVersions"] == [server(1, "v1")]


def version(given: Object) -> Object:
    return {"metadata": {"name": NAME, "uid": "u", "resourceVersion": "7"}, "spec": {}, "status": given}


def drive(
    method: str, key: str, *, leases: dict[int, Outcome], given: Object, written: Outcome | None = None, **more: Any
) -> Driven:
    def answer(command: Command) -> Outcome:
        match command:
            case Get(LEASES.id, name):
                return leases.get(int(name.rpartition("-")[2]), NotFound())
            case Get():
                return Done(encode_object(version(given)))
            case Update() | Delete():
                return written or Done(b"{}")
        return Done(orjson.dumps({"items": [version(given)]}))

    collector = StorageVersionCollector(clock=StillClock(), log=quiet_log())
    return drive_steps(getattr(collector, method)(key), answer, tables=Tables({}), **more)


TWO = status(server(1, "v1"), server(2, "v1"), common="v1")
ALIVE = Done(encode_object(lease(1)))


def test_recreated_lease_changes_nothing() -> None:
    assert drive("remove_server", "kube-apiserver-1", leases={1: ALIVE}, given=TWO).of(Update, Delete) == []


@pytest.mark.parametrize("failure", [ServerFailure("down"), Forbidden("no")])
@pytest.mark.parametrize(("method", "key"), [("remove_server", "kube-apiserver-1"), ("remove_invalid", NAME)])
def test_failed_read_of_a_lease_removes_nothing(method: str, key: str, failure: Outcome) -> None:
    driven = drive(method, key, leases={1: failure, 2: failure}, given=TWO, raises=CommandError)
    assert driven.of(Update, Delete) == []


def test_deletion_has_preconditions() -> None:
    only = status(server(1, "v1"), common="v1")
    [command] = drive("remove_server", "kube-apiserver-1", leases={}, given=only).of(Delete)
    assert (command.key, command.uid, command.resource_version) == (NAME, "u", "7")


def test_conflict_is_retried() -> None:
    conflict = Conflict("newer")
    driven = drive("remove_invalid", NAME, leases={1: ALIVE}, given=TWO, written=conflict, raises=CommandError)
    assert isinstance(driven.error, CommandError)
    assert driven.error.failure is conflict
    assert len(driven.of(Update)) == 1


BEFORE = format_time(NOW - 100)


@pytest.mark.parametrize(
    ("common", "state", "servers", "time"),
    [
        ("v1", "True", ["v1"], BEFORE),
        ("v1", "True", ["v2"], format_time(NOW)),
        ("v1", "True", ["v1", "v2"], format_time(NOW)),
        (None, "False", ["v1", "v2"], BEFORE),
        (None, "False", ["v1"], format_time(NOW)),
    ],
)
def test_transition_time_follows_the_condition(common: str | None, state: str, servers: list[str], time: str) -> None:
    known = {"type": "AllEncodingVersionsEqual", "status": state, "lastTransitionTime": BEFORE, "observedGeneration": 3}
    given = version(status(common=common, conditions=[{"type": "Other"}, known]))
    changed = with_servers(given, [server(n, v) for n, v in enumerate(servers)], NOW)["status"]
    assert changed["conditions"][0] == {"type": "Other"}
    condition = changed["conditions"][1]
    assert condition["lastTransitionTime"] == time
    assert condition["status"] == ("True" if len(servers) == 1 else "False")
    assert condition["observedGeneration"] == 3
    assert changed.get("commonEncodingVersion") == (servers[0] if len(servers) == 1 else None)


def test_both_gates_are_needed() -> None:
    assert SPEC.enabled_if(OPTIONS)
    assert not SPEC.enabled_if(read_options([]))
