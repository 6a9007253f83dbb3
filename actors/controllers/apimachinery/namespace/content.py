"""How all objects of some resources in a namespace are deleted, and what is left of them.

A resource that has none is asked for once, and nothing is deleted. Else its collection is deleted, or each object where
the server does not do that; then what is left is listed. Many resources are dealt with at once, and one that fails
keeps no other back.

A long collection is deleted page by page, all pages at once: a server deletes the objects of one request one after the
other (--delete-collection-workers=1). It is as safe as a single request, which reads pages too and deletes by name, and
costs server and etcd half of it: docs/decisions/2026-11-23-long-collections-page-by-page.md.

Source: kubernetes v1.36 pkg/controller/namespace/deletion/namespaced_resources_deleter.go,
deleteAllContentForGroupVersionResource. It deletes every collection, empty or not, and one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import msgspec

from kcm.actors.reconciliation import Step, delete, in_batches, list_live, step
from kcm.actors.reconciliation.commands import delete_all
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.commands import Command, DeleteCollection
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import (
    CommandError,
    Conflict,
    Done,
    Failure,
    Gone,
    Invalid,
    NotFound,
    Outcome,
    Unknown,
)
from kcm.protocols.objects import Object, decode_object, make_key, metadata, name_of, uid_of
from kcm.protocols.resources import Resource

AT_ONCE = 32  # requests under way for one namespace
PAGE = 50  # objects
METHOD_NOT_ALLOWED = 405
BACKGROUND = "Background"

Pages = tuple[str, ...]  # where the pages of a list begin, as List.continue_from has it
WHOLE: Pages = ("",)


@dataclass(slots=True)
class Content:
    """What is left. numbers: of objects that are left, by resource. finalizers: how many of these have each, likewise.

    failures: the first of each resource that could not be emptied. doubtful: whether collections may yet be deleted.
    """

    numbers: dict[Resource, int] = field(default_factory=dict)
    finalizers: dict[Resource, Counter[str]] = field(default_factory=dict)
    failures: list[CommandError] = field(default_factory=list)
    doubtful: bool = False


@step
def find_any(namespace: str, served: Sequence[ServedResource]) -> Step[dict[ServedResource, Pages]]:
    """Those that have objects there, or may have: the server does not list them, or failed to."""
    listed = [kind for kind in served if "list" in kind.verbs]
    commands = [list_live(kind.resource, namespace, metadata_only=True, limit=PAGE) for kind in listed]
    outcomes = yield from in_batches(commands, AT_ONCE)
    there: dict[ServedResource, Pages] = dict.fromkeys(served, WHOLE)
    further: dict[ServedResource, str] = {}
    for kind, outcome in zip(listed, outcomes, strict=True):
        if is_unsupported(outcome) or (isinstance(outcome, Done) and not items_of(outcome)):
            del there[kind]
        elif isinstance(outcome, Done) and (follows := what_follows(outcome)):
            further[kind] = follows
    while further:
        for kind, follows in further.items():
            there[kind] = (*there[kind], follows)
        commands = [
            list_live(kind.resource, namespace, metadata_only=True, limit=PAGE, continue_from=follows)
            for kind, follows in further.items()
        ]
        outcomes = yield from in_batches(commands, AT_ONCE)
        # A failure ends it, as the end does: the last page that is known goes on to the end.
        pages = zip(further, outcomes, strict=True)
        further = {
            kind: follows for kind, outcome in pages if isinstance(outcome, Done) and (follows := what_follows(outcome))
        }
    return there


def what_follows(outcome: Done) -> str:
    """Where the next page of a list begins; "": there is none."""
    given = metadata(decode_object(outcome.body)).get("continue")
    return given if isinstance(given, str) else ""


@step
def delete_content(namespace: str, there: Mapping[ServedResource, Pages]) -> Step[Content]:
    """Deletes all objects of these, in the background."""
    content = Content()
    failed: set[ServedResource] = set()

    def keep(kind: ServedResource, command: Command, outcome: Failure) -> None:
        if kind not in failed:
            failed.add(kind)
            content.failures.append(CommandError(command, outcome))

    served = list(there)
    whole = [kind for kind in served if "deletecollection" in kind.verbs]
    parts = [(kind, command) for kind in whole for command in _in_pages(kind.resource, namespace, there[kind])]
    outcomes = yield from in_batches([command for _, command in parts], AT_ONCE)
    single = {kind for kind in served if kind not in whole}
    for (kind, command), outcome in zip(parts, outcomes, strict=True):
        if is_unsupported(outcome):
            single.add(kind)
        elif not isinstance(outcome, Done | Gone):  # Gone: that page is no more to be had, and is left to the next look
            content.doubtful = content.doubtful or isinstance(outcome, Unknown)
            keep(kind, command, outcome)
    if single:
        yield from _delete_each(namespace, [kind for kind in served if kind in single], keep)
    yield from _count(namespace, [kind for kind in served if kind not in failed], content, keep)
    return content


def _in_pages(resource: Resource, namespace: str, pages: Pages) -> list[DeleteCollection]:
    """The last page goes on to the end."""
    *limited, last = [delete_all(resource, namespace, propagation=BACKGROUND, continue_from=page) for page in pages]
    return [*(msgspec.structs.replace(command, limit=PAGE) for command in limited), last]


@step
def _delete_each(namespace: str, served: Iterable[ServedResource], keep: Any) -> Step[None]:
    """One object after the other, of resources whose collections cannot be deleted."""
    listed = [kind for kind in served if "list" in kind.verbs]
    lists = [list_live(kind.resource, namespace, metadata_only=True) for kind in listed]
    outcomes = yield from in_batches(lists, AT_ONCE)
    doomed: list[tuple[ServedResource, Object]] = []
    for kind, command, outcome in zip(listed, lists, outcomes, strict=True):
        if isinstance(outcome, Done):
            doomed += [(kind, obj) for obj in items_of(outcome) if name_of(obj)]
        elif not is_unsupported(outcome):
            keep(kind, command, outcome)
    deletions = [
        delete(
            kind.resource,
            make_key(namespace, name_of(obj)),
            uid=uid_of(obj) or None,
            propagation=BACKGROUND,
            depends_on=(),
        )
        for kind, obj in doomed
    ]
    outcomes = yield from in_batches(deletions, AT_ONCE)
    for (kind, _), deletion, outcome in zip(doomed, deletions, outcomes, strict=True):
        if not isinstance(outcome, Done | Conflict) and not is_unsupported(outcome):  # Conflict: it is another one now
            keep(kind, deletion, outcome)


@step
def _count(namespace: str, served: Iterable[ServedResource], content: Content, keep: Any) -> Step[None]:
    listed = [kind for kind in served if "list" in kind.verbs]
    lists = [list_live(kind.resource, namespace, metadata_only=True) for kind in listed]
    outcomes = yield from in_batches(lists, AT_ONCE)
    for kind, command, outcome in zip(listed, lists, outcomes, strict=True):
        if isinstance(outcome, Done):
            left = items_of(outcome)
            if left:
                content.numbers[kind.resource] = len(left)
                content.finalizers[kind.resource] = Counter(each for obj in left for each in _finalizers(obj))
        elif not is_unsupported(outcome):
            keep(kind, command, outcome)


def is_unsupported(outcome: Outcome) -> bool:
    """Of a collection: the server does not do that with it, or does not serve it any more."""
    return isinstance(outcome, NotFound) or (isinstance(outcome, Invalid) and outcome.code == METHOD_NOT_ALLOWED)


def _finalizers(obj: Object) -> list[str]:
    """What are none in a malformed object is left out."""
    given = obj["metadata"].get("finalizers")
    return [finalizer for finalizer in given if isinstance(finalizer, str)] if isinstance(given, list) else []


def items_of(outcome: Done) -> list[Object]:
    """Of a list. What has no metadata counts as an object without a name."""
    items = decode_object(outcome.body).get("items") or ()
    return [{**item, "metadata": metadata(item)} for item in items if isinstance(item, dict)]


def grace_left(pods: Collection[Object], *, since_deletion: float) -> int:
    """Seconds that the pods may take to terminate, by the longest of their grace periods; 0 once that is over.

    since_deletion: of the namespace, in seconds. Source: estimateGracefulTermination.
    """
    grace = 0
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            given = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
            grace = max(grace, given if isinstance(given, int) else 0)
    return 0 if since_deletion >= grace else grace
