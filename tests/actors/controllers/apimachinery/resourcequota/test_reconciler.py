"""ResourceQuota reconciler, driven directly: usage, stale tables, and changes that enqueue quotas.

Source of the cases: kubernetes pkg/controller/resourcequota/resource_quota_controller_test.go,
pkg/quota/v1/install/update_filter_test.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
import structlog

from kcm.actors.controllers.apimachinery.resourcequota import watches
from kcm.actors.controllers.apimachinery.resourcequota.reconciler import (
    BEHIND_CHECK,
    CATCH_UP_TIMEOUT,
    PAGE,
    PRIMARY,
    ResourceQuotaReconciler,
)
from kcm.actors.controllers.apimachinery.resourcequota.usage_cache import BATCH_SIZE
from kcm.actors.reconciliation import Change, RequeueAfter
from kcm.actors.simulation.driver import Bench, Driven, bodies, drive, drive_steps, failing
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, List, Update
from kcm.protocols.messages.discovery import TablesChanged
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.quota.calculation import NotCountedError
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES
from kcm.protocols.times import format_time

KEY = "default/rq"


def pod(
    name: str, phase: str = "Running", *, cpu: str = "100m", memory: str = "1Gi", class_: str = "", **meta: Any
) -> Object:
    resources = {"requests": {"cpu": cpu, "memory": memory}} if cpu else {}
    container = {"name": "c", "image": "i", "resources": resources}
    spec = {"containers": [container], **({"priorityClassName": class_} if class_ else {})}
    return {"metadata": {"name": name, "namespace": "default", **meta}, "spec": spec, "status": {"phase": phase}}


def quota(hard: Object, status: Object | None = None, *, name: str = "rq", **spec: Any) -> Object:
    meta = {"name": name, "namespace": "default"}
    return {"metadata": meta, "spec": {"hard": hard, **spec}, "status": status or {}}


class Desk:
    def __init__(self, of: Object, pods: Sequence[Object] = (), services: Sequence[Object] = ()) -> None:
        objects = {RESOURCE_QUOTAS: [of], PODS: pods, SERVICES: services, PERSISTENT_VOLUME_CLAIMS: []}
        self.bench = Bench(objects, facts=(watches.FACTS,), indexes=(watches.INDEX,))
        self.start()

    def start(self) -> None:
        self.reconciler = ResourceQuotaReconciler(
            tables=self.bench.tables, clock=self.bench.clock, log=structlog.get_logger()
        )

    def drive(self, answer: Any = None, **more: Any) -> Driven:
        return drive(self.reconciler, KEY, answer or self.bench.accept, tables=self.bench.tables, **more)

    def status(self) -> Object:
        """Return the status that one reconciliation writes."""
        (written,) = bodies(self.drive(), Update)
        found: Object = written["status"]
        return found


PODS_OF_TEST = [pod("pod-running"), pod("pod-running-2"), pod("pod-failed", "Failed")]
HARD = {"cpu": "3", "memory": "100Gi", "pods": "5"}
NONE = {"cpu": "0", "memory": "0", "pods": "0"}
OF_CLASSES = [pod("a", class_="high"), pod("b", class_="high", cpu=""), pod("c", "Failed", class_="high")]


def by_class(operator: str, *values: str) -> Object:
    term = {"scopeName": "PriorityClass", "operator": operator, **({"values": list(values)} if values else {})}
    return {"scopeSelector": {"matchExpressions": [term]}}


@pytest.mark.parametrize(
    ("spec", "pods", "used"),
    [
        ({"scopes": ["BestEffort"]}, PODS_OF_TEST, NONE),
        ({"scopes": ["BestEffort"]}, [pod("a", cpu=""), pod("b", cpu="")], {**NONE, "pods": "2"}),
        (by_class("Exists"), PODS_OF_TEST, NONE),
        (by_class("Exists"), OF_CLASSES, {"cpu": "100m", "memory": "1Gi", "pods": "2"}),
        (by_class("In", "high"), OF_CLASSES, {"cpu": "100m", "memory": "1Gi", "pods": "2"}),
        (by_class("In", "low"), OF_CLASSES, NONE),
        (by_class("NotIn", "low"), OF_CLASSES, {"cpu": "100m", "memory": "1Gi", "pods": "2"}),
        (by_class("NotIn", "high"), OF_CLASSES, NONE),
        (by_class("DoesNotExist"), PODS_OF_TEST, {"cpu": "200m", "memory": "2Gi", "pods": "2"}),
        ({}, PODS_OF_TEST, {"cpu": "200m", "memory": "2Gi", "pods": "2"}),
    ],
)
def test_usage_of_the_namespace_is_written(spec: Object, pods: list[Object], used: Object) -> None:
    elsewhere = {**pod("x"), "metadata": {"name": "x", "namespace": "other"}}
    assert Desk(quota(HARD, **spec), [*pods, elsewhere]).status() == {"hard": HARD, "used": used}


def test_new_limits_are_enforced() -> None:
    of = quota({"cpu": "4"}, {"hard": {"cpu": "3"}, "used": {"cpu": "0"}})
    assert Desk(of).status() == {"hard": {"cpu": "4"}, "used": {"cpu": "0"}}


def test_usage_of_a_removed_limit_is_removed() -> None:
    of = quota({"cpu": "4"}, {"hard": {"cpu": "4", "pods": "1"}, "used": {"cpu": "0", "pods": "0"}})
    assert Desk(of).status() == {"hard": {"cpu": "4"}, "used": {"cpu": "0"}}


@pytest.mark.parametrize(
    "of",
    [
        quota({"cpu": "4"}, {"hard": {"cpu": "4000m"}, "used": {"cpu": "0"}}),
        quota({}, {}),
        quota({"count/unknown.example.com": "1"}, {"hard": {"count/unknown.example.com": "1"}}),
    ],
)
def test_equal_status_is_not_written(of: Object) -> None:
    assert Desk(of).drive().commands == []


def test_status_update_has_the_version_of_the_quota() -> None:
    of = quota(HARD)
    of["metadata"]["resourceVersion"] = "77"
    (update,) = Desk(of).drive().of(Update)
    assert (update.resource, update.key, update.subresource) == ("v1/resourcequotas", KEY, "status")
    assert orjson.loads(update.body)["metadata"]["resourceVersion"] == "77"


def test_uncountable_resource_keeps_its_usage_and_limits_are_written() -> None:
    desk = Desk(quota({"pods": "1", "services": "1"}), [pod("a"), pod("b", cpu="x")])
    driven = desk.drive(raises=NotCountedError)
    assert bodies(driven, Update)[0]["status"] == {"hard": {"pods": "1", "services": "1"}, "used": {"services": "0"}}
    counted = quota({"pods": "1"}, {"hard": {"pods": "1"}, "used": {"pods": "7"}})
    assert Desk(counted, [pod("b", cpu="x")]).drive(raises=NotCountedError).commands == []


def test_limit_is_counted_when_its_resource_becomes_served() -> None:
    """After a start no event reports objects that were deleted meanwhile."""
    status = {"hard": {"secrets": "9", "pods": "9"}, "used": {"secrets": "2", "pods": "0"}}
    desk = Desk(quota({"secrets": "9", "pods": "9"}, status))
    assert desk.drive().commands == []
    found = desk.reconciler.on_message(TablesChanged(()))
    assert [(enqueue.queue, enqueue.key) for enqueue in found] == [(PRIMARY, KEY)]
    whole = Desk(quota({"pods": "9"}, {"hard": {"pods": "9"}, "used": {"pods": "0"}}))
    assert whole.drive().commands == []
    assert whole.reconciler.on_message(TablesChanged(())) == []


def test_deleted_quota_is_ignored() -> None:
    desk = Desk(quota(HARD))
    desk.bench.hide(RESOURCE_QUOTAS, KEY)
    assert desk.drive().commands == []


def test_concurrently_deleted_quota_is_ignored_and_conflict_retried() -> None:
    assert Desk(quota(HARD)).drive(lambda _: NotFound("gone")).error is None
    desk = Desk(quota(HARD))
    answer = failing(after=0, outcome=Conflict("changed"), to=Update, otherwise=desk.bench.accept)
    assert isinstance(desk.drive(answer, raises=CommandError).error, CommandError)


def test_sync_after_a_crash_writes_the_same_status() -> None:
    desk = Desk(quota(HARD), PODS_OF_TEST)
    first = desk.drive(stop_after=1)
    desk.start()
    assert bodies(first, Update) == bodies(desk.drive(), Update)
    again = desk.drive(Live(desk, *PODS_OF_TEST))
    assert again.of(Update) == []  # it reads its own write, although the watch is late


# Admission has added usage of objects that are not in the tables yet.


def behind(used: str | None, pods: Sequence[Object] = ()) -> Desk:
    """Return a quota that is newer than the tables of counted objects."""
    status = {} if used is None else {"hard": {"pods": "9"}, "used": {"pods": used}}
    of = quota({"pods": "9"}, status)
    of["metadata"]["resourceVersion"] = "5000"
    return Desk(of, pods)


class Live:
    """API server with these pods."""

    def __init__(self, desk: Desk, *pods: Object) -> None:
        self.desk, self.pods = desk, pods

    def __call__(self, command: Command) -> Outcome:
        if isinstance(command, List):
            assert (command.resource, command.namespace) == ("v1/pods", "default")
            start = int(command.continue_from or "0")
            end = start + command.limit
            rest = {"continue": str(end)} if end < len(self.pods) else {}
            return Done(encode_object({"metadata": rest, "items": list(self.pods[start:end])}))
        return self.desk.bench.accept(command)


def test_stale_table_does_not_reduce_usage() -> None:
    desk = behind("2", [pod("a")])
    first = desk.drive()
    assert (first.commands, first.result) == ([], RequeueAfter(BEHIND_CHECK))
    desk.bench.clock.advance(CATCH_UP_TIMEOUT)
    driven = desk.drive(Live(desk, pod("a"), pod("b")))
    assert [type(command) for command in driven.commands] == [List]  # the live usage is two, as in the quota


def test_live_objects_are_counted_if_the_table_does_not_catch_up() -> None:
    desk = behind("2", [pod("a"), pod("b")])
    assert desk.drive().commands == []
    desk = behind("3", [pod("a"), pod("b")])
    desk.drive()
    desk.bench.clock.advance(CATCH_UP_TIMEOUT)
    written = bodies(desk.drive(Live(desk, pod("a"))), Update)
    assert written[0]["status"]["used"] == {"pods": "1"}


def test_usage_is_written_when_the_table_catches_up() -> None:
    desk = behind("2", [pod("a")])
    desk.drive()
    desk.bench.show(PODS, pod("c", resourceVersion="5001"))
    desk.bench.show(PODS, pod("d", resourceVersion="5002"))
    desk.bench.hide(PODS, "default/a")
    assert desk.drive().commands == []


def test_uncounted_quota_does_not_wait_for_tables() -> None:
    desk = behind(None, [pod("a")])
    driven = desk.drive(Live(desk, pod("a"), pod("b")))
    assert [type(command) for command in driven.commands] == [List, Update]
    assert bodies(driven, Update)[0]["status"]["used"] == {"pods": "2"}


def test_objects_created_before_limits_are_enforced_are_counted_at_once() -> None:
    # Admission did not count the object, so the version of the quota does not include it.
    desk = Desk(quota({"pods": "9"}), [pod("a")])
    first = desk.drive()
    assert bodies(first, Update)[0]["status"]["used"] == {"pods": "1"}
    assert [(enqueue.queue, enqueue.key, enqueue.after) for enqueue in first.enqueued] == [(PRIMARY, KEY, 0.0)]
    second = desk.drive(Live(desk, pod("a"), pod("b")))
    assert [type(command) for command in second.commands] == [List, Update]
    assert bodies(second, Update)[0]["status"]["used"] == {"pods": "2"}
    assert second.enqueued == []


def test_only_new_limits_cause_an_immediate_recount() -> None:
    status = {"hard": {"pods": "9"}, "used": {"pods": "1"}}
    desk = Desk(quota({"pods": "7", "services": "1"}, status), [pod("a")])
    assert len(desk.drive().enqueued) == 1
    desk.bench.catch_up()
    assert desk.drive().commands == []
    of = quota({"pods": "7"}, status)
    assert Desk(of, [pod("a")]).drive().enqueued == []


# Each version of a pod is decoded once, in batches.


def test_many_pods_are_decoded_in_several_syncs() -> None:
    desk = Desk(quota({"pods": "9"}), [pod(f"p{number}") for number in range(2 * BATCH_SIZE + 1)])
    assert [desk.drive().result for _ in range(2)] == [RequeueAfter(0.0)] * 2
    assert bodies(desk.drive(), Update)[0]["status"]["used"] == {"pods": str(2 * BATCH_SIZE + 1)}


def test_changed_objects_are_read_again_and_deleted_ones_dropped() -> None:
    desk = Desk(quota({"pods": "9", "requests.cpu": "9"}), [pod("a"), pod("b"), pod("c", cpu="1")])
    assert desk.status()["used"] == {"pods": "3", "requests.cpu": "1200m"}
    desk.bench.catch_up()
    desk.bench.show(PODS, pod("a", cpu="400m"))
    desk.bench.hide(PODS, "default/c")
    assert desk.status()["used"] == {"pods": "2", "requests.cpu": "500m"}
    desk.bench.catch_up()
    assert desk.drive().commands == []


def test_long_live_list_is_paged() -> None:
    desk = behind(None)
    pods = [pod(f"p{number}") for number in range(PAGE + 1)]
    driven = desk.drive(Live(desk, *pods))
    assert [type(command) for command in driven.commands] == [List, List, Update]
    assert bodies(driven, Update)[0]["status"]["used"] == {"pods": str(PAGE + 1)}


def test_quota_is_recounted_after_the_grace_period_of_a_pod() -> None:
    desk = Desk(quota({"pods": "9"}))
    now = desk.bench.clock.now()
    going = {"deletionGracePeriodSeconds": 30}
    desk.bench.show(PODS, pod("a", deletionTimestamp=format_time(now + 10), **going))
    desk.bench.show(PODS, pod("b", deletionTimestamp=format_time(now - 100), **going))
    driven = desk.drive()
    assert bodies(driven, Update)[0]["status"]["used"] == {"pods": "1"}
    desk.bench.catch_up()
    assert desk.drive().result == RequeueAfter(41.0)
    desk.bench.clock.advance(41.0)
    desk.bench.catch_up()
    assert bodies(desk.drive(), Update)[0]["status"]["used"] == {"pods": "0"}


def test_all_quotas_are_recounted_periodically() -> None:
    desk = Desk(quota(HARD))
    driven = drive_steps(desk.reconciler.enqueue_all(), desk.bench.accept, tables=desk.bench.tables)
    assert [(enqueue.queue, enqueue.key) for enqueue in driven.enqueued] == [(PRIMARY, KEY)]


# Changes that enqueue quotas.


def changed(new: Object, old: Object | None = None, type_: str = "MODIFIED") -> Change:
    key = f"default/{new['metadata']['name']}"
    previous = b"" if old is None else encode_object(old)
    return Change(type=type_, key=key, raw=encode_object(new), controller=None, previous=previous)


@pytest.mark.parametrize(
    ("of", "first"),
    [
        (quota({"cpu": "4"}), True),
        (quota({"cpu": "4"}, {"hard": {"cpu": "4"}}), True),
        (quota({"requests.example.com/x": "4"}, {"hard": {"requests.example.com/x": "4"}}), True),
        (quota({"cpu": "4"}, {"hard": {"cpu": "6"}, "used": {"cpu": "0"}}), True),
        (quota({"count/foobars.example.com": "4"}, {"hard": {"count/foobars.example.com": "4"}}), False),
        (quota({"cpu": "4"}, {"hard": {"cpu": "4"}, "used": {"cpu": "0"}}), False),
    ],
)
def test_quotas_that_block_creations_have_priority(of: Object, first: bool) -> None:
    tables = Desk(of).bench.tables
    change = changed(of, type_="ADDED")
    assert list(watches.priority_keys(change, tables)) == ([KEY] if first else [])
    assert list(watches.primary_keys(change, tables)) == ([] if first else [KEY])
    gone = changed(of, type_="DELETED")
    assert (list(watches.priority_keys(gone, tables)), list(watches.primary_keys(gone, tables))) == ([], [KEY])


def statuses(cpu: str) -> Object:
    return {"phase": "Running", "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}


POD = pod("p")
SERVICE = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"type": "NodePort", "ports": [{"port": 1}]}}


@pytest.mark.parametrize(
    ("resource", "new", "old", "counted"),
    [
        (PODS, POD, POD, False),
        (PODS, {**POD, "status": {"phase": "Succeeded"}}, POD, True),
        (PODS, {**POD, "status": {"phase": "Failed"}}, {**POD, "status": {"phase": "Failed"}}, False),
        (PODS, {**POD, "spec": {"activeDeadlineSeconds": 1}}, POD, True),
        (PODS, {**POD, "spec": {"activeDeadlineSeconds": 1}}, {**POD, "spec": {"activeDeadlineSeconds": 2}}, False),
        (PODS, {**POD, "status": statuses("2")}, {**POD, "status": statuses("2")}, False),
        (PODS, {**POD, "status": statuses("3")}, {**POD, "status": statuses("2")}, True),
        (SERVICES, SERVICE, SERVICE, False),
        (SERVICES, {**SERVICE, "spec": {"type": "ClusterIP"}}, SERVICE, True),
        (SERVICES, {**SERVICE, "spec": {**SERVICE["spec"], "ports": []}}, SERVICE, True),
    ],
)
def test_reduced_usage_enqueues_quotas(resource: Any, new: Object, old: Object, counted: bool) -> None:
    of = quota({"pods": "1", "services": "1"}, {"hard": {"pods": "1", "services": "1"}})
    tables = Desk(of).bench.tables
    (watch,) = {watch.to: watch for watch in watches.PRIMARY_WATCHES if watch.resource is resource}.values()
    assert list(watch.to(changed(new, old), tables)) == ([KEY] if counted else [])
    assert list(watch.to(changed(new, type_="DELETED"), tables)) == [KEY]
    unconcerned = Desk(quota({"secrets": "1"}, {"hard": {"secrets": "1"}})).bench.tables
    assert list(watch.to(changed(new, type_="DELETED"), unconcerned)) == []


@pytest.mark.parametrize(
    ("spec", "status", "values"),
    [
        ({}, {}, []),
        ({"activeDeadlineSeconds": 9}, {}, ["deadline"]),
        ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}, statuses("2"), []),
        ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}, statuses("2"), ["resized"]),
        ({"containers": [{"name": "d"}]}, statuses("2"), []),
    ],
)
def test_pods_whose_usage_may_change_are_indexed(spec: Object, status: Object, values: list[str]) -> None:
    assert list(watches.INDEX.values_of({"spec": spec, "status": status})) == values
