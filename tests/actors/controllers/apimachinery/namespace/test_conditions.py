"""Conditions of a terminating namespace.

Source of the cases: kubernetes v1.36 pkg/controller/namespace/deletion/status_condition_utils_test.go.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kcm.actors.controllers.apimachinery.namespace.conditions import Findings, with_findings
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time

NOW, BEFORE = 1_800_000_000.0, 1_799_999_000.0
DISCOVERY = "NamespaceDeletionDiscoveryFailure"
PARSING = "NamespaceDeletionGroupVersionParsingFailure"
CONTENT = "NamespaceDeletionContentFailure"
REMAINING = "NamespaceContentRemaining"
FINALIZERS = "NamespaceFinalizersRemaining"
HELD = "Some content in the namespace has finalizers remaining"


def written(found: Findings, *, before: list[Object] | None = None) -> list[Object]:
    status = with_findings({"phase": "Terminating", "conditions": before or []}, found, now=NOW)
    assert status["phase"] == "Terminating"
    conditions: list[Object] = status["conditions"]
    return conditions


def reported(found: Findings, type: str) -> tuple[str, str, str]:
    condition = next(condition for condition in written(found) if condition["type"] == type)
    return condition["status"], condition["reason"], condition["message"]


def test_all_conditions_are_false_without_findings() -> None:
    fields = ("type", "status", "reason", "message")
    assert [tuple(condition[field] for field in fields) for condition in written(Findings())] == [
        (DISCOVERY, "False", "ResourcesDiscovered", "All resources successfully discovered"),
        (PARSING, "False", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
        (CONTENT, "False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        (REMAINING, "False", "ContentRemoved", "All content successfully removed"),
        (FINALIZERS, "False", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    ]


@pytest.mark.parametrize(
    ("found", "type", "reason", "message"),
    [
        (Findings(discovery="no such host"), DISCOVERY, "DiscoveryFailed", "no such host"),
        (
            Findings(parsing="unexpected GroupVersion string: a/b/c"),
            PARSING,
            "GroupVersionParsingFailed",
            "unexpected GroupVersion string: a/b/c",
        ),
        (
            Findings(failures=["two", "one"]),
            CONTENT,
            "ContentDeletionFailed",
            "Failed to delete all resource types, 2 remaining: one, two",
        ),
        (
            Findings(remaining=Counter({"pods.": 3, "roses.example.com": 1})),
            REMAINING,
            "SomeResourcesRemain",
            "Some resources are remaining: pods. has 3 resource instances, roses.example.com has 1 resource instances",
        ),
        (
            Findings(finalizers=Counter({"b": 1, "a": 2})),
            FINALIZERS,
            "SomeFinalizersRemain",
            f"{HELD}: a in 2 resource instances, b in 1 resource instances",
        ),
    ],
)
def test_finding_sets_reason_and_message_of_its_condition(
    found: Findings, type: str, reason: str, message: str
) -> None:
    assert reported(found, type) == ("True", reason, message)


def condition(type: str, status: str, reason: str, message: str) -> dict[str, Any]:
    since = format_time(BEFORE)
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def test_new_message_keeps_the_transition_time() -> None:
    before = condition(CONTENT, "True", "ContentDeletionFailed", "something else")
    first, *others = written(Findings(failures=["one"]), before=[before])
    assert first["message"] == "Failed to delete all resource types, 1 remaining: one"
    assert first["lastTransitionTime"] == format_time(BEFORE)
    assert {condition["lastTransitionTime"] for condition in others} == {format_time(NOW)}


def test_condition_becomes_false_without_its_finding() -> None:
    before = condition(DISCOVERY, "True", "DiscoveryFailed", "no such host")
    first = written(Findings(), before=[before])[0]
    assert (first["status"], first["reason"]) == ("False", "ResourcesDiscovered")
    assert first["lastTransitionTime"] == format_time(NOW)


def test_equal_findings_keep_the_status_and_other_conditions() -> None:
    foreign = {"type": "Foreign", "status": "Unknown"}
    found = Findings(failures=["one"], remaining=Counter({"pods.": 1}))
    before = written(found, before=[foreign])
    assert foreign in before
    assert with_findings({"conditions": before}, found, now=NOW + 9) == {"conditions": before}
