"""The conditions of a namespace that report on its deletion.

Source: kubernetes v1.36 pkg/controller/namespace/deletion/status_condition_utils.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field

from kcm.protocols.conditions import set_condition
from kcm.protocols.objects import Object


class Findings(Struct):
    """Errors and remaining objects that one sync of a terminating namespace has found, for its conditions."""

    discovery: str = ""  # error of discovery; "" if it succeeded
    parsing: str = ""  # error for an invalid group version; "" if all are valid
    failures: list[str] = field(default_factory=list)  # texts of failed deletions
    remaining: Counter[str] = field(default_factory=Counter)  # number of remaining objects by "plural.group"
    finalizers: Counter[str] = field(default_factory=Counter)  # number of remaining objects by finalizer


class _ConditionTexts(NamedTuple):
    type: str
    good: tuple[str, str]  # reason and message if the status is False
    bad: str  # reason if the status is True


_DISCOVERY = _ConditionTexts(
    "NamespaceDeletionDiscoveryFailure",
    ("ResourcesDiscovered", "All resources successfully discovered"),
    "DiscoveryFailed",
)
_PARSING = _ConditionTexts(
    "NamespaceDeletionGroupVersionParsingFailure",
    ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    "GroupVersionParsingFailed",
)
_CONTENT = _ConditionTexts(
    "NamespaceDeletionContentFailure",
    ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    "ContentDeletionFailed",
)
_REMAINING = _ConditionTexts(
    "NamespaceContentRemaining",
    ("ContentRemoved", "All content successfully removed"),
    "SomeResourcesRemain",
)
_FINALIZERS = _ConditionTexts(
    "NamespaceFinalizersRemaining",
    ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    "SomeFinalizersRemain",
)


def with_findings(status: Mapping[str, Any], found: Findings, *, now: float) -> Object:
    """Return a copy of a namespace's status with all five deletion conditions set from `found`.

    now: Unix seconds, for lastTransitionTime. The result is equal to `status` if no condition changes.
    """
    conditions = status.get("conditions") or []
    for form, message in _messages(found):
        reason, text = (form.bad, message) if message else form.good
        conditions = set_condition(conditions, form.type, bool(message), reason, text, now=now)
    return {**status, "conditions": conditions}


def _messages(found: Findings) -> Iterator[tuple[_ConditionTexts, str]]:
    """Yield each condition with its message, in upstream's order. An empty message means that its status is False."""
    yield _DISCOVERY, found.discovery
    yield _PARSING, found.parsing
    failures = found.failures
    yield (
        _CONTENT,
        f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(sorted(failures))}"
        if failures
        else "",
    )
    remaining = sorted(f"{which} has {number} resource instances" for which, number in found.remaining.items())
    yield _REMAINING, f"Some resources are remaining: {', '.join(remaining)}" if remaining else ""
    finalizers = sorted(f"{which} in {number} resource instances" for which, number in found.finalizers.items())
    yield (
        _FINALIZERS,
        f"Some content in the namespace has finalizers remaining: {', '.join(finalizers)}" if finalizers else "",
    )
