"""Watches: initial state, events, and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.storage import history, watches
from tests.runtime.apiserver.conftest import Api

END = "k8s.io/initial-events-end"


def test_watch_without_a_version_begins_with_the_state(api: Api) -> None:
    api.create("pods", api.pod("a"))
    listener = api.watch("pods")
    api.create("pods", api.pod("b"))
    assert listener.seen == [("ADDED", "a"), ("ADDED", "b")]


def test_watch_from_a_version_delivers_later_changes(api: Api) -> None:
    created = api.create("pods", api.pod("a"))
    api.patch("pods", "a", {"metadata": {"labels": {"x": "y"}}})
    listener = api.watch("pods", resourceVersion=created.meta["resourceVersion"])
    api.delete("pods", "a")
    assert listener.seen == [("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    marked, gone = (event["object"] for event in listener.events[1:])
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert gone["metadata"]["resourceVersion"] == str(api.server.revision)
    assert gone["metadata"]["labels"]["x"] == "y"


def test_watchers_receive_the_stored_bytes(api: Api) -> None:
    listener = api.watch("pods", resourceVersion=str(api.server.revision))
    api.create("pods", api.pod())
    stored = api.get("pods", "web").obj
    assert listener.events == [{"type": "ADDED", "object": stored}]


def test_watch_is_limited_to_its_namespace(api: Api) -> None:
    here, everywhere = api.watch("pods"), api.watch("pods", namespace=None)
    api.create("pods", api.pod("a"), namespace="kube-system")
    assert here.seen == []
    assert everywhere.seen == [("ADDED", "a")]


def test_a_watch_of_another_resource_gets_nothing(api: Api) -> None:
    listener = api.watch("configmaps")
    api.create("pods", api.pod())
    assert listener.seen == []


@pytest.mark.parametrize(
    "query,inside,outside",
    [
        (
            {"labelSelector": "app=web"},
            {"metadata": {"labels": {"app": "web"}}},
            {"metadata": {"labels": {"app": "x"}}},
        ),
        ({"fieldSelector": "status.phase!=Failed"}, {"status": {"phase": "Running"}}, {"status": {"phase": "Failed"}}),
    ],
)
def test_object_that_leaves_the_selection_is_deleted_and_one_that_enters_is_added(
    api: Api, query: Object, inside: Object, outside: Object
) -> None:
    listener = api.watch("pods", resourceVersion=str(api.server.revision), **query)
    api.create("pods", api.pod())
    api.patch("pods", "web", {"metadata": {"annotations": {"a": "1"}}})
    left = api.patch("pods", "web", outside, subresource="status")
    api.patch("pods", "web", {"metadata": {"annotations": {"a": "2"}}})
    api.patch("pods", "web", inside, subresource="status")
    api.delete("pods", "web")
    assert [type_ for type_, _ in listener.seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    leaving = listener.events[2]["object"]
    assert leaving["metadata"]["resourceVersion"] == left.meta["resourceVersion"]
    assert leaving["metadata"]["labels"] == {"app": "web"}  # as in its last selected version
    assert leaving["status"]["phase"] == "Pending"


def test_watch_of_a_name_delivers_only_that_object(api: Api) -> None:
    listener = api.watch("pods", fieldSelector="metadata.name=b")
    for name in "abc":
        api.create("pods", api.pod(name))
    assert listener.seen == [("ADDED", "b")]


def test_a_streamed_list_ends_with_a_bookmark(api: Api) -> None:
    for name in "ab":
        api.create("pods", api.pod(name))
    listener = api.watch(
        "pods", sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    assert listener.seen == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
    bookmark = listener.events[2]["object"]
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("Pod", "v1")
    assert bookmark["metadata"]["annotations"] == {END: "true"}
    assert bookmark["metadata"]["resourceVersion"] == str(api.server.revision)
    api.create("pods", api.pod("c"))
    assert listener.seen[3:] == [("ADDED", "c")]


def test_watch_can_begin_without_the_state(api: Api) -> None:
    api.create("pods", api.pod("a"))
    listener = api.watch("pods", sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    api.create("pods", api.pod("b"))
    assert listener.seen == [("ADDED", "b")]


def test_bookmarks_are_sent_every_minute_and_before_the_end(api: Api) -> None:
    listener = api.watch("pods", resourceVersion="1", allowWatchBookmarks="true", timeoutSeconds="100")
    api.create("namespaces", {"metadata": {"name": "elsewhere"}})
    for _ in range(99):
        api.advance(1)
    assert listener.seen == [("BOOKMARK", "")] * 2
    assert listener.events[1]["object"]["metadata"]["resourceVersion"] == str(api.server.revision)
    assert listener.ended is None
    api.advance(1)
    assert listener.ended.status == 200
    api.create("pods", api.pod())
    api.advance(1000)
    assert len(listener.lines) == 2


def test_short_watch_gets_a_bookmark(api: Api) -> None:
    api.create("pods", api.pod())
    listener = api.watch("pods", allowWatchBookmarks="true", timeoutSeconds="5")
    at_the_beginning = [("ADDED", "web"), ("BOOKMARK", "")]
    api.advance(2)
    assert listener.seen == at_the_beginning
    api.advance(1)
    assert listener.seen == [*at_the_beginning, ("BOOKMARK", "")]


def test_bookmarks_are_sent_on_request_only(api: Api) -> None:
    listener = api.watch("pods")
    api.advance(600)
    assert listener.lines == []


def test_the_server_returns_when_its_next_tick_is_due(api: Api) -> None:
    assert api.server.next_tick() is None
    api.watch("pods", timeoutSeconds="100")
    assert api.server.next_tick() == api.clock.time + 100
    listener = api.watch("pods", allowWatchBookmarks="true")
    assert api.server.next_tick() == api.clock.time + 60
    listener.watch.cancel()
    assert api.server.next_tick() == api.clock.time + 100


def test_watch_without_timeout_ends_after_30_to_60_minutes(api: Api) -> None:
    listeners = [api.watch("pods") for _ in range(5)]
    api.advance(1799)
    assert [listener.ended for listener in listeners] == [None] * 5
    api.advance(1801)
    assert all(listener.ended for listener in listeners)


def test_a_cancelled_watch_is_silent(api: Api) -> None:
    listener = api.watch("pods")
    listener.watch.cancel()
    listener.watch.cancel()
    api.create("pods", api.pod())
    api.advance(10_000)
    assert listener.lines == []
    assert listener.ended is None


def test_too_old_version_is_an_error_event(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "HISTORY", 2)
    revision = api.create("pods", api.pod("a")).meta["resourceVersion"]
    for name in "bcd":
        api.create("pods", api.pod(name))

    listener = api.watch("pods", resourceVersion=revision)

    (event,) = listener.events
    assert event["type"] == "ERROR"
    assert event["object"]["kind"] == "Status"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"] == f"too old resource version: {revision} ({int(revision) + 1})"
    assert listener.ended.status == 200


def test_history_is_limited_by_bytes(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "HISTORY_BYTES", 100_000)
    revision = api.create("configmaps", {"metadata": {"name": "a"}}).meta["resourceVersion"]
    for name in "bcd":
        api.create("configmaps", {"metadata": {"name": name}, "data": {"large": "x" * 40_000}})
    newest = str(api.server.revision - 1)
    assert api.watch("configmaps", resourceVersion=revision).events[0]["object"]["code"] == 410
    assert api.watch("configmaps", resourceVersion=newest).seen == [("ADDED", "d")]


def test_histories_of_all_resources_share_a_limit(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "ALL_HISTORIES_BYTES", 200_000)
    large = {"metadata": {"name": "a", "annotations": {"large": "x" * 10_000}}}
    resources = ("configmaps", "secrets", "serviceaccounts", "endpoints", "leases", "priorityclasses")
    for number in range(10):
        for resource in resources:
            large["metadata"]["name"] = f"a{number}"
            assert api.create(resource, large).status == 201
            sizes = [api.server._cache.history(each).size for each in api.server._cache._histories]
            assert sum(sizes) == api.server._cache._size <= 200_000
    newest = str(api.server.revision - 1)
    assert api.watch("priorityclasses", resourceVersion=newest).seen == [("ADDED", "a9")]


def test_history_counts_both_objects_of_a_deletion(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deleted object may have been created long before, so that no other event contains it."""
    names = [f"a{number}" for number in range(20)]
    for name in names:
        api.create("configmaps", {"metadata": {"name": name}, "data": {"large": "x" * 10_000}})
    api.server._cache.history("configmaps").forget_bytes(1 << 60)
    assert api.server._cache.history("configmaps").size == 0
    monkeypatch.setattr(history, "HISTORY_BYTES", 100_000)
    for name in names:
        api.delete("configmaps", name)
    changes = api.server._cache.history("configmaps")._changes
    assert sum(len(change.raw) + len(change.previous) for change in changes) <= 100_000


