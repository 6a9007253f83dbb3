"""Mutants of examples/backup_operator.py and dns_operator.py: typical bugs of operators with a service outside."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock

from msgspec.structs import replace

from kcm import Object, Reconciliation
from kcm.objects import name_of, uid_of
from kcm.steps import Step, call, patch_status, remove_finalizer
from kcm.tables import Lister
from tests.faults.mutants.mutant import Mutant
from tests.support.examples import backup_operator, dns_operator, test_backup, test_dns

SETTING = test_backup.SETTING
STORED = backup_operator.STORED


def numbered_by_name() -> AbstractContextManager[Any]:
    """The copy's number is the name of the Backup, which a successor has as well."""
    return mock.patch.object(backup_operator, "uid_of", name_of)


def finalizer_missing(operator: ModuleType = backup_operator) -> AbstractContextManager[Any]:
    """No finalizer is added."""

    def unchanged(_lister: Lister, obj: Any, _name: str) -> Step[Any]:
        return obj
        yield

    return mock.patch.object(operator, "ensure_finalizer", unchanged)


@contextmanager
def finalizer_too_early() -> Iterator[None]:
    """The finalizer is removed when the service begins to delete the copy."""
    reconcile = backup_operator.Backups.reconcile

    def hasty(self: Any, key: str) -> Reconciliation:
        backup = self._backups.get(key)
        if backup is None or not backup_operator.is_deleting(backup):
            return (yield from reconcile(self, key))
        yield from call(self._service.delete, uid_of(backup), timeout=10)
        yield from remove_finalizer(self._backups, backup, STORED)
        return None

    with mock.patch.object(backup_operator.Backups, "reconcile", hasty):
        yield


def no_requeue() -> AbstractContextManager[Any]:
    """A Backup whose copy is being made is reconciled once."""
    return mock.patch.object(backup_operator, "SOON", None)


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
        ("finalizer missing", "a Backup is deleted while its copy remains", finalizer_missing),
        ("finalizer too early", "the deletion outside was requested, and not awaited", finalizer_too_early),
        ("no requeue", "the service finishes, and no event reports it", no_requeue),
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
            partial(finalizer_missing, dns_operator),
        ),
        (
            "no requeue",
            "name servers take over a record, and no event reports it",
            lambda: mock.patch.object(dns_operator, "SOON", None),
        ),
        (
            "edit not repaired",
            "a record is edited at the provider, and no event reports it",
            lambda: mock.patch.object(dns_operator, "LATER", None),
        ),
    )
)
