from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.actors.controllers.shared.pod_control import (
    Creations,
    Deletions,
    PodForm,
    create_pods,
    delete_pods,
    is_namespace_terminating,
)
from kcm.actors.reconciliation import slow_start
from kcm.actors.simulation.driver import Bench, Driven, created_names, drive, failing
from kcm.protocols.messages.commands import Create
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Done,
    Forbidden,
    NotFound,
    Outcome,
    Refused,
    ServerFailure,
    Throttled,
    Unknown,
)
from kcm.protocols.objects import Object, decode_object, encode_object
from kcm.protocols.resources import PODS, REPLICASETS
from tests.support.failures import said
from tests.support.objects import running_pod
from tests.support.refusals import NAMESPACE_TERMINATING, QUOTA_EXCEEDED

OWNER = {"metadata": {"name": "web", "namespace": "default", "uid": "uid-of-web", "resourceVersion": "7"}}
TEMPLATE = {
    "metadata": {
        "name": "ignored",
        "namespace": "ignored",
        "labels": {"app": "web"},
        "annotations": {"note": "a"},
        "finalizers": ["example.com/track"],
    },
    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
}


class Running:
    """Reconciler that runs one step, and keeps its result."""

    def __init__(self, step: Iterator[Any]) -> None:
        self.step, self.answer = step, None

    def reconcile(self, key: str) -> Iterator[Any]:
        self.answer = yield from self.step
        return None


def form(template: Object = TEMPLATE, owner: Object = OWNER) -> PodForm | None:
    return PodForm(template, owner=owner, owner_resource=REPLICASETS)


# Names.

# PodForm.


def test_pod_has_template_and_owner_as_controller() -> None:
    command = form().create("web-abcde")
    assert (command.resource, command.namespace) == ("v1/pods", "default")
    assert decode_object(command.body) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-abcde",
            "generateName": "web-",
            "namespace": "default",
            "labels": {"app": "web"},
            "annotations": {"note": "a"},
            "finalizers": ["example.com/track"],
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web",
                    "uid": "uid-of-web",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    }


def test_fields_missing_in_template_are_missing_in_pod() -> None:
    body = decode_object(form({"metadata": {"labels": {"a": "b"}}}).create("x").body)
    assert set(body["metadata"]) == {"name", "generateName", "namespace", "labels", "ownerReferences"}
    assert body["spec"] == {}


@given(st.text(min_size=1), st.dictionaries(st.text(), st.text(), min_size=1))
def test_name_is_set_for_any_name_and_template(name: str, labels: Object) -> None:
    body = decode_object(form({"metadata": {"labels": labels}, "spec": {"a": name}}).create(name).body)
    assert (body["metadata"]["name"], body["metadata"]["labels"], body["spec"]) == (name, labels, {"a": name})


BAD_TEMPLATES = [
    ({"spec": {}}, "unable to create pods, no labels"),
    ({"metadata": {"labels": {}}}, "unable to create pods, no labels"),
    ({"metadata": "x"}, "are maps"),
    ({"metadata": {"labels": {"a": "b"}}, "spec": ["x"]}, "are maps"),
]


