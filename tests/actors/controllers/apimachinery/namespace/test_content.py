"""Deletion of collections with servers that lack some verbs, and the remaining objects.

Source of the cases: kubernetes v1.36 pkg/controller/namespace/deletion/namespaced_resources_deleter_test.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kcm.actors.controllers.apimachinery.namespace.content import (
    PAGE,
    WHOLE,
    Content,
    Pages,
    delete_content,
    find_content,
    remaining_grace,
)
from kcm.actors.simulation.driver import drive_steps
from kcm.protocols.messages.commands import Command, Delete, DeleteCollection, List, in_words
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import Conflict, Done, Forbidden, Gone, Invalid, NotFound, Outcome, ServerFailure
from kcm.protocols.objects import Object, encode_object
from kcm.runtime.tables.tables import Tables

ALL = ("delete", "deletecollection", "list")
UNSUPPORTED = Invalid("the server does not allow this method on the requested resource", b"", 405)
SUCCESS = Done(b'{"kind":"Status","status":"Success"}')


def served(plural: str = "flakes", *verbs: str) -> ServedResource:
    return ServedResource(
        group="example.com", version="v1", plural=plural, kind="Flake", namespaced=True, verbs=verbs or ALL
    )


def items(*names: str, **meta: Any) -> Done:
    objects: list[Object] = [{"metadata": {"name": name, "uid": f"uid-{name}", **meta}} for name in names]
    return Done(encode_object({"kind": "List", "items": objects}))


class Server:
    """Return outcomes by the type of the command. The last outcome of each type is repeated."""

    def __init__(self, *, lists: list[Outcome], all: Outcome = SUCCESS, each: Outcome = SUCCESS) -> None:
        self._lists, self._all, self._each = lists, all, each
        self.asked: list[str] = []

    def __call__(self, command: Command) -> Outcome:
        self.asked.append(in_words(command))
        match command:
            case List():
                return self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
            case DeleteCollection(propagation="Background"):
                return self._all
            case Delete(propagation="Background"):
                return self._each
        raise AssertionError(command)


def deleted(server: Callable[[Command], Outcome], *resources: ServedResource, pages: Pages = WHOLE) -> Content:
    there = dict.fromkeys(resources, pages)
    content = drive_steps(delete_content("team", there), server, tables=Tables({})).result
    assert isinstance(content, Content)
    return content


def found(server: Callable[[Command], Outcome], *resources: ServedResource) -> object:
    return drive_steps(find_content("team", resources), server, tables=Tables({})).result


@pytest.mark.parametrize(
    ("answer", "there"),
    [
        (items(), False),
        (items("a"), True),
        (NotFound(), False),  # not served any more
        (UNSUPPORTED, False),
        (ServerFailure("broken"), True),  # unknown
        (Forbidden("no"), True),
    ],
)
def test_empty_collection_is_not_deleted(answer: Outcome, *, there: bool) -> None:
    assert found(Server(lists=[answer]), served()) == ({served(): WHOLE} if there else {})


def test_resource_that_cannot_be_listed_may_have_objects() -> None:
    flakes = served("flakes", "delete", "deletecollection")
    assert found(Server(lists=[]), flakes) == {flakes: WHOLE}


def page(*names: str, follows: object = "") -> Done:
    objects = [{"metadata": {"name": name}} for name in names]
    return Done(encode_object({"kind": "List", "metadata": {"continue": follows}, "items": objects}))


@pytest.mark.parametrize(
    ("lists", "pages"),
    [
        ([page("a", follows="x"), page("b", follows="y"), page("c")], ("", "x", "y")),
        ([page("a", follows="x"), page()], ("", "x")),
        # The last known page has no limit.
        ([page("a", follows="x"), Gone("too old")], ("", "x")),
        ([page("a", follows="x"), ServerFailure("broken")], ("", "x")),
        ([page("a", follows=None)], WHOLE),
        ([page("a", follows=3)], WHOLE),
    ],
)
def test_pages_of_a_long_collection_are_found(lists: list[Outcome], pages: Pages) -> None:
    assert found(Server(lists=lists), served()) == {served(): pages}


def test_resources_are_listed_concurrently_page_by_page() -> None:
    """Each list continues with its own token."""

    def answer(command: Command) -> Outcome:
        assert isinstance(command, List)
        assert (command.limit, command.metadata_only) == (PAGE, True)
        page_number = int(command.continue_from.rpartition("-")[2] or 0)
        last = 2 if "shards" in command.resource else 1
        follows = f"{command.resource}-{page_number + 1}" if page_number < last else ""
        return page("a", follows=follows)

    shards, flakes, empty = served("shards"), served(), served("crumbs", "delete")
    assert found(answer, shards, flakes, empty) == {
        shards: ("", f"{shards.resource.id}-1", f"{shards.resource.id}-2"),
        flakes: ("", f"{flakes.resource.id}-1"),
        empty: WHOLE,
    }


def test_collection_is_deleted_then_listed() -> None:
    server = Server(lists=[items()])
    content = deleted(server, served())
    assert server.asked == ["delete all flakes.example.com in team", "list flakes.example.com in team"]
    assert (content.numbers, content.failures) == ({}, [])


def test_pages_are_deleted_concurrently_and_the_last_without_limit() -> None:
    sent: list[tuple[str, int]] = []

    def answer(command: Command) -> Outcome:
        if isinstance(command, DeleteCollection):
            sent.append((command.continue_from, command.limit))
            return SUCCESS
        return items()

    driven = drive_steps(delete_content("team", {served(): ("", "x", "y")}), answer, tables=Tables({}))
    assert sent == [("", PAGE), ("x", PAGE), ("y", 0)]
    assert len(driven.batches[0]) == 3


def test_expired_page_is_left_to_the_next_sync() -> None:
    server = Server(lists=[items("a")], all=Gone("The provided continue parameter is too old"))
    content = deleted(server, served(), pages=("", "x"))
    assert (content.numbers, content.failures) == ({served().resource: 1}, [])


def test_objects_of_undeletable_pages_are_deleted_once_each() -> None:
    server = Server(lists=[items("a", "b"), items()], all=UNSUPPORTED)
    deleted(server, served(), pages=("", "x"))
    assert [request for request in server.asked if request.startswith("delete flakes")] == [
        "delete flakes.example.com team/a",
        "delete flakes.example.com team/b",
    ]


@pytest.mark.parametrize("refusal", [NotFound(), UNSUPPORTED])
def test_objects_are_deleted_one_by_one_without_deletecollection(refusal: Outcome) -> None:
    server = Server(lists=[items("a", "b"), items()], all=refusal)
    content = deleted(server, served())
    assert server.asked == [
        "delete all flakes.example.com in team",
        "list flakes.example.com in team",
        "delete flakes.example.com team/a",
        "delete flakes.example.com team/b",
        "list flakes.example.com in team",
    ]
    assert (content.numbers, content.failures) == ({}, [])


def test_deletecollection_is_skipped_if_discovery_lacks_the_verb() -> None:
    server = Server(lists=[items("a"), items()])
    deleted(server, served("flakes", "delete", "list"))
    assert server.asked[0] == "list flakes.example.com in team"


@pytest.mark.parametrize("outcome", [NotFound(), UNSUPPORTED, Conflict()])
def test_deleted_or_replaced_object_is_ignored(outcome: Outcome) -> None:
    server = Server(lists=[items("a"), items()], each=outcome)
    assert deleted(server, served("flakes", "delete", "list")).failures == []


def test_failed_deletion_of_an_object_is_reported_and_nothing_counted() -> None:
    server = Server(lists=[items("a", "b")], each=Forbidden("a webhook says no"))
    content = deleted(server, served("flakes", "delete", "list"))
    assert [failure.failure.message for failure in content.failures] == ["a webhook says no"]
    assert content.numbers == {}


def test_failure_of_one_resource_does_not_affect_others() -> None:
    def answer(command: Command) -> Outcome:
        if "shards" in command.resource:
            return ServerFailure("broken") if isinstance(command, DeleteCollection) else items("s")
        return items("a", "b", finalizers=["f", "g"]) if isinstance(command, List) else SUCCESS

    content = deleted(answer, served("shards"), served())
    failures = [str(failure) for failure in content.failures]
    assert failures == ["delete all shards.example.com in team: ServerFailure: broken"]
    assert content.numbers == {served().resource: 2}
    assert content.finalizers == {served().resource: Counter({"f": 2, "g": 2})}


def test_failed_final_list_is_reported() -> None:
    assert len(deleted(Server(lists=[ServerFailure("broken")]), served()).failures) == 1


def test_malformed_items_are_counted() -> None:
    odd: Object = {"items": [{"metadata": None}, {}, {"metadata": {"name": "a", "finalizers": "x"}}, 3]}
    server = Server(lists=[Done(encode_object(odd))], all=UNSUPPORTED)
    assert deleted(server, served()).numbers == {served().resource: 3}


def pod(grace: object = 30, phase: str = "Running") -> Object:
    return {"spec": {"terminationGracePeriodSeconds": grace}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pods", "since", "seconds"),
    [
        ([pod(5), pod(30)], 0.0, 30),
        ([pod(30), pod(60, "Succeeded"), pod(90, "Failed")], 0.0, 30),
        ([pod(None)], 0.0, 0),
        ([pod("soon"), {}], 0.0, 0),
        ([pod(30)], 29.9, 30),
        ([pod(30)], 30.0, 0),
        ([], 0.0, 0),
    ],
)
def test_estimate_is_the_longest_grace_period_of_the_pods(pods: list[Object], since: float, seconds: int) -> None:
    assert remaining_grace(pods, since_deletion=since) == seconds
