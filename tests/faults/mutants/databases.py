"""Mutants of examples/database_operator.py: typical bugs of operators that upgrade what they run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from msgspec.structs import replace

from kcm import Object
from kcm.commands import delete, patch
from kcm.objects import key_of, labels_of, owned
from kcm.steps import Step, call, ensure, must
from tests.faults.mutants.mutant import Mutant
from tests.support.examples import database_operator, test_database

SETTING = test_database.SETTING
Databases = database_operator.Databases


def _outdated(self: Any, stateful_set: Object) -> list[Object]:
    """Return pods of an earlier revision, by ordinal."""
    revision = stateful_set.get("status", {}).get("updateRevision")
    pods = sorted(owned(self._pods, by=stateful_set), key=key_of)
    return [pod for pod in pods if labels_of(pod).get(database_operator.REVISION) != revision]


@contextmanager
def _deleting(choose: Any) -> Iterator[None]:
    """Before each look at an upgrade, delete the pods that `choose` selects from those of an earlier revision."""
    upgrade = Databases._upgrade

    def hasty(self: Any, database: Object, stateful_set: Object) -> Step[None]:
        for pod in choose(_outdated(self, stateful_set)):
            yield from must(delete(database_operator.PODS, pod))
        yield from upgrade(self, database, stateful_set)

    with mock.patch.object(Databases, "_upgrade", hasty):
        yield


def all_pods_at_once() -> AbstractContextManager[Any]:
    """All pods of an earlier revision are deleted at once."""
    return _deleting(lambda pods: [pod for pod in reversed(pods) if database_operator.is_ready(pod)])


def primary_first() -> AbstractContextManager[Any]:
    """The pod with the lowest number is replaced first."""
    return mock.patch.object(database_operator, "max", min, create=True)


@contextmanager
def password_made_anew() -> Iterator[None]:
    """Each reconciliation writes a new password."""

    def anew(self: Any, database: Object) -> Step[None]:
        password = yield from call(database_operator.secrets.token_urlsafe, timeout=10)
        secret = {"metadata": {"name": database["metadata"]["name"]}, "stringData": {"password": password}}
        secret = database_operator.own(secret, by=database, of=database_operator.DATABASES)
        if self._secrets.get(key_of(secret)) is None:
            yield from ensure(self._secrets, secret)
        else:
            yield from must(patch(database_operator.SECRETS, key_of(secret), {"stringData": secret["stringData"]}))

    with mock.patch.object(Databases, "_ensure_password", anew):
        yield


@contextmanager
def backup_not_awaited() -> Iterator[None]:
    """A Backup is created before an upgrade, which does not wait for it."""
    back_up = Databases._back_up

    def hasty(self: Any, database: Object) -> Step[None]:
        yield from back_up(self, database)

    with mock.patch.object(Databases, "_back_up", hasty):
        yield


def dependents_not_watched() -> AbstractContextManager[Any]:
    """Deleted and changed Services enqueue no Database."""
    queue = database_operator.DATABASE.queues[0]
    watches = tuple(watch for watch in queue.watches if watch.resource != database_operator.SERVICES)
    spec = replace(
        database_operator.DATABASE, queues=(replace(queue, watches=watches),), reads=(database_operator.SERVICES,)
    )
    return mock.patch.object(test_database, "DATABASE", spec)


@contextmanager
def status_without_look() -> Iterator[None]:
    """The new version is reported as soon as the StatefulSet has it."""

    def hasty(self: Any, database: Object, stateful_set: Object) -> Step[None]:
        yield from self._report(database, database["spec"]["version"], "Available", "")
        for pod in _outdated(self, stateful_set)[-1:]:
            if all(map(database_operator.is_ready, owned(self._pods, by=stateful_set))):
                yield from must(delete(database_operator.PODS, pod))

    with mock.patch.object(Databases, "_upgrade", hasty):
        yield


DATABASES = tuple(
    Mutant(name=name, source=source, mutation=mutation, setting=replace(SETTING))
    for name, source, mutation in (
        ("all pods at once", "an upgrade does not wait for the pods that it replaced", all_pods_at_once),
        ("primary first", "an upgrade replaces the pod that the others follow", primary_first),
        ("password made anew", "a Secret is described with a random value, and written again", password_made_anew),
        ("backup not awaited", "an object was created, and its status was not read", backup_not_awaited),
        ("dependents not watched", "a dependent is deleted by hand, and no event reports it", dependents_not_watched),
        ("status without a look", "the status repeats the spec", status_without_look),
    )
)
