"""Conversion webhooks: number of calls, and requests and watches that wait for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.questions import Answer, Post, Question
from kcm.runtime.apiserver.storage import watches
from kcm.runtime.apiserver.storage.watches import CacheWatcher
from kcm.runtime.client.api import Request
from tests.runtime.apiserver.conftest import Api, Listener
from tests.runtime.apiserver.converters import Converter

V1, V2 = (f"/apis/example.com/{version}/namespaces/default/things" for version in ("v1", "v2"))
SPEC = {"type": "object", "properties": {"host": {"type": "string"}, "hostPort": {"type": "string"}}}
SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}
URL = "https://127.0.0.1:9443/convert"


def definition(url: str = URL, **of_v2: Any) -> Object:
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": url}}
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": SCHEMA},
        {"name": "v2", "served": True, "storage": False, "schema": SCHEMA, **of_v2},
    ]
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": versions,
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }


def thing(name: str, version: str = "v1", host: str = "h", **labels: str) -> Object:
    meta = {"name": name, "labels": labels}
    return {"apiVersion": f"example.com/{version}", "kind": "Thing", "metadata": meta, "spec": {"host": host}}


class PendingQuestions:
    """Pending questions of watches, which a test resolves."""

    def __init__(self, hook: Converter) -> None:
        self._hook = hook
        self.waiting: list[tuple[Sequence[Question], Callable[[list[Answer]], None]]] = []

    def ask(self, questions: Sequence[Question], then: Callable[[list[Answer]], None]) -> None:
        self.waiting.append((questions, then))

    def answer(self) -> None:
        questions, then = self.waiting.pop(0)
        then([self._hook.ask(question) for question in questions])

    @property
    def names(self) -> list[str]:
        """Return the names of the objects in the pending question."""
        (question,) = self.waiting[0][0]
        assert isinstance(question, Post)
        return [obj["metadata"]["name"] for obj in json.loads(question.body)["request"]["objects"]]


class Rig:
    def __init__(self, make_api: type[Api]) -> None:
        self.hook = Converter()
        self.api = make_api(call_webhook=self.hook.ask)
        self.later = PendingQuestions(self.hook)
        self.api.server.webhook_calls.set_async_caller(self.later.ask)
        selectable = [{"jsonPath": ".spec.hostPort"}]
        assert self.api.create("customresourcedefinitions", definition(selectableFields=selectable)).status == 201

    def make(self, name: str, **given: Any) -> None:
        assert self.api.send("POST", V1, thing(name, **given)).status == 201

    def watch(self, **query: str) -> Listener:
        listener = Listener()
        request = Request(method="GET", path=V2, query={"watch": "1", **query})
        listener.watch = self.api.server.watch(request, deliver=listener.deliver, end=listener.end)
        return listener


@pytest.fixture
def rig(make_api: type[Api]) -> Rig:
    return Rig(make_api)


def test_list_converts_all_objects_in_one_call(rig: Rig) -> None:
    for name in "abc":
        rig.make(name)
    assert rig.hook.heard == []  # objects are stored in the version of the request
    assert rig.api.send("GET", V2).names == ["a", "b", "c"]
    ((_, request),) = rig.hook.heard
    assert [obj["metadata"]["name"] for obj in request["objects"]] == ["a", "b", "c"]


def test_list_with_field_selector_converts_before_selecting(rig: Rig) -> None:
    for name, host in (("a", "x"), ("b", "y"), ("c", "x")):
        rig.make(name, host=host)
    found = rig.api.send("GET", V2, fieldSelector="spec.hostPort=x:", limit="1")
    assert found.names == ["a"]
    assert [len(request["objects"]) for _, request in rig.hook.heard] == [
        3,
        1,
    ]  # one call to select, one for the response
    assert "remainingItemCount" not in found.meta
    assert rig.api.send("GET", V2, fieldSelector="spec.hostPort=x:").names == ["a", "c"]


def test_write_in_the_stored_version_calls_no_webhook(rig: Rig) -> None:
    rig.make("a")
    assert rig.api.send("PATCH", f"{V1}/a", {"spec": {"host": "z"}}, type_="application/merge-patch+json").status == 200
    assert rig.hook.heard == []


def test_watch_sends_existing_objects_once_they_are_converted(rig: Rig) -> None:
    rig.make("a")
    rig.make("b")
    watch = rig.watch()
    assert watch.events == []
    assert rig.later.names == ["a", "b"]
    rig.later.answer()
    assert watch.seen == [("ADDED", "a"), ("ADDED", "b")]
    assert watch.events[0]["object"]["spec"] == {"hostPort": "h:"}


def test_events_during_a_conversion_are_sent_afterwards_in_order(rig: Rig) -> None:
    rig.make("a")
    watch = rig.watch()
    rig.make("b")
    rig.later.answer()
    rig.make("c")
    rig.api.send("DELETE", f"{V1}/a")
    assert watch.seen == [("ADDED", "a")]
    rig.later.answer()
    assert watch.seen == [("ADDED", "a"), ("ADDED", "b")]
    rig.later.answer()  # for both events, which waited for the first call
    assert watch.seen[2:] == [("ADDED", "c"), ("DELETED", "a")]
    assert rig.later.waiting == []


def test_bookmark_waits_for_events_that_are_being_converted(rig: Rig) -> None:
    watch = rig.watch(allowWatchBookmarks="true", resourceVersion=str(rig.api.server.revision))
    rig.make("a")
    rig.api.advance(61.0)
    assert watch.events == []
    rig.later.answer()
    rig.api.advance(61.0)
    assert watch.seen == [("ADDED", "a"), ("BOOKMARK", "")]


def test_watch_selects_converted_objects(rig: Rig) -> None:
    watch = rig.watch(fieldSelector="spec.hostPort=x:")
    rig.make("a", host="x")
    rig.later.answer()
    rig.make("b", host="y")
    rig.later.answer()
    patch = {"spec": {"host": "y"}}
    rig.api.send("PATCH", f"{V1}/a", patch, type_="application/merge-patch+json")
    rig.later.answer()
    assert watch.seen == [("ADDED", "a"), ("DELETED", "a")]


def test_a_watch_ends_when_its_events_cannot_be_converted(rig: Rig) -> None:
    watch = rig.watch()
    rig.make("a")
    _, then = rig.later.waiting.pop()
    then([Answer(error='Post "x": EOF')])
    assert watch.events[0]["type"] == "ERROR"
    assert watch.events[0]["object"]["message"].endswith('Kind=Thing failed: Post "x": EOF')
    assert watch.ended is not None


def test_watch_ends_if_its_webhook_does_not_respond(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MOST_DUE", 2)
    watch = rig.watch()
    for name in "abc":
        rig.make(name)
    assert watch.ended is None
    rig.make("d")
    assert (watch.events[0]["type"], watch.events[0]["object"]["code"]) == ("ERROR", 410)
    rig.later.answer()
    assert len(watch.events) == 1


def test_cancelled_watch_receives_no_converted_events(rig: Rig) -> None:
    watch = rig.watch()
    rig.make("a")
    assert isinstance(watch.watch, CacheWatcher)
    watch.watch.cancel()
    rig.later.answer()
    assert watch.events == []


def test_a_change_of_the_definition_ends_watches_of_all_versions(rig: Rig) -> None:
    watch = rig.watch()
    rig.api.patch("customresourcedefinitions", "things.example.com", {"metadata": {"labels": {"a": "b"}}})
    assert watch.ended is None
    names = {"shortNames": ["th"]}
    rig.api.patch("customresourcedefinitions", "things.example.com", {"spec": {"names": names}})
    assert watch.ended is not None
    assert watch.events == []


def test_a_refused_change_of_the_definition_ends_no_watch(rig: Rig) -> None:
    watch = rig.watch()
    refused = rig.api.patch("customresourcedefinitions", "things.example.com", {"spec": {"scope": "Cluster"}})
    assert refused.status == 422
    assert watch.ended is None
