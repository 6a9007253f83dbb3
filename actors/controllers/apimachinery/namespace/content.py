"""Deletion of all objects of given resources in a namespace, and a count of the objects that remain.

1. find_content lists each resource in pages of 50 objects. Resources without objects need no further request.
2. delete_content deletes the collection of each resource, or its objects one by one if the server does not support
   deletecollection, and lists the objects that remain, for example because they have finalizers.

Requests for several resources are sent concurrently, and the failure of one resource does not stop the others.

A collection of several pages is deleted with one request for each page, all sent at once, because an API server deletes
the objects of one request sequentially (--delete-collection-workers=1). This is as safe as a single request, for which
the server also reads pages and deletes by name, and it halves the load of server and etcd:
docs/decisions/2026-11-23-long-collections-page-by-page.md.

Source: kubernetes v1.36 pkg/controller/namespace/deletion/namespaced_resources_deleter.go,
deleteAllContentForGroupVersionResource, which deletes all collections sequentially, even if they are empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from kcm.actors.reconciliation import Step, delete, in_batches, list_live, step
from kcm.actors.reconciliation.commands import delete_all
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, DeleteCollection
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import Conflict, Done, Failure, Gone, Invalid, NotFound, Outcome, Unknown
from kcm.protocols.objects import Object, decode_object, make_key, metadata, name_of, uid_of
from kcm.protocols.resources import Resource

CONCURRENCY = 32  # concurrent requests for one namespace
PAGE = 50  # objects in a page of a list
METHOD_NOT_ALLOWED = 405
BACKGROUND = "Background"

RecordFailure = Callable[[ServedResource, Command, Failure], None]
Pages = tuple[str, ...]  # the continue token of each page of a list; "" for the first page
WHOLE: Pages = ("",)  # a single page: one request deletes the whole collection


class Content(Struct):
    """Result of the deletion of a namespace's objects: the objects that remain, by resource, and the failures."""

    numbers: dict[Resource, int] = field(default_factory=dict)  # number of remaining objects
    finalizers: dict[Resource, Counter[str]] = field(default_factory=dict)  # number of remaining objects by finalizer
    failures: list[CommandError] = field(default_factory=list)  # the first failure of each resource
    has_unknown: bool = False  # the outcome of a deletion is unknown: the server may carry it out later


@step
def find_content(namespace: str, served: Sequence[ServedResource]) -> Step[dict[ServedResource, Pages]]:
    """List each resource in the namespace. Return the resources that have objects, with the pages of their lists.

    Resources that could not be listed are included with a single page, because they may have objects.
    """
    listed = [kind for kind in served if "list" in kind.verbs]
    commands = [list_live(kind.resource, namespace, metadata_only=True, limit=PAGE) for kind in listed]
    outcomes = yield from in_batches(commands, CONCURRENCY)
    found: dict[ServedResource, Pages] = dict.fromkeys(served, WHOLE)
    next_pages: dict[ServedResource, str] = {}
    for kind, outcome in zip(listed, outcomes, strict=True):
        if is_unsupported(outcome) or (isinstance(outcome, Done) and not items_of(outcome)):
            del found[kind]
        elif isinstance(outcome, Done) and (token := continue_token(outcome)):
            next_pages[kind] = token
    while next_pages:
        for kind, token in next_pages.items():
            found[kind] = (*found[kind], token)
        commands = [
            list_live(kind.resource, namespace, metadata_only=True, limit=PAGE, continue_from=token)
            for kind, token in next_pages.items()
        ]
        outcomes = yield from in_batches(commands, CONCURRENCY)
        # If a page cannot be listed, the pages after it are unknown. The last known page is deleted without a limit.
        pages = zip(next_pages, outcomes, strict=True)
        next_pages = {
            kind: token for kind, outcome in pages if isinstance(outcome, Done) and (token := continue_token(outcome))
        }
    return found


def continue_token(outcome: Done) -> str:
    """Return the continue token in the response to a list request; "" on the last page."""
    token = metadata(decode_object(outcome.body)).get("continue")
    return token if isinstance(token, str) else ""