def test_history_expires_after_five_minutes(api: Api) -> None:
    revision = api.create("pods", api.pod("a")).meta["resourceVersion"]
    api.create("pods", api.pod("b"))
    api.advance(1)
    api.advance(200)
    assert api.watch("pods", resourceVersion=revision).seen == [("ADDED", "b")]
    api.advance(100)
    assert api.watch("pods", resourceVersion=revision).seen == [("ERROR", "")]
    assert api.watch("pods", resourceVersion=str(api.server.revision)).seen == []


def test_watch_from_a_future_version_waits_for_it(api: Api) -> None:
    listener = api.watch("pods", resourceVersion=str(api.server.revision + 1))
    api.create("pods", api.pod("a"))
    api.create("pods", api.pod("b"))
    assert listener.seen == [("ADDED", "b")]


@pytest.mark.parametrize(
    "query,status",
    [
        ({"resourceVersion": "x"}, 500),
        ({"timeoutSeconds": "soon"}, 400),
        ({"fieldSelector": "spec.foo=1"}, 400),
        ({"sendInitialEvents": "true"}, 422),
        ({"resourceVersionMatch": "NotOlderThan"}, 422),
        ({"resourceVersionMatch": "Exact", "sendInitialEvents": "true"}, 422),
    ],
)
def test_invalid_watch_is_rejected(api: Api, query: Object, status: int) -> None:
    assert api.watch("pods", **query).watch.status == status


