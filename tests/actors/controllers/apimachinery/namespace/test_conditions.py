"""The five conditions of a namespace that is being deleted.

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


def told(found: Findings, type: str) -> tuple[str, str, str]:
    one = next(one for one in written(found) if one["type"] == type)
    return one["status"], one["reason"], one["message"]


def test_where_nothing_is_wrong_all_five_are_false_in_upstreams_order() -> None:
    assert [(one["type"], one["status"], one["reason"], one["message"]) for one in written(Findings())] == [
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
    assert told(found, type) == ("True", reason, message)


def condition(type: str, status: str, reason: str, message: str) -> dict[str, Any]:
    since = format_time(BEFORE)
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def test_a_new_message_does_not_change_since_when_it_is_so() -> None:
    before = condition(CONTENT, "True", "ContentDeletionFailed", "something else")
    first, *others = written(Findings(failures=["one"]), before=[before])
    assert first["message"] == "Failed to delete all resource types, 1 remaining: one"
    assert first["lastTransitionTime"] == format_time(BEFORE)
    assert {one["lastTransitionTime"] for one in others} == {format_time(NOW)}


def test_a_condition_is_good_again_once_its_cause_is_gone() -> None:
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