@step
def delete_content(namespace: str, pages: Mapping[ServedResource, Pages]) -> Step[Content]:
    """Delete all objects of some resources in a namespace, and count the objects that remain.

    pages: the resources, with the pages of their lists from find_content. Each page is deleted with one request, with
        background propagation.
    """
    content = Content()
    failed: set[ServedResource] = set()

    def record(kind: ServedResource, command: Command, outcome: Failure) -> None:
        if kind not in failed:
            failed.add(kind)
            content.failures.append(CommandError(command, outcome))

    served = list(pages)
    collections = [kind for kind in served if "deletecollection" in kind.verbs]
    deletions = [
        (kind, command) for kind in collections for command in _delete_pages(kind.resource, namespace, pages[kind])
    ]
    outcomes = yield from in_batches([command for _, command in deletions], CONCURRENCY)
    single = {kind for kind in served if kind not in collections}
    for (kind, command), outcome in zip(deletions, outcomes, strict=True):
        if is_unsupported(outcome):
            single.add(kind)
        elif not isinstance(outcome, Done | Gone):  # Gone: the continue token has expired; the next sync lists again
            content.has_unknown = content.has_unknown or isinstance(outcome, Unknown)
            record(kind, command, outcome)
    if single:
        yield from _delete_each(namespace, [kind for kind in served if kind in single], record)
    yield from _count(namespace, [kind for kind in served if kind not in failed], content, record)
    return content


def _delete_pages(resource: Resource, namespace: str, pages: Pages) -> list[DeleteCollection]:
    # The last page has no limit, to include objects that were created after the list.
    *limited, last = [delete_all(resource, namespace, propagation=BACKGROUND, continue_from=page) for page in pages]
    return [*(msgspec.structs.replace(command, limit=PAGE) for command in limited), last]


@step
def _delete_each(namespace: str, served: Iterable[ServedResource], record: RecordFailure) -> Step[None]:
    """Delete the objects of these resources one by one, because the resources do not support deletecollection."""
    listed = [kind for kind in served if "list" in kind.verbs]
    lists = [list_live(kind.resource, namespace, metadata_only=True) for kind in listed]
    outcomes = yield from in_batches(lists, CONCURRENCY)
    found: list[tuple[ServedResource, Object]] = []
    for kind, command, outcome in zip(listed, lists, outcomes, strict=True):
        if isinstance(outcome, Done):
            found += [(kind, obj) for obj in items_of(outcome) if name_of(obj)]
        elif not is_unsupported(outcome):
            record(kind, command, outcome)
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
    outcomes = yield from in_batches(deletions, CONCURRENCY)
    for (kind, _), deletion, outcome in zip(found, deletions, outcomes, strict=True):
        # Conflict: an object with another uid has the name now.
        if not isinstance(outcome, Done | Conflict) and not is_unsupported(outcome):
            record(kind, deletion, outcome)


@step
def _count(namespace: str, served: Iterable[ServedResource], content: Content, record: RecordFailure) -> Step[None]:
    """List the remaining objects of each resource, and add their number and their finalizers to `content`."""
    listed = [kind for kind in served if "list" in kind.verbs]
    lists = [list_live(kind.resource, namespace, metadata_only=True) for kind in listed]
    outcomes = yield from in_batches(lists, CONCURRENCY)
    for kind, command, outcome in zip(listed, lists, outcomes, strict=True):
        if isinstance(outcome, Done):
            remaining = items_of(outcome)
            if remaining:
                content.numbers[kind.resource] = len(remaining)
                finalizers = Counter(finalizer for obj in remaining for finalizer in _finalizers(obj))
                content.finalizers[kind.resource] = finalizers
        elif not is_unsupported(outcome):
            record(kind, command, outcome)


def is_unsupported(outcome: Outcome) -> bool:
    """Report whether the request failed because the resource does not support the verb, or is not served any more."""
    return isinstance(outcome, NotFound) or (isinstance(outcome, Invalid) and outcome.code == METHOD_NOT_ALLOWED)


def _finalizers(obj: Object) -> list[str]:
    """Return the finalizers of an object. Invalid values are left out."""
    given = obj["metadata"].get("finalizers")
    return [finalizer for finalizer in given if isinstance(finalizer, str)] if isinstance(given, list) else []


def items_of(outcome: Done) -> list[Object]:
    """Return the objects in the response to a list request. Missing metadata is replaced by an empty map."""
    items = decode_object(outcome.body).get("items") or ()
    return [{**item, "metadata": metadata(item)} for item in items if isinstance(item, dict)]


def remaining_grace(pods: Collection[Object], *, since_deletion: float) -> int:
    """Return the longest grace period of the unfinished pods in seconds; 0 if it is over.

    since_deletion: seconds since the deletion of the namespace was requested, when the grace periods began.
    Source: upstream's estimateGracefulTermination.
    """
    grace = 0
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            given = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
            grace = max(grace, given if isinstance(given, int) else 0)
    return 0 if since_deletion >= grace else grace
