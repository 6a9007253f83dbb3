"""Mutants of examples/backup_operator.py and dns_operator.py: typical bugs of operators with a service outside."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from unittest import mock

from msgspec.structs import replace

from kcm import Object
from kcm.objects import name_of, uid_of
from kcm.steps import Step, patch_status
from kcm.tables import Lister
from tests.faults.mutants import finalizers
from tests.faults.mutants.mutant import Mutant
from tests.support.examples import backup_operator, dns_operator, test_backup, test_dns

SETTING = test_backup.SETTING


def numbered_by_name() -> AbstractContextManager[Any]:
    """The copy's number is the name of the Backup, which a successor has as well."""
    return mock.patch.object(backup_operator, "uid_of", name_of)


def done_when_started() -> AbstractContextManager[Any]:
    """The phase is Done as soon as the service has accepted the request."""

    def hasty(lister: Lister, backup: Object, status: dict[str, Any]) -> Step[Object | None]:
        return (yield from patch_status(lister, backup, {**status, "phase": "Done"}))

    return mock.patch.object(backup_operator, "patch_status", hasty)


@contextmanager
def new_number_for_each_call() -> Iterator[None]:
    """Each request to the service has a number of its own."""
    numbers: Callable[[], int] = itertools.count(1).__next__

    with mock.patch.object(backup_operator, "uid_of", lambda backup: f"{uid_of(backup)}-{numbers()}"):
        yield


BACKUPS = tuple(
    Mutant(name=name, source=source, mutation=mutation, setting=replace(SETTING))
    for name, source, mutation in (
        ("numbered by name", "a Backup that was created again is taken for its predecessor", numbered_by_name),
        (
            "finalizer missing",
            "a Backup is deleted while its copy remains",
            partial(finalizers.missing, backup_operator),
        ),
        (
            "finalizer too early",
            "the deletion outside was requested, and not awaited",
            partial(finalizers.too_early, backup_operator),
        ),
        (
            "no requeue",
            "the service finishes, and no event reports it",
            partial(finalizers.no_requeue, backup_operator),
        ),
        ("done when started", "an accepted request is taken for a complete one", done_when_started),
        ("new number for each call", "a repeated request starts another copy", new_number_for_each_call),
    )
)

RECORDS = tuple(
    Mutant(name=name, source=source, mutation=mutation, setting=replace(test_dns.SETTING))
    for name, source, mutation in (
        (
            "finalizer missing",
            "a DnsRecord is deleted while its record remains",
            partial(finalizers.missing, dns_operator),
        ),
        (
            "finalizer too early",
            "the deletion outside was requested, and not awaited",
            partial(finalizers.too_early, dns_operator),
        ),
        (
            "no requeue",
            "name servers take over a record, and no event reports it",
            partial(finalizers.no_requeue, dns_operator),
        ),
        (
            "edit not repaired",
            "a record is edited at the provider, and no event reports it",
            lambda: mock.patch.object(dns_operator, "LATER", None),
        ),
    )
)
