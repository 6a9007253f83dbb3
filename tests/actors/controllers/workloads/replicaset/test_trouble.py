"""The ReplicaSet controller with late watches, restarts, rejected writes and failing pods."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import LogCapture

from kcm.actors.reconciliation import RequeueAfter
from kcm.actors.simulation.driver import created_keys, created_names, deleted_keys, failing
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Update
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Done,
    Forbidden,
    NotFound,
    Outcome,
    Refused,
    ServerFailure,
    Unknown,
)
from kcm.protocols.objects import decode_object, encode_object, name_of
from kcm.protocols.resources import PODS, REPLICASETS
from tests.actors.controllers.workloads.replica_sets import CONTROLLER, KEY, Scene, owned, web_replica_set
from tests.support.failures import said
from tests.support.objects import running_pod
from tests.support.refusals import NAMESPACE_TERMINATING, QUOTA_EXCEEDED

# Own writes, with late watches.


def test_no_pod_is_created_twice_while_the_watch_is_late(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(30))
    assert len(env.sync().of(Create)) == 30
    assert env.sync().of(Create, Delete) == []
    env.clock.advance(360)
    assert env.sync().of(Create, Delete) == []
    env.bench.catch_up()
    assert env.sync().of(Create, Delete) == []


def test_the_status_is_written_while_the_watch_is_late(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(3))
    driven = env.sync()
    assert [type(command) for command in driven.commands] == [Create, Create, Create, Update]
    assert env.status()["replicas"] == 3
    assert env.sync().commands == []


def test_no_second_pod_is_deleted_while_the_watch_is_late(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(1), pods=[owned("a"), owned("b"), owned("c")])
    assert len(env.sync().of(Delete)) == 2
    env.clock.advance(360)
    assert env.sync().of(Create, Delete) == []


def test_gracefully_deleted_pod_is_counted_as_terminating(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(1), pods=[owned("a"), owned("b")])

    def gracefully(command: Command) -> Outcome:
        if isinstance(command, Delete):
            known = decode_object(env.tables[PODS].entry(command.key).raw)
            meta = {**known["metadata"], "deletionTimestamp": "2027-01-01T00:00:00Z", "resourceVersion": "900"}
            return Done(encode_object({**known, "metadata": {**meta, "deletionGracePeriodSeconds": 30}}))
        return env.accept(command)

    assert len(env.sync(gracefully).of(Delete)) == 1
    driven = env.sync(gracefully)
    assert driven.of(Create, Delete) == []
    assert (env.status()["replicas"], env.status()["terminatingReplicas"]) == (1, 1)


# Retries.


class Server:
    """Server that rejects the second creation of a name with AlreadyExists."""

    def __init__(self, env: Scene) -> None:
        self.env, self.pods = env, {}

    def __call__(self, command: Command) -> Outcome:
        if isinstance(command, Create):
            key = f"default/{name_of(decode_object(command.body))}"
            if key in self.pods:
                return AlreadyExists(f'pods "{key}" already exists')
            self.pods[key] = self.env.accept(command)
            return self.pods[key]
        if isinstance(command, Get) and command.resource == PODS.id:
            return self.pods.get(command.key, NotFound())
        return self.env.accept(command)


@pytest.mark.parametrize("batches", range(1, 6))
def test_restart_after_any_batch_creates_no_pod_twice(scene: Callable[..., Any], batches: int) -> None:
    """The second incarnation has neither the outcomes nor, because of the late watch, the pods of the first one."""
    env = scene(web_replica_set(10))
    server = Server(env)
    env.sync(server, stop_after=batches)
    env.start()
    for _ in range(3):
        env.sync(server)
    assert len(server.pods) == 10
    assert {pod.key for pod in env.pods()} == set(server.pods)


def test_unknown_creation_is_retried_under_the_same_name(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(3))
    server, lost = Server(env), []

    def losing_the_third(command: Command) -> Outcome:
        outcome = server(command)
        if isinstance(command, Create) and len(server.pods) == 3 and not lost:
            lost.append(command)
            return Unknown("timed out")
        return outcome

    first = env.sync(losing_the_third, raises=CommandError)
    assert first.of(Update) == []  # a status write would change the version from which names are derived
    assert said(first.error) == "timed out"
    second = env.sync(losing_the_third)
    assert second.of(Create) == lost
    assert second.events == []
    assert [command.key for command in second.of(Get)] == [f"default/{name_of(decode_object(lost[0].body))}"]
    assert second.result == RequeueAfter(1.0)
    third = env.sync(losing_the_third)
    assert third.of(Create, Delete) == []
    assert env.status()["replicas"] == 3
    assert len(server.pods) == 3


def test_unknown_deletion_is_retried_before_any_other(scene: Callable[..., Any]) -> None:
    """The deletion order has changed meanwhile: a second pod would be deleted and then replaced."""
    env = scene(web_replica_set(2), pods=[owned("a", ready=False), owned("b"), owned("c")])
    first = env.sync(lambda command: Unknown("cut"), raises=CommandError)
    assert deleted_keys(first) == ["default/a"]
    env.bench.show(PODS, owned("b", phase="Pending", ready=False))
    never_sent = Refused("connection refused")
    assert deleted_keys(env.sync(lambda command: never_sent, raises=CommandError)) == ["default/a"]
    gone = env.sync(lambda command: NotFound() if isinstance(command, Delete) else env.accept(command))
    assert deleted_keys(gone) == ["default/a"]
    env.bench.hide(PODS, "default/a")
    assert env.sync().of(Create, Delete) == []


def test_unknown_deletion_is_forgotten_without_surplus_pods(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(2), pods=[owned("a", ready=False), owned("b"), owned("c")])
    env.sync(lambda command: Unknown("cut"), raises=CommandError)
    env.bench.show(REPLICASETS, web_replica_set(3))
    assert env.sync().of(Create, Delete) == []
    env.bench.show(PODS, owned("a"))
    env.bench.show(PODS, owned("b", ready=False))
    env.bench.show(REPLICASETS, web_replica_set(2))
    assert deleted_keys(env.sync()) == ["default/b"]


@pytest.mark.parametrize("nothing_said", [Refused("connection refused"), Forbidden("no"), ServerFailure("later")])
def test_existing_name_that_cannot_be_fetched_is_retried(scene: Callable[..., Any], nothing_said: Outcome) -> None:
    env = scene(web_replica_set(1))
    server = Server(env)
    (name,) = created_names(env.sync(server, stop_after=1))
    env.start()
    unsure = env.sync(
        lambda command: nothing_said if isinstance(command, Get) else server(command), raises=CommandError
    )
    assert unsure.of(Update) == []
    again = env.sync(server)
    assert (created_names(again), len(server.pods)) == ([name], 1)
    assert env.sync(server).of(Create) == []


@pytest.mark.parametrize("never_heard", [Create, Get])
def test_existing_name_is_retried_after_a_change_of_the_owner(
    scene: Callable[..., Any], never_heard: type[Any]
) -> None:
    env = scene(web_replica_set(2))
    server = Server(env)
    if never_heard is Get:
        env.sync(server, stop_after=1)
        env.start()

    def silent(command: Command) -> Outcome:
        outcome = server(command)
        return Unknown("timed out") if isinstance(command, never_heard) else outcome

    first = env.sync(silent, raises=CommandError)
    env.bench.show(REPLICASETS, web_replica_set(3, resourceVersion="77"))
    second = env.sync(server)
    assert created_names(second)[0] == created_names(first)[0]
    assert len(server.pods) == 3
    assert len(env.pods()) == 3


def test_name_of_foreign_pod_is_skipped_in_the_next_sync(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(1))
    (name,) = created_names(env.sync(stop_after=1))
    stranger = Done(
        encode_object(running_pod(name, owner=CONTROLLER, metadata={"uid": "strange", "resourceVersion": "500"}))
    )

    def answer(command: Command) -> Outcome:
        match command:
            case Create() if name.encode() in command.body:
                return AlreadyExists()
            case Get():
                return stranger
        return env.accept(command)

    assert env.sync(answer).result == RequeueAfter(1.0)
    (other,) = created_names(env.sync(answer))
    assert other != name


def test_deleted_pod_is_replaced_under_another_name(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(2))
    names = created_names(env.sync())
    env.sync()
    env.bench.catch_up()
    env.bench.hide(PODS, f"default/{names[0]}")
    (successor,) = created_names(env.sync())
    assert successor not in names


# Failures.


def test_failed_creation_has_event_and_condition_and_is_raised(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(100))
    driven = env.sync(failing(after=10, outcome=QUOTA_EXCEEDED, to=Create, otherwise=env.accept), raises=CommandError)
    assert len(driven.of(Create)) == 15
    assert [event for event in driven.events if event[0] == "Warning"] == [
        ("Warning", "FailedCreate", f"Error creating: {QUOTA_EXCEEDED.message}")
    ] * 5
    (condition,) = env.status()["conditions"]
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        "ReplicaFailure",
        "True",
        "FailedCreate",
        QUOTA_EXCEEDED.message,
    )
    assert said(driven.error) == QUOTA_EXCEEDED.message
    env.sync()
    assert len(env.pods()) == 100
    assert "conditions" not in env.status()


def test_failed_deletion_has_event_and_condition_and_is_raised(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(0), pods=[owned("a"), owned("b")])
    driven = env.sync(
        lambda command: (
            Forbidden("no") if isinstance(command, Delete) and command.key == "default/a" else env.accept(command)
        ),
        raises=CommandError,
    )
    assert sorted(driven.events) == [
        ("Normal", "SuccessfulDelete", "Deleted pod: b"),
        ("Warning", "FailedDelete", "Error deleting: no"),
    ]
    (condition,) = env.status()["conditions"]
    assert (condition["reason"], condition["message"]) == ("FailedDelete", "unable to delete pods: no")
    assert said(driven.error) == "unable to delete pods: no"


def test_refused_creation_writes_no_status(scene: Callable[..., Any]) -> None:
    driven = scene().sync(lambda _command: Refused("the lease is lost"), raises=CommandError)
    assert [type(command) for command in driven.commands] == [Create]
    assert driven.records == []


def test_terminating_namespace_causes_no_pod_event_or_retry(scene: Callable[..., Any]) -> None:
    env = scene()
    driven = env.sync(lambda command: NAMESPACE_TERMINATING if isinstance(command, Create) else env.accept(command))
    assert len(driven.of(Create)) == 1
    assert (driven.records, driven.result) == ([], None)
    assert "conditions" not in env.status()


def test_failed_status_write_is_raised_instead_of_a_failed_creation(scene: Callable[..., Any]) -> None:
    env = scene()

    def answer(command: Command) -> Outcome:
        match command:
            case Create():
                return QUOTA_EXCEEDED
            case Update():
                return ServerFailure("etcd is down")
        return env.accept(command)

    assert said(env.sync(answer, raises=CommandError).error) == "etcd is down"


def test_failed_status_write_is_repeated_on_the_live_object(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(0, generation=2))
    driven = env.sync(failing(after=0, outcome=Conflict("newer"), to=Update, otherwise=env.accept), raises=CommandError)
    assert [type(command) for command in driven.commands] == [Update, Get, Update]


# Pods that fail at once.


def test_pods_that_fail_at_once_are_replaced_with_backoff(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(1))
    made, began = [], env.clock.uptime
    while env.clock.uptime - began < 600:
        driven = env.sync()
        if driven.of(Create):
            made.append(env.clock.uptime - began)
            env.bench.catch_up()
            env.fail_pods(created_keys(driven))
        elif driven.result is not None:
            assert driven.of(Create) == []
            env.clock.advance(driven.result.seconds)
    waits = [later - earlier for earlier, later in itertools.pairwise(made)]
    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_pods_that_fail_at_once_are_logged_once(scene: Callable[..., Any], logs: LogCapture) -> None:
    env = scene(web_replica_set(2), pods=[owned("dead", phase="Failed")])
    first = env.sync()
    env.bench.catch_up()
    env.fail_pods(created_keys(first))
    for _ in range(3):
        env.sync()
    warnings = [entry for entry in logs.entries if entry["log_level"] == "warning"]
    assert [(entry["event"], entry["key"], entry["count"], entry["held_back"]) for entry in warnings] == [
        ("pods failed at once", KEY, 2, 2)
    ]


def test_other_missing_pods_are_replaced_without_delay(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(3), pods=[owned("a"), owned("b"), owned("dead", phase="Failed")])
    first = env.sync()
    env.bench.catch_up()
    env.fail_pods(created_keys(first))
    waiting = env.sync()
    assert (waiting.of(Create), waiting.result) == ([], RequeueAfter(1.0))
    env.bench.hide(PODS, "default/a")
    assert len(env.sync().of(Create)) == 1
    env.clock.advance(1.0)
    assert len(env.sync().of(Create)) == 1


def test_pod_that_fails_later_is_replaced_at_once(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(1), pods=[owned("dead", phase="Failed")])
    for _ in range(5):
        driven = env.sync()
        assert len(driven.of(Create)) == 1
        env.bench.catch_up()
        env.clock.advance(60.0)
        env.fail_pods(created_keys(driven))


def test_recreated_replica_set_has_no_replacement_delay(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(1), pods=[owned("dead", phase="Failed")])
    first = env.sync()
    env.bench.catch_up()
    env.fail_pods(created_keys(first))
    assert env.sync().of(Create) == []
    env.bench.show(REPLICASETS, web_replica_set(1, meta={"uid": "new"}))
    assert len(env.sync().of(Create)) == 1


def test_deleted_replica_set_is_forgotten(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(1), pods=[owned("dead", phase="Failed")])
    first = env.sync()
    env.bench.catch_up()
    env.fail_pods(created_keys(first))
    assert env.sync().of(Create) == []
    env.bench.hide(REPLICASETS, KEY)
    env.sync()
    env.bench.show(REPLICASETS, web_replica_set(1))
    assert len(env.sync().of(Create)) == 1
