"""Deletion of all objects of some resources in a namespace, and the objects that remain.

A resource without objects is only listed. Otherwise its collection is deleted, or each of its objects if the server
does not support deletecollection; then the remaining objects are listed. Many resources are processed concurrently, and
the failure of one does not stop the others.

A long collection is deleted page by page, with all pages at once, because a server deletes the objects of one request
sequentially (--delete-collection-workers=1). This is as safe as a single request, which reads pages and deletes by name
as well, and halves the load of server and etcd: docs/decisions/2026-11-23-long-collections-page-by-page.md.

Source: kubernetes v1.36 pkg/controller/namespace/deletion/namespaced_resources_deleter.go,
deleteAllContentForGroupVersionResource, which deletes all collections sequentially, even if they are empty.
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
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, DeleteCollection
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import Conflict, Done, Failure, Gone, Invalid, NotFound, Outcome, Unknown
from kcm.protocols.objects import Object, decode_object, make_key, metadata, name_of, uid_of
from kcm.protocols.resources import Resource

AT_ONCE = 32  # concurrent requests for one namespace
PAGE = 50  # objects
METHOD_NOT_ALLOWED = 405
BACKGROUND = "Background"

Pages = tuple[str, ...]  # the continue token of each page of a list
WHOLE: Pages = ("",)


@dataclass(slots=True)
class Content:
    """Objects that remain after a deletion, and the failures."""

    numbers: dict[Resource, int] = field(default_factory=dict)  # number of remaining objects
    finalizers: dict[Resource, Counter[str]] = field(default_factory=dict)  # of the remaining objects
    failures: list[CommandError] = field(default_factory=list)  # the first failure of each resource
    has_unknown: bool = False  # the outcome of a deletion is unknown, and the server may carry it out later


@step
def find_any(namespace: str, served: Sequence[ServedResource]) -> Step[dict[ServedResource, Pages]]:
    """Return the resources that have objects in the namespace, or may have them, as they could not be listed."""
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
        # A failed list ends the search: the last known page is deleted without a limit.
        pages = zip(further, outcomes, strict=True)
        further = {
            kind: follows for kind, outcome in pages if isinstance(outcome, Done) and (follows := what_follows(outcome))
        }
    return there


def what_follows(outcome: Done) -> str:
    """Return the continue token of a list; "" on its last page."""
    given = metadata(decode_object(outcome.body)).get("continue")
    return given if isinstance(given, str) else ""


@step
def delete_content(namespace: str, there: Mapping[ServedResource, Pages]) -> Step[Content]:
    """Delete all objects of these resources with background propagation."""
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
        elif not isinstance(outcome, Done | Gone):  # Gone: the continue token has expired; the next sync lists again
            content.has_unknown = content.has_unknown or isinstance(outcome, Unknown)
            keep(kind, command, outcome)
    if single:
        yield from _delete_each(namespace, [kind for kind in served if kind in single], keep)
    yield from _count(namespace, [kind for kind in served if kind not in failed], content, keep)
    return content


def _in_pages(resource: Resource, namespace: str, pages: Pages) -> list[DeleteCollection]:
    # The last page has no limit: objects that were created since the list are behind it.
    *limited, last = [delete_all(resource, namespace, propagation=BACKGROUND, continue_from=page) for page in pages]
    return [*(msgspec.structs.replace(command, limit=PAGE) for command in limited), last]


@step
def _delete_each(namespace: str, served: Iterable[ServedResource], keep: Any) -> Step[None]:
    """Delete the objects of resources that do not support deletecollection."""
    listed = [kind for kind in served if "list" in kind.verbs]
    lists = [list_live(kind.resource, namespace, metadata_only=True) for kind in listed]
    outcomes = yield from in_batches(lists, AT_ONCE)
    found: list[tuple[ServedResource, Object]] = []
    for kind, command, outcome in zip(listed, lists, outcomes, strict=True):
        if isinstance(outcome, Done):
            found += [(kind, obj) for obj in items_of(outcome) if name_of(obj)]
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
        for kind, obj in found
    ]
    outcomes = yield from in_batches(deletions, AT_ONCE)
    for (kind, _), deletion, outcome in zip(found, deletions, outcomes, strict=True):
        # Conflict: an object with another uid has the name now.
        if not isinstance(outcome, Done | Conflict) and not is_unsupported(outcome):
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
    """Report whether the server does not support the verb for a collection, or does not serve it any more."""
    return isinstance(outcome, NotFound) or (isinstance(outcome, Invalid) and outcome.code == METHOD_NOT_ALLOWED)


def _finalizers(obj: Object) -> list[str]:
    """Return the finalizers of an object. Invalid values are left out."""
    given = obj["metadata"].get("finalizers")
    return [finalizer for finalizer in given if isinstance(finalizer, str)] if isinstance(given, list) else []


def items_of(outcome: Done) -> list[Object]:
    """Return the items of a list. An item without metadata counts as an object without a name."""
    items = decode_object(outcome.body).get("items") or ()
    return [{**item, "metadata": metadata(item)} for item in items if isinstance(item, dict)]


def grace_left(pods: Collection[Object], *, since_deletion: float) -> int:
    """Return the longest grace period of the pods in seconds; 0 if it is over.

    since_deletion: seconds since the deletion of the namespace. Source: estimateGracefulTermination.
    """
    grace = 0
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            given = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
            grace = max(grace, given if isinstance(given, int) else 0)
    return 0 if since_deletion >= grace else grace
