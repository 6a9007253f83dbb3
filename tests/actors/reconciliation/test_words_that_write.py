"""Tests of ensure, patch_status, finalizers, owners and deletion by object: alone, and in a simulated cluster."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kcm.actors.reconciliation import (
    Change,
    Reconciliation,
    Retry,
    Step,
    Watch,
    apply,
    controlled_by,
    delete,
    ensure,
    ensure_finalizer,
    finalize,
    its_controller,
    itself,
    must,
    own,
    owned,
    patch_status,
    remove_finalizer,
)
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, Driven, bodies, drive_steps
from kcm.protocols.conditions import set_condition
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, PatchType
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, NotFound, Outcome
from kcm.protocols.objects import Key, Object, decode_object, finalizers_of, is_deleting
from kcm.protocols.resources import NAMESPACES, NODES, REPLICASETS, Resource
from kcm.runtime.tables.tables import Tables

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
SETS = REPLICASETS
TOLD = "example.com/told"


def owner(uid: str = "u1", **fields: Any) -> Object:
    meta = {"name": "web", "namespace": "d", "uid": uid, "resourceVersion": "7", "generation": 1}
    return {"metadata": meta, "spec": {}, **fields}


def configmap(**data: Any) -> Object:
    return {"metadata": {"name": "web", "namespace": "d"}, "data": data}


def run(step: Step[Any], bench: Bench, answer: Any = None) -> tuple[Driven, list[Any]]:
    """Return the commands of the step and its result."""
    returned = []

    def running() -> Reconciliation:
        returned.append((yield from step))
        return None

    return drive_steps(running(), answer or bench.accept, tables=bench.tables), returned


# Ownership.


def test_a_child_is_owned_by_its_uid() -> None:
    child = own(configmap(), by=owner(), of=SETS)
    assert child["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": "u1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert own(child, by=owner(), of=SETS) == child
    assert controlled_by(child, owner())
    assert not controlled_by(child, owner("u2")), "a namesake"
    assert not controlled_by(configmap(), owner())
    bench = Bench({CONFIGMAPS: [child, {"metadata": {"name": "other", "namespace": "d"}}]})
    assert [config_map["data"] for config_map in owned(bench.tables[CONFIGMAPS], by=owner())] == [{}]
    assert owned(bench.tables[CONFIGMAPS], by=owner("u2")) == []


def test_child_gets_its_owners_namespace_and_another_one_is_refused() -> None:
    assert own({"metadata": {"name": "a"}}, by=owner(), of=SETS)["metadata"]["namespace"] == "d"
    of_the_cluster = {"metadata": {"name": "n", "uid": "u"}}
    assert own(configmap(), by=of_the_cluster, of=NODES)["metadata"]["namespace"] == "d"
    with pytest.raises(ValueError, match="ReplicaSet d/web cannot own 'a' in another namespace, 'e'"):
        own({"metadata": {"name": "a", "namespace": "e"}}, by=owner(), of=SETS)
    with pytest.raises(ValueError, match="ReplicaSet d/web has no uid: an owner is an object that was read"):
        own(configmap(), by=owner(""), of=SETS)
    with pytest.raises(ValueError, match=r"'web' has a controller already, ReplicaSet web \(u1\)"):
        own(own(configmap(), by=owner(), of=SETS), by=owner("u2"), of=SETS)


# ensure.


def test_missing_object_is_created_once_with_a_late_watch() -> None:
    bench = Bench({CONFIGMAPS: []})
    wanted = configmap(a="1", b=None)
    driven, (made,) = run(ensure(bench.tables[CONFIGMAPS], wanted), bench)
    assert bodies(driven, Create) == [{"kind": "ConfigMap", "apiVersion": "v1", **configmap(a="1")}]
    assert made["metadata"]["uid"]
    driven, (again,) = run(ensure(bench.tables[CONFIGMAPS], wanted), bench)
    assert driven.commands == []
    assert again["data"] == {"a": "1"}


def test_only_differences_are_patched() -> None:
    bench = Bench({CONFIGMAPS: [configmap(a="1", b="2", c="3")]})
    lister = bench.tables[CONFIGMAPS]
    wanted = configmap(a="1", b="9", c=None)
    driven, (now,) = run(ensure(lister, wanted), bench)
    (body,) = bodies(driven, Patch)
    assert body["data"] == {"b": "9", "c": None}
    assert set(body["metadata"]) == {"resourceVersion"}
    assert now["data"] == {"a": "1", "b": "9"}
    assert run(ensure(lister, wanted), bench)[0].commands == []


def test_object_of_a_creation_without_response_is_found() -> None:
    # The first response is lost. The retry meets the object that the first request created.
    bench = Bench({CONFIGMAPS: []})
    there = own({**configmap(a="1")}, by=owner(), of=SETS)

    def answer(command: Command) -> Outcome:
        if isinstance(command, Create):
            bench.show(CONFIGMAPS, {**there, "metadata": {**there["metadata"], "uid": "u9", "resourceVersion": "900"}})
            return AlreadyExists("it exists")
        return bench.accept(command)

    driven, (found,) = run(ensure(bench.tables[CONFIGMAPS], there), bench, answer)
    assert [type(command) for command in driven.commands] == [Create, Get]
    assert found["metadata"]["uid"] == "u9"


@pytest.mark.parametrize(
    ("present", "why"),
    [
        (own(configmap(), by=owner("u0"), of=SETS), "its controller is ReplicaSet web (u0), not ReplicaSet web (u1)"),
        (configmap(), "has no controller, and is not adopted for ReplicaSet web (u1)"),
    ],
)
def test_object_of_a_predecessor_or_another_owner_is_not_changed(present: Object, why: str) -> None:
    bench = Bench({CONFIGMAPS: [present]})
    wanted = own(configmap(a="1"), by=owner(), of=SETS)
    with pytest.raises(CommandError, match=re.escape(why)) as raised:
        run(ensure(bench.tables[CONFIGMAPS], wanted), bench)
    assert isinstance(raised.value.failure, AlreadyExists)


def test_deleting_object_is_not_changed() -> None:
    going = configmap(a="1")
    going["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
    bench = Bench({CONFIGMAPS: [going]})
    driven, (now,) = run(ensure(bench.tables[CONFIGMAPS], configmap(a="2")), bench)
    assert driven.commands == []
    assert is_deleting(now)


def test_foreign_owners_and_finalizers_are_kept() -> None:
    other = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u5"}
    there = own(configmap(a="1"), by=owner(), of=SETS)
    there["metadata"]["ownerReferences"].append(other)
    there["metadata"]["finalizers"] = ["theirs/one"]
    bench = Bench({CONFIGMAPS: [there]})
    wanted = own(configmap(a="1"), by=owner(), of=SETS)
    wanted["metadata"]["finalizers"] = ["ours/two"]
    driven, (now,) = run(ensure(bench.tables[CONFIGMAPS], wanted), bench)
    (body,) = bodies(driven, Patch)
    assert body["metadata"]["finalizers"] == ["theirs/one", "ours/two"]
    assert "ownerReferences" not in body["metadata"]
    assert now["metadata"]["ownerReferences"][1] == other


def test_invalid_wanted_object_is_refused_at_the_call() -> None:
    lister = Bench({CONFIGMAPS: []}).tables[CONFIGMAPS]
    with pytest.raises(ValueError, match="a ConfigMap is wanted without its status: patch_status writes that"):
        next(ensure(lister, {**configmap(), "status": {}}))
    with pytest.raises(ValueError, match="'d/' is no key of configmaps"):
        next(ensure(lister, {"metadata": {"namespace": "d"}}))
    with pytest.raises(ValueError, match="Pod of v1 is no ConfigMap"):
        next(ensure(lister, {"kind": "Pod", "apiVersion": "v1", **configmap()}))


# The status.


def status_of(bench: Bench, step: Step[Any]) -> list[Object]:
    return bodies(run(step, bench)[0], Patch)


def test_status_is_written_if_it_differs() -> None:
    bench = Bench({SETS: [owner(status={"replicas": 1, "observedGeneration": 1, "conditions": []})]})
    lister = bench.tables[SETS]
    web = lister.get("d/web")
    assert web is not None
    assert status_of(bench, patch_status(lister, web, {"replicas": 1})) == []
    body = {"metadata": {"resourceVersion": "7"}, "status": {"replicas": 2}}
    assert status_of(bench, patch_status(lister, web, {"replicas": 2, "observedGeneration": 1, "gone": None})) == [body]
    # The own write is newer than the object that was read: the precondition is the newer version.
    (second,) = status_of(bench, patch_status(lister, web, {"replicas": 3}))
    assert int(second["metadata"]["resourceVersion"]) > 7


def test_status_with_an_older_generation_is_not_written() -> None:
    bench = Bench({SETS: [owner(status={"observedGeneration": 5, "replicas": 1})]})
    lister = bench.tables[SETS]
    assert status_of(bench, patch_status(lister, owner(), {"observedGeneration": 4, "replicas": 9})) == []
    newer = owner(status={})
    newer["metadata"] |= {"generation": 2, "resourceVersion": "300"}
    bench.show(SETS, newer)
    # The status was computed from an older spec, so the server must refuse it.
    (body,) = status_of(bench, patch_status(lister, owner(), {"replicas": 9}))
    assert body["metadata"]["resourceVersion"] == "7"


def test_status_is_not_written_to_a_replaced_or_deleted_object() -> None:
    bench = Bench({SETS: [owner("u2")]})
    assert run(patch_status(bench.tables[SETS], owner("u1"), {"replicas": 9}), bench)[1] == [None]
    gone = run(patch_status(bench.tables[SETS], owner("u2"), {"replicas": 9}), bench, lambda _: NotFound())
    assert gone[1] == [None]


def test_a_condition_keeps_its_time_while_its_status_is_the_same() -> None:
    first = set_condition(None, "Ready", False, "NotYet", "0 of 2", now=0.0, observed_generation=1)
    assert first == [
        {
            "type": "Ready",
            "status": "False",
            "reason": "NotYet",
            "message": "0 of 2",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ]
    assert set_condition(first, "Ready", "False", "NotYet", "0 of 2", now=60.0) == first
    (second,) = set_condition(first, "Ready", False, "NotYet", "1 of 2", now=60.0, observed_generation=2)
    assert (second["message"], second["observedGeneration"]) == ("1 of 2", 2)
    assert second["lastTransitionTime"] == "1970-01-01T00:00:00Z"
    ready, other = set_condition([second, {"type": "Other"}], "Ready", True, "AllThere", now=60.0)
    assert (ready["status"], ready["message"], ready["lastTransitionTime"]) == ("True", "", "1970-01-01T00:01:00Z")
    assert other == {"type": "Other"}


def test_invalid_condition_is_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="the status of condition Ready is one of True, False, Unknown, not 'yes'"):
        set_condition(None, "Ready", "yes", "R", now=0.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the reason of condition Ready is a word like NotReady, not 'not yet'"):
        set_condition(None, "Ready", "True", "not yet", now=0.0)


# Exact maps.


@pytest.mark.parametrize(
    ("wanted", "exact", "patched"),
    [
        ({"a": "1"}, ("data",), {"data": {"b": None}}),
        ({"a": "1"}, (), None),
        ({"a": "2", "c": "3"}, ("data",), {"data": {"a": "2", "b": None, "c": "3"}}),
        ({}, ("data",), {"data": {"a": None, "b": None}}),
        ({"a": "1"}, ("data", "metadata.labels"), {"data": {"b": None}, "metadata": {"labels": {"theirs": None}}}),
        ({"a": "1"}, ("binaryData", "absent.path", "data.a"), None),
    ],
)
def test_other_keys_of_an_exact_map_are_removed(
    wanted: dict[str, str], exact: tuple[str, ...], patched: Object | None
) -> None:
    present = configmap(a="1", b="2")
    present["metadata"] |= {"uid": "u1", "resourceVersion": "7", "labels": {"theirs": "x"}}
    bench = Bench({CONFIGMAPS: [present]})
    driven, _ = run(ensure(bench.tables[CONFIGMAPS], configmap(**wanted), exact=exact), bench)
    for body in bodies(driven, Patch):
        del body["metadata"]["resourceVersion"]
        if not body["metadata"]:
            del body["metadata"]
        assert body == patched
    assert len(driven.commands) == (0 if patched is None else 1)


def test_exact_takes_a_tuple_of_paths() -> None:
    bench = Bench({CONFIGMAPS: []})
    with pytest.raises(TypeError, match="exact of ensure: expected a tuple, got 'data'"):
        next(ensure(bench.tables[CONFIGMAPS], configmap(), exact="data"))


# Finalizers.


def test_finalizer_writes_require_the_version_that_was_read() -> None:
    theirs = owner()
    theirs["metadata"]["finalizers"] = ["theirs/one"]
    bench = Bench({SETS: [theirs]})
    lister = bench.tables[SETS]
    driven, (now,) = run(ensure_finalizer(lister, theirs, TOLD), bench)
    assert bodies(driven, Patch) == [{"metadata": {"resourceVersion": "7", "finalizers": ["theirs/one", TOLD]}}]
    assert finalizers_of(now) == ("theirs/one", TOLD)
    assert run(ensure_finalizer(lister, theirs, TOLD), bench)[0].commands == []
    (body,) = bodies(run(remove_finalizer(lister, theirs, TOLD), bench)[0], Patch)
    assert body["metadata"]["finalizers"] == ["theirs/one"]
    assert int(body["metadata"]["resourceVersion"]) > 7
    assert run(remove_finalizer(lister, theirs, TOLD), bench)[0].commands == []
    assert run(remove_finalizer(lister, owner("u0"), "theirs/one"), bench)[0].commands == [], "another of that name"


def test_cleanup_that_yields_commands_is_refused() -> None:
    def clean_up(uid: str) -> Any:
        yield uid

    lister = Bench({SETS: []}).tables[SETS]
    with pytest.raises(TypeError, match="use ensure_finalizer and remove_finalizer"):
        next(finalize(lister, "d/web", TOLD, clean_up))


def test_deleting_object_gets_no_finalizer() -> None:
    going = owner()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    lister = Bench({SETS: [going]}).tables[SETS]
    with pytest.raises(ValueError, match=r"replicasets\.apps d/web is being deleted, and takes no finalizer any more"):
        next(ensure_finalizer(lister, going, TOLD))
    with pytest.raises(ValueError, match=r"a finalizer is like example\.com/name, not 'told'"):
        next(remove_finalizer(lister, going, "told"))


def finalizing(obj: Object | None, answer: object = None) -> tuple[Driven, list[Any], list[str]]:
    """Return the commands and the result of `finalize`, and the uids that were cleaned up."""
    cleaned: list[str] = []

    def clean_up(uid: str) -> object:
        cleaned.append(uid)
        return answer

    bench = Bench({SETS: [] if obj is None else [obj]})
    return *run(finalize(bench.tables[SETS], "d/web", TOLD, clean_up, again=7.0), bench), cleaned


def finalized(*names: str, deleting: bool = False) -> Object:
    obj = owner()
    obj["metadata"]["finalizers"] = [*names]
    if deleting:
        obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return obj


def test_finalize_returns_an_existing_object_with_its_finalizer() -> None:
    driven, (obj,), cleaned = finalizing(owner())
    assert finalizers_of(obj) == (TOLD,)
    assert len(driven.of(Patch)) == 1
    driven, (obj,), cleaned = finalizing(finalized(TOLD))
    assert (driven.commands, finalizers_of(obj), cleaned) == ([], (TOLD,), [])


@pytest.mark.parametrize("answer", [None, True, {}])
def test_finalize_removes_the_finalizer_once_the_cleanup_is_complete(answer: object) -> None:
    driven, (obj,), cleaned = finalizing(finalized(TOLD, "theirs/one", deleting=True), answer)
    assert (obj, cleaned) == (None, ["u1"])
    assert [body["metadata"]["finalizers"] for body in bodies(driven, Patch)] == [["theirs/one"]]


def test_finalize_repeats_a_cleanup_that_is_not_complete() -> None:
    with pytest.raises(Retry, match=f"{TOLD} is not cleaned up yet") as caught:
        finalizing(finalized(TOLD, deleting=True), answer=False)
    assert caught.value.after == 7.0


@pytest.mark.parametrize("obj", [None, finalized("theirs/one", deleting=True)])
def test_finalize_has_nothing_to_clean_up_without_its_finalizer(obj: Object | None) -> None:
    driven, returned, cleaned = finalizing(obj)
    assert (driven.commands, returned, cleaned) == ([], [None], [])


# Deletion, and server-side apply.


def test_an_object_that_was_read_is_deleted_by_its_uid() -> None:
    assert delete(SETS, owner()) == Delete(SETS.id, "d/web", uid="u1")
    assert delete(SETS, owner(), unchanged=True) == Delete(SETS.id, "d/web", uid="u1", resource_version="7")
    entry = Bench({SETS: [owner()]}).tables[SETS].entry("d/web")
    assert entry is not None
    assert delete(SETS, entry, unchanged=True) == delete(SETS, owner(), unchanged=True)
    with pytest.raises(ValueError, match=r"'d/web' has no uid or resourceVersion: it is not an object that was read"):
        delete(SETS, owner(""))
    with pytest.raises(ValueError, match="unchanged needs an object that was read, not a key"):
        delete(SETS, "d/web", unchanged=True)


def test_apply_sends_the_object_as_given() -> None:
    command = apply(CONFIGMAPS, configmap(a="1"), force=True)
    assert (command.key, command.patch_type, command.field_manager) == ("d/web", PatchType.APPLY, "")
    assert decode_object(command.body) == {"kind": "ConfigMap", "apiVersion": "v1", **configmap(a="1")}
    read = configmap()
    read["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    with pytest.raises(ValueError, match="an object to apply must not have managedFields"):
        apply(CONFIGMAPS, read)


# In a cluster.


class Greetings:
    """Reconciler of a ConfigMap for each labelled namespace, with an external call before the namespace is deleted."""

    def __init__(self, *, tables: Tables) -> None:
        self._namespaces, self._configmaps = tables[NAMESPACES], tables[CONFIGMAPS]
        self.notified: list[str] = []

    def reconcile(self, key: Key) -> Reconciliation:
        namespace = self._namespaces.get(key)
        if namespace is None or "greet" not in (namespace["metadata"].get("labels") or {}):
            return None
        if is_deleting(namespace):
            if TOLD in finalizers_of(namespace):
                self.notified.append(key)
                yield from remove_finalizer(self._namespaces, namespace, TOLD)
            return None
        namespace = yield from ensure_finalizer(self._namespaces, namespace, TOLD)
        greeting = {"metadata": {"name": "greeting", "namespace": key}, "data": {"text": f"hello {key}"}}
        yield from ensure(self._configmaps, own(greeting, by=namespace, of=NAMESPACES))
        yield from must(
            apply(CONFIGMAPS, {"metadata": {"name": "applied", "namespace": key}, "data": {"text": "hi"}}, force=True)
        )
        return None


def its_namespace(change: Change, tables: Tables) -> tuple[Key, ...]:
    return tuple(its_controller(NAMESPACES)(change, tables))


BUILT: list[Greetings] = []


def build(context: Any) -> Greetings:
    BUILT.append(Greetings(tables=context.tables))
    return BUILT[-1]


GREETINGS = ControllerSpec(
    name="greetings",
    queues=(Queue(watches=(Watch(NAMESPACES, to=itself), Watch(CONFIGMAPS, to=its_namespace))),),
    build=build,
)


def test_ensured_objects_are_restored_and_finalizers_wait_for_the_external_call(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[GREETINGS])
    cluster.create(NAMESPACES, {"metadata": {"name": "blue", "labels": {"greet": "yes"}}})
    cluster.run_for(20.0)
    greeting = cluster.get(CONFIGMAPS, "blue/greeting")
    assert greeting is not None
    assert greeting["data"] == {"text": "hello blue"}
    assert (cluster.get(CONFIGMAPS, "blue/applied") or {})["data"] == {"text": "hi"}
    cluster.merge(CONFIGMAPS, "blue/greeting", {"data": {"text": "spoiled", "more": "of others"}})
    cluster.run_for(20.0)
    assert (cluster.get(CONFIGMAPS, "blue/greeting") or {})["data"] == {"text": "hello blue", "more": "of others"}
    cluster.delete(CONFIGMAPS, "blue/greeting")
    cluster.run_for(20.0)
    assert cluster.get(CONFIGMAPS, "blue/greeting") is not None
    cluster.delete(NAMESPACES, "blue")
    cluster.run_for(20.0)
    assert BUILT.pop().notified[:1] == ["blue"]
    assert cluster.get(NAMESPACES, "blue") is None


def test_a_conflict_is_not_repeated_while_the_watch_is_late() -> None:
    # The driver reads the object live after a conflict of a patch with a version, as after an update.
    from kcm.actors.engine.controller.own_writes import stale_update

    bench = Bench({SETS: [owner()]})
    step = patch_status(bench.tables[SETS], owner(), {"replicas": 9})
    command = next(step)
    with pytest.raises(CommandError) as raised:
        step.send(Conflict("changed"))
    assert stale_update(raised.value, bench.tables) is command
