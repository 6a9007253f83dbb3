"""Discovery of the resources that a namespace may contain, with requests to the API server in each sync.

The results of the discovery actor may be seconds old, and contain earlier results for groups whose discovery fails now.
A namespace is empty only if all resources that are served now have no objects in it, so this module queries the server
again. If the discovery of a group fails, its objects are unknown, and the namespace does not count as empty.

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
    """Result of discovery: the namespaced resources that support delete, in the preferred version, and errors."""

    resources: tuple[ServedResource, ...]
    failure: str = ""  # discovery errors, as in the condition of a namespace
    unparsed: str = ""  # error for an invalid group version


@step
def discover_served() -> Step[Served]:
    """Discover the namespaced resources that the server serves now, and that support delete.

    A server with aggregated discovery receives two requests, other servers one more for each group version. If the
    discovery of a group fails, the resources of other groups are still returned.
    """
    return served_resources((yield from survey_resources()))


@step
def survey_resources() -> Step[Knowledge]:
    """Discover all resources that the server serves now."""
    survey = Survey(Knowledge())
    paths = list(ROOTS)
    while paths:
        outcomes = yield from together([Fetch(path, ACCEPT) for path in paths])
        asked, paths = paths, []
        for path, outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, Done):
                paths += survey.answered(path, status=200, body=outcome.body, error="")
            else:
                survey.answered(path, status=0, body=b"", error=_message(outcome))
    return survey.knowledge()


def served_resources(known: Knowledge) -> Served:
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
    """Return the discovery error for the namespace's condition; "" if discovery succeeded.

    An error of a discovery root (/api or /apis) takes precedence over the list of the failed group versions.
    """
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


def _message(outcome: Outcome) -> str:
    if isinstance(outcome, ServerFailure) and outcome.code == UNAVAILABLE and not outcome.status:
        return "the server is currently unable to handle the request"
    message: str = getattr(outcome, "message", "")
    return message or type(outcome).__name__
