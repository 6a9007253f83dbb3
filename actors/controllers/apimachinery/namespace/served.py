"""Which resources a namespace may have objects of, as the server says now.

The discovery actor's knowledge is seconds old, and keeps what was known of a group that cannot be discovered. Whether a
namespace is empty is decided by what is served now, and nothing that cannot be discovered counts as empty.

Source: kubernetes v1.36 client-go discovery/{discovery_client,helper}.go, ServerPreferredNamespacedResources.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.reconciliation import Step, step, together
from kcm.protocols.discovery.documents import ACCEPT, STALE, GroupVersion
from kcm.protocols.discovery.survey import ROOTS, Knowledge, Survey
from kcm.protocols.messages.commands import Fetch
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import Done, Outcome, ServerFailure

UNAVAILABLE = 503


class Served(NamedTuple):
    """resources: namespaced ones that can be deleted, each in the version that the server prefers.

    failure: what could not be discovered, and why, as in the condition of a namespace. unparsed: group versions whose
    names make no sense. Both are "" where all is well.
    """

    resources: tuple[ServedResource, ...]
    failure: str = ""
    unparsed: str = ""


@step
def served_now() -> Step[Served]:
    """Asks the server: twice, where it has aggregated discovery. What cannot be discovered keeps nothing else back."""
    survey = Survey(Knowledge())
    paths = list(ROOTS)
    while paths:
        outcomes = yield from together([Fetch(path, ACCEPT) for path in paths])
        asked, paths = paths, []
        for path, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, Done):
                paths += survey.answered(path, status=200, body=outcome.body, error="")
            else:
                survey.answered(path, status=0, body=b"", error=_said(outcome))
    return what_is_served(survey.knowledge())


def what_is_served(known: Knowledge) -> Served:
    sound = [group_version for group_version in known.group_versions if not _is_unparsable(group_version)]
    found: dict[tuple[str, str], ServedResource] = {}
    for group_version in sound:
        for resource in known.described.get(group_version, ()):
            found.setdefault((resource.group, resource.plural), resource)
    unparsed = (
        f"unexpected GroupVersion string: {group_version}"
        for group_version in known.group_versions
        if _is_unparsable(group_version)
    )
    return Served(
        tuple(resource for resource in found.values() if resource.namespaced and "delete" in resource.verbs),
        failure=_failure(known),
        unparsed=next(unparsed, ""),
    )


def _is_unparsable(group_version: GroupVersion) -> bool:
    return str(group_version).count("/") > 1


def _failure(known: Knowledge) -> str:
    """As the condition says it: what became of the first root, else how many group versions could not be discovered."""
    for root in ROOTS:
        if root in known.stalled:
            return known.stalled[root]
    if not known.stalled:
        return ""
    groups = ", ".join(
        f"{group_version}: {f'stale GroupVersion discovery: {group_version}' if why == STALE else why}"
        for group_version, why in sorted(known.stalled.items())
    )
    return (
        f"Discovery failed for some groups, {len(known.stalled)} failing: "
        f"unable to retrieve the complete list of server APIs: {groups}"
    )


def _said(outcome: Outcome) -> str:
    if isinstance(outcome, ServerFailure) and outcome.code == UNAVAILABLE and not outcome.status:
        return "the server is currently unable to handle the request"
    message: str = getattr(outcome, "message", "")
    return message or type(outcome).__name__
