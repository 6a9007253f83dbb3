"""Mutants of examples/tenant_operator.py: typical bugs of operators, searched by the example's trial."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from unittest import mock

from msgspec.structs import replace

from kcm import Object, Reconciliation, Watch
from kcm.commands import create, patch
from kcm.objects import key_of, name_of
from kcm.outcomes import AlreadyExists
from kcm.steps import Step, must
from kcm.tables import Lister
from tests.faults.mutants import finalizers
from tests.faults.mutants.mutant import Mutant
from tests.support.examples import tenant_operator, test_tenant_faults

SETTING = test_tenant_faults.SETTING
Tenants = tenant_operator.Tenants


def _is_of_that_name(obj: Object, owner: Object) -> bool:
    return any(each["name"] == name_of(owner) for each in obj["metadata"].get("ownerReferences", []))


def _ensure_by_name(lister: Lister, wanted: Object) -> Step[Object]:
    """Create the object, or patch the existing one, without checking its owner."""
    there = lister.get(key_of(wanted))
    if there is None:
        yield from must(create(lister.resource, wanted), but=(AlreadyExists,))
        return wanted
    if any(there.get(name) != value for name, value in wanted.items() if name != "metadata"):
        yield from must(patch(lister.resource, key_of(wanted), wanted))
    return there


@contextmanager
def uid_not_compared() -> Iterator[None]:
    """Owned namespaces are recognized by the tenant's name, and so include its predecessor's.

    `ensure` refuses an object with another owner, so it is not used.
    """
    names = {"controlled_by": _is_of_that_name, "ensure": _ensure_by_name}
    with mock.patch.multiple(tenant_operator, **names):
        yield


@contextmanager
def status_from_memory() -> Iterator[None]:
    """The status contains the namespaces that the operator remembers, and not the existing ones."""
    provide = Tenants._provide
    made: dict[int, set[str]] = {}  # by reconciler, as a new one has no memory

    def from_memory(self: Any, tenant: Object, wanted: list[str]) -> Step[list[str]]:
        new = [name for name in wanted if self._namespaces.get(name) is None]
        yield from provide(self, tenant, wanted)
        made.setdefault(id(self), set()).update(new)
        return [name for name in wanted if name in made[id(self)]]

    with mock.patch.object(Tenants, "_provide", from_memory):
        yield


@contextmanager
def called_again() -> Iterator[None]:
    """Each call has a new request id, and so opens another account unless the status names the first one."""
    reconcile, requests = Tenants.reconcile, itertools.count(1)

    class Requests:
        """Directory with a new request id for each call."""

        def __init__(self, directory: Any, tenants: Lister) -> None:
            self._directory, self._tenants = directory, tenants

        def enrol(self, uid: str, name: str, members: list[str], generation: int) -> Any:
            tenant, there = self._tenants.get(name) or {}, self._directory.accounts()
            number = tenant.get("status", {}).get("account")
            known = next((key for key, account in there if account.number == number), None)
            new = uid if all(key != uid for key, _ in there) else f"{uid} {next(requests)}"
            return self._directory.enrol(known or new, name, members, generation)

        def close(self, uid: str) -> bool:
            return bool(self._directory.close(uid))

    def asking(self: Any, key: str) -> Reconciliation:
        if not isinstance(self._directory, Requests):
            self._directory = Requests(self._directory, self._tenants)
        return reconcile(self, key)

    with mock.patch.object(Tenants, "reconcile", asking):
        yield


def wrong_namespace_watched() -> AbstractContextManager[Any]:
    """Quotas are watched in the operator's namespace instead of the tenants'."""

    def watch(resource: Any, **arguments: Any) -> Watch[Any]:
        return Watch(resource, **arguments, namespaces=("default",) if resource is tenant_operator.QUOTAS else None)

    return mock.patch.object(tenant_operator, "Watch", watch)


TENANTS = (
    Mutant(
        name="uid not compared",
        source="a predecessor's namespace passes for the tenant's own, as it has the same name",
        mutation=uid_not_compared,
        setting=replace(SETTING),
    ),
    Mutant(
        name="status from memory",
        source="an operator that was started anew writes a status without what it made before",
        mutation=status_from_memory,
        setting=replace(SETTING),
    ),
    Mutant(
        name="finalizer too early",
        source="the clean-up outside was asked for, and not waited for",
        mutation=partial(finalizers.too_early, tenant_operator),
        setting=replace(SETTING),
    ),
    Mutant(
        name="no requeue",
        source="what is outside changes, and nothing tells the operator",
        mutation=partial(finalizers.no_requeue, tenant_operator),
        setting=replace(SETTING),
    ),
    Mutant(
        name="answer lost, and the call repeated",
        source="a request that is made again has another number",
        mutation=called_again,
        setting=replace(SETTING),
    ),
    Mutant(
        name="wrong namespace watched",
        source="the informer of dependents is restricted to the operator's namespace",
        mutation=wrong_namespace_watched,
        setting=replace(SETTING),
    ),
)
