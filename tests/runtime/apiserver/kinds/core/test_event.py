"""Events of core/v1 and events.k8s.io/v1: conversion, selection, expiry and table cells."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.core.expiry import Expiry
from tests.runtime.apiserver.kinds.printers import cells

EVENT = {
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default", "uid": "u"},
    "reason": "Started",
    "message": "Started container c",
    "source": {"component": "kubelet"},
    "count": 1,
    "type": "Normal",
}


NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def test_both_event_groups_list_the_same_events(api):
    api.create("events", EVENT)
    shown = api.send("GET", f"{NEW_EVENTS}/e").obj
    assert shown["apiVersion"] == "events.k8s.io/v1"
    assert (shown["note"], shown["regarding"]["name"], shown["deprecatedCount"]) == ("Started container c", "web", 1)
    assert "message" not in shown

    listed = api.send("GET", NEW_EVENTS, fieldSelector="regarding.name=web,reason=Started")
    assert listed.obj["kind"] == "EventList"
    assert listed.obj["items"] == [shown]

    new = {
        "metadata": {"name": "f"},
        "regarding": EVENT["involvedObject"],
        "note": "n",
        "reason": "Pulled",
        "action": "Pulling",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/me",
        "reportingInstance": "me-1",
    }
    refused = api.send("POST", NEW_EVENTS, {**new, "eventTime": None, "action": None})
    assert refused.causes == {"eventTime": "Required value"}
    created = api.send("POST", NEW_EVENTS, new)
    assert (created.status, created.obj["note"]) == (201, "n")
    assert api.get("events", "f").obj["message"] == "n"
    refused = api.send("PATCH", f"{NEW_EVENTS}/f", {"note": "m"}, type_="application/merge-patch+json")
    assert refused.causes == {"message": 'Invalid value: "m": field is immutable'}
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    patched = api.send("PATCH", f"{NEW_EVENTS}/f", {"series": series}, type_="application/merge-patch+json")
    assert patched.obj["series"] == api.get("events", "f").obj["series"] == series


def test_watch_of_either_group_delivers_all_events_in_its_version(api):
    old = api.watch("events", fieldSelector="involvedObject.kind=Pod,source=kubelet")
    api.create("events", EVENT)
    assert [event["object"]["apiVersion"] for event in old.events] == ["v1"]


@pytest.mark.parametrize(
    "selector,found",
    [
        ("involvedObject.name=web", True),
        ("involvedObject.uid=v", False),
        ("type=Normal,reason!=Failed", True),
        ("source=kubelet", True),
        ("reportingComponent=x", False),
    ],
)
def test_events_can_be_selected_by_their_object(api, selector, found):
    api.create("events", EVENT)
    assert bool(api.list("events", fieldSelector=selector).names) is found


def test_event_expires_an_hour_after_its_last_write(api):
    api.create("events", EVENT)
    api.create("events", {**EVENT, "metadata": {"name": "busy"}})
    listener = api.watch("events", resourceVersion=str(api.server.revision), timeoutSeconds="9000")
    api.advance(3000)
    api.patch("events", "busy", {"count": 2})
    api.advance(600)
    assert api.list("events").names == ["busy"]
    assert listener.seen == [("MODIFIED", "busy"), ("DELETED", "e")]
    api.advance(3000)
    assert api.list("events").names == []


def test_expiry_keeps_no_times_of_deleted_and_rewritten_events(api):
    (expiry,) = [found for found in api.server._transactions.reactions if isinstance(found, Expiry)]
    for number in range(5):
        api.create("events", {**EVENT, "metadata": {"name": f"e{number}"}})
        api.patch("events", f"e{number}", {"count": 2})
    for number in range(4):
        api.delete("events", f"e{number}")
    assert [list(due) for due in expiry._due.values()] == [["default/e4"]]


def test_event_must_be_in_the_namespace_of_its_object(api):
    refused = api.create("events", EVENT, namespace="kube-system")
    assert refused.causes == {"involvedObject.namespace": 'Invalid value: "default": does not match event.namespace'}


@pytest.mark.parametrize(
    "event, expected",
    [
        (
            {"firstTimestamp": "2026-01-02T02:00:00Z", "lastTimestamp": "2026-01-02T02:59:00Z", "count": 3},
            ("60s", "60m", 3),
        ),
        ({"eventTime": "2026-01-02T02:59:00.000000Z"}, ("60s", "60s", 1)),
        (
            {
                "eventTime": "2026-01-02T02:00:00.000000Z",
                "series": {"count": 7, "lastObservedTime": "2026-01-02T02:59:55.5Z"},
            },
            ("4s", "60m", 7),
        ),
        ({}, ("<unknown>", "<unknown>", 1)),
    ],
)
def test_row_of_an_event_shows_times_and_count(event: dict[str, Any], expected: tuple[str, str, int]) -> None:
    row = cells("v1", "Event", **event)
    assert (row[0], row[7], row[8]) == expected


def test_rows_of_events_are_equal_for_both_groups() -> None:
    core = {
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
        "message": " text\n",
        "source": {"component": "kubelet", "host": "n1"},
    }
    newer = {
        "regarding": core["involvedObject"],
        "note": " text\n",
        "reportingController": "kubelet",
        "reportingInstance": "n1",
    }
    assert cells("v1", "Event", **core) == cells("events.k8s.io/v1", "Event", **newer)
    assert cells("v1", "Event", **core)[3:7] == ["pod/p", "spec", "kubelet, n1", "text"]
