"""Rights that the API server denies to a controller, found by access reviews after refused commands.

A refusal (403) alone does not show a missing right: admission refuses objects as well, for example because of a quota.
After some refusals in a row the controller therefore asks the server, by a SelfSubjectAccessReview as
`kubectl auth can-i` does. Reviews need no right of the controller's role: system:basic-user allows them to all
authenticated users.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import orjson
from msgspec import Struct

from kcm.actors.engine.vitals import DeniedRight
from kcm.protocols.messages.commands import (
    Command,
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
)
from kcm.protocols.messages.outcomes import Done, Forbidden, Outcome, Refused, ServerFailure, Throttled, Unknown
from kcm.protocols.objects import decode_object, split_key
from kcm.protocols.resources import name_of_resource, split_cluster

REVIEWS = "authorization.k8s.io/v1/selfsubjectaccessreviews"
REFUSALS = 3  # in a row, after which a right is reviewed
REVIEW_INTERVAL = 60.0  # seconds between two reviews of one right
MOST_KNOWN = 200  # refused rights that are remembered
UNAUTHORIZED = 401
_VERBS: dict[type[Command], str] = {
    Create: "create",
    Update: "update",
    Patch: "patch",
    Delete: "delete",
    DeleteCollection: "deletecollection",
    Get: "get",
    List: "list",
}
# Outcomes that do not show whether the server authorized the request.
_UNDECIDED = (Unknown, Refused, ServerFailure, Throttled)


class RequiredRight(NamedTuple):
    """Permission that a command requires. resource: Resource.id. namespace: "" for cluster-scoped objects."""

    verb: str
    resource: str
    subresource: str
    namespace: str


class Refusal(Struct):
    """Refusals of one right in a row.

    since: monotonic time of the first.
    message: the server's text of the last.
    review_due: monotonic time before which the right is not reviewed again.
    is_denied: the last review found that the right is missing.
    """

    since: float
    times: int = 0
    message: str = ""
    review_due: float = 0.0
    is_denied: bool = False


class Rights:
    """Refused rights of one incarnation of a controller.

    refused: by right; usually empty.
    """

    def __init__(self) -> None:
        self.refused: dict[RequiredRight, Refusal] = {}
        self._reviews: dict[int, RequiredRight] = {}  # by ticket

    def note(self, command: Command, outcome: Outcome, now: float) -> RequiredRight | None:
        """Record the outcome of a command. Return the right if it must be reviewed now."""
        right = right_of(command)
        if right is None or isinstance(outcome, _UNDECIDED):
            return None
        if not isinstance(outcome, Forbidden):
            self.refused.pop(right, None)
            return None
        if b"NamespaceTerminating" in outcome.status:  # nothing can be created in such a namespace
            return None
        refusal = self.refused.get(right)
        if refusal is None:
            if len(self.refused) >= MOST_KNOWN:
                return None
            refusal = self.refused[right] = Refusal(now)
        refusal.times, refusal.message = refusal.times + 1, outcome.message
        if outcome.code == UNAUTHORIZED:  # the credentials are invalid, also for a review
            refusal.is_denied = refusal.times >= REFUSALS
            return None
        return right if refusal.times >= REFUSALS and now >= refusal.review_due else None

    def denied_to_review(self, now: float) -> list[RequiredRight]:
        """Return the denied rights whose next review is due: they may have been granted meanwhile."""
        return [right for right, refusal in self.refused.items() if refusal.is_denied and now >= refusal.review_due]

    def begin_review(self, right: RequiredRight, ticket: int, now: float) -> Create:
        """Return the command that reviews a right. ticket: under which it is submitted."""
        self._reviews[ticket] = right
        self.refused[right].review_due = now + REVIEW_INTERVAL
        return review_of(right)

    def take_review(self, ticket: int, outcome: Outcome) -> RequiredRight | None:
        """Take the outcome of a review, if the ticket is of one. Return the right if it is newly known to be denied."""
        right = self._reviews.pop(ticket, None)
        refusal = self.refused.get(right) if right is not None else None
        if refusal is None or not isinstance(outcome, Done):
            return None
        try:
            is_allowed = decode_object(outcome.body)["status"]["allowed"] is True
        except (ValueError, KeyError, TypeError):  # such as a response of a proxy
            return None
        was_denied, refusal.is_denied = refusal.is_denied, not is_allowed
        return right if refusal.is_denied and not was_denied else None

    def denied(self) -> Iterator[DeniedRight]:
        for right, refusal in self.refused.items():
            if refusal.is_denied:
                yield denied_right(right, refusal)


def right_of(command: Command) -> RequiredRight | None:
    """Return the right that a command requires; None if it is not sent to a resource as the controller itself."""
    verb = _VERBS.get(type(command))
    if verb is None or bool(getattr(command, "user", "")) or getattr(command, "as_informer", False):
        return None
    namespace = command.namespace if isinstance(command, (Create, List, DeleteCollection)) else _namespace_of(command)
    subresource: str = getattr(command, "subresource", "")
    return RequiredRight(verb, command.resource, subresource, namespace)


def _namespace_of(command: Command) -> str:
    key: str = getattr(command, "key", "")
    return split_key(key)[0]


def review_of(right: RequiredRight) -> Create:
    cluster, plain_id = split_cluster(right.resource)
    *group, version, plural = plain_id.split("/")
    attributes = {
        "verb": right.verb,
        "group": "".join(group),
        "version": version,
        "resource": plural,
        "subresource": right.subresource,
        "namespace": right.namespace,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
    }
    return Create(f"{cluster}:{REVIEWS}" if cluster else REVIEWS, "", orjson.dumps(body))


def denied_right(right: RequiredRight, refusal: Refusal) -> DeniedRight:
    resource = name_of_resource(right.resource)
    return DeniedRight(
        verb=right.verb,
        resource=f"{resource}/{right.subresource}" if right.subresource else resource,
        namespace=right.namespace,
        times=refusal.times,
        since=refusal.since,
        message=refusal.message,
    )