@pytest.mark.parametrize(("template", "why"), BAD_TEMPLATES)
def test_template_without_labels_or_of_wrong_type_is_rejected(template: Object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        form(template)


# Creation.


def creating(names: Sequence[str], answer: Callable[..., Any] | None = None) -> tuple[Driven, Creations]:
    bench = Bench({PODS: []})
    running = Running(create_pods(form(), names, owner=OWNER, owner_resource=REPLICASETS))
    driven = drive(running, "", answer(bench) if answer is not None else bench.accept, tables=bench.tables)
    return driven, running.answer


def test_pods_are_created_in_growing_batches_with_an_event_each() -> None:
    names = [f"web-{i}" for i in range(10)]
    driven, result = creating(names)
    assert [len(batch) for batch in driven.batches] == [1, 2, 4, 3]
    assert created_names(driven) == names
    assert driven.events == [("Normal", "SuccessfulCreate", f"Created pod: {name}") for name in names]
    assert result.created == [f"default/{name}" for name in names]
    assert (result.failure, result.existing, result.maybe_created) == (None, [], [])


def test_events_are_recorded_after_each_batch() -> None:
    steps = create_pods(form(), ["a", "b", "c"], owner=OWNER, owner_resource=REPLICASETS)
    (first,) = next(steps)
    assert steps.send([Done(first.body)]).message == "Created pod: a"
    assert len(next(steps)) == 2


# number of pods, index of the first failure, calls, successes
SLOW_START = [(10, 10, 10, 10), (10, 5, 7, 5), (10, 0, 1, 0), (100, 10, 15, 10), (0, 0, 0, 0)]


@pytest.mark.parametrize(("count", "failing_from", "calls", "successes"), SLOW_START)
def test_no_batch_follows_a_failed_one(count: int, failing_from: int, calls: int, successes: int) -> None:
    driven, result = creating(
        [f"web-{i}" for i in range(count)],
        lambda bench: failing(after=failing_from, outcome=QUOTA_EXCEEDED, to=Create, otherwise=bench.accept),
    )
    assert len(driven.commands) == calls
    assert len(result.created) == successes
    assert (result.failure is not None) == (calls > successes)


def test_slow_start_returns_the_outcomes_of_attempted_creations() -> None:
    commands = [form().create(f"web-{i}") for i in range(10)]
    bench = Bench({PODS: []})
    running = Running(slow_start(commands, initial=2))
    driven = drive(
        running,
        "",
        failing(after=3, outcome=QUOTA_EXCEEDED, to=Create, otherwise=bench.accept),
        tables=bench.tables,
    )
    assert [len(batch) for batch in driven.batches] == [2, 4]
    assert [type(outcome) for outcome in running.answer] == [Done, Done, Done, Forbidden, Forbidden, Forbidden]


# outcome; whether it has an event, is a failure, and is unknown
CREATE_OUTCOMES = [
    (QUOTA_EXCEEDED, True, True, False),
    (ServerFailure("etcd is down"), True, True, False),
    (Throttled("later"), True, True, False),
    (Conflict("quota changed"), True, True, False),
    (Unknown("timed out"), True, True, True),
    (Refused("the lease is lost"), False, True, False),
    (NAMESPACE_TERMINATING, False, False, False),
    (AlreadyExists("exists"), False, False, False),
]


@pytest.mark.parametrize(
    ("outcome", "has_event", "fails", "is_unknown"), CREATE_OUTCOMES, ids=lambda value: str(value)[:20]
)
def test_creation_outcome_determines_event_and_failure(
    outcome: Outcome, has_event: bool, fails: bool, is_unknown: bool
) -> None:
    driven, result = creating(["web-a"], lambda _bench: lambda _command: outcome)
    expected = [("Warning", "FailedCreate", f"Error creating: {outcome.message}")] if has_event else []
    assert driven.events == expected
    assert result.created == []
    assert bool(result.maybe_created) is is_unknown
    assert (result.failure.failure if result.failure else None) == (outcome if fails else None)


# message of the server for "web-a", and its message for generateName "web-"
GENERATED = [
    ('pods "web-a" is forbidden: error looking up service account team/x', '"web-" is forbidden: error looking up'),
    ('pods "web-a" is forbidden: exceeded quota: small', '"web-a" is forbidden: exceeded quota'),
    ('admission webhook "web-a" denied the request: no', 'admission webhook "web-a" denied'),
]


@pytest.mark.parametrize(("message", "expected"), GENERATED)
def test_rejected_creation_has_the_text_of_upstreams_request(message: str, expected: str) -> None:
    driven, result = creating(["web-a"], lambda _bench: lambda _command: Forbidden(message))
    ((_, _, text),) = driven.events
    assert expected in text
    assert text == f"Error creating: {said(result.failure)}"  # the message of the condition ReplicaFailure


def test_first_failure_of_a_batch_is_raised() -> None:
    _, result = creating(
        ["web-a", "web-b", "web-c"],
        lambda bench: lambda command: bench.accept(command) if b"web-a" in command.body else QUOTA_EXCEEDED,
    )
    assert b"web-b" in result.failure.command.body


def test_existing_name_does_not_stop_the_batches() -> None:
    _, result = creating(
        ["web-a", "web-b", "web-c"],
        lambda bench: lambda command: AlreadyExists() if b"web-a" in command.body else bench.accept(command),
    )
    assert result.existing == ["default/web-a"]
    assert result.created == ["default/web-b", "default/web-c"]


def test_terminating_namespace_stops_the_batches() -> None:
    driven, _ = creating([f"web-{i}" for i in range(9)], lambda _bench: lambda _command: NAMESPACE_TERMINATING)
    assert len(driven.commands) == 1


STATUSES = [
    (NAMESPACE_TERMINATING, True),
    (QUOTA_EXCEEDED, False),
    (Forbidden("NamespaceTerminating", b'{"message":"NamespaceTerminating"}'), False),
    (Forbidden("", b'{"details":{"causes":[{"reason":"Other"}]},"message":"NamespaceTerminating"}'), False),
    (Forbidden("", b'{"details":{"causes":["NamespaceTerminating"]}}'), False),
    (Forbidden("", b'{"details":"NamespaceTerminating"}'), False),
    (Forbidden("", b"NamespaceTerminating"), False),
    (ServerFailure("", encode_object({"details": {"causes": [{"reason": "NamespaceTerminating"}]}})), False),
]


@pytest.mark.parametrize(("failure", "terminating"), STATUSES)
def test_terminating_namespace_is_detected_by_the_causes_of_the_status(failure: Outcome, terminating: bool) -> None:
    assert is_namespace_terminating(failure) is terminating


# Deletion.


def deleting(names: Sequence[str], answer: Callable[..., Any] | None = None) -> tuple[Driven, Deletions]:
    bench = Bench({PODS: [running_pod(name) for name in names]})
    entries = [bench.tables[PODS].entry(f"default/{name}") for name in names]
    running = Running(delete_pods(entries, owner=OWNER, owner_resource=REPLICASETS))
    driven = drive(running, "", answer or bench.accept, tables=bench.tables)
    return driven, running.answer


def test_pods_are_deleted_together_by_uid_with_an_event_each() -> None:
    driven, result = deleting(["a", "b"])
    assert [[(command.key, command.uid) for command in batch] for batch in driven.batches] == [
        [("default/a", "uid-of-a"), ("default/b", "uid-of-b")]
    ]
    assert driven.events == [("Normal", "SuccessfulDelete", f"Deleted pod: {name}") for name in ("a", "b")]
    assert (result.deleted, result.failure) == (["default/a", "default/b"], None)


# outcome; whether it has an event, and is a failure
DELETE_OUTCOMES = [
    (NotFound("gone"), False, False),
    (Conflict("another uid"), False, False),
    (Forbidden("no"), True, True),
    (Unknown("timed out"), True, True),
    (Refused("the lease is lost"), False, True),
]


@pytest.mark.parametrize(("outcome", "has_event", "fails"), DELETE_OUTCOMES, ids=lambda value: str(value)[:20])
def test_deletion_outcome_determines_event_and_failure(outcome: Outcome, has_event: bool, fails: bool) -> None:
    driven, result = deleting(["a"], lambda _command: outcome)
    assert driven.events == ([("Warning", "FailedDelete", f"Error deleting: {outcome.message}")] if has_event else [])
    assert result.deleted == []
    assert said(result.failure) == (f"unable to delete pods: {outcome.message}" if fails else None)


def test_all_deletions_are_sent_and_the_first_failure_returned() -> None:
    refusals = {"default/b": Forbidden("b"), "default/c": Forbidden("c")}
    driven, result = deleting(["a", "b", "c"], lambda command: refusals.get(command.key, Done(b"{}")))
    assert len(driven.commands) == 3
    assert result.deleted == ["default/a"]
    assert said(result.failure) == "unable to delete pods: b"