def test_cancelling_a_watch_during_an_event_does_not_affect_others(api: Api) -> None:
    first, second = api.watch("pods"), api.watch("pods")
    deliver = first.deliver

    def stop(lines: bytes) -> None:
        deliver(lines)
        first.watch.cancel()

    first.watch._deliver = stop
    api.create("pods", api.pod("a"))
    api.create("pods", api.pod("b"))
    assert first.seen == [("ADDED", "a")]
    assert second.seen == [("ADDED", "a"), ("ADDED", "b")]


STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "relabel", "delete"]), st.sampled_from("abc"), st.sampled_from("xy")),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, begin=st.integers(0, 30))
def test_events_of_a_watch_lead_to_the_listed_state(
    make_api: type[Any], steps: Sequence[tuple[str, ...]], begin: int
) -> None:
    """The watch begins from the state or from a version, with or without a selector."""
    api = make_api()
    followers = []
    for i, (step, name, label) in enumerate(steps):
        if i == begin:
            listed = api.list("pods", labelSelector="app=x")
            version = listed.meta["resourceVersion"]
            known = {item["metadata"]["name"]: item for item in listed.obj["items"]}
            followers = [
                ({}, api.watch("pods", labelSelector="app=x")),
                (known, api.watch("pods", labelSelector="app=x", resourceVersion=version)),
            ]
        if step == "create":
            body = api.pod(name)
            body["metadata"]["labels"] = {"app": label}
            api.create("pods", body)
        elif step == "relabel":
            api.patch("pods", name, {"metadata": {"labels": {"app": label}}})
        else:
            api.delete("pods", name)
    expected = {item["metadata"]["name"]: item for item in api.list("pods", labelSelector="app=x").obj["items"]}
    for table, listener in followers:
        for event in listener.events:
            name = event["object"]["metadata"]["name"]
            if event["type"] == "ADDED":
                assert name not in table
            else:
                assert name in table
            if event["type"] == "DELETED":
                del table[name]
            else:
                table[name] = event["object"]
        assert table == expected
