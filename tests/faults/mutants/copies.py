"""Mutants of examples/copy_operator.py: typical bugs of operators that work on several clusters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest import mock

from msgspec.structs import replace

from kcm import Queue, Reconciliation, Watch
from kcm.commands import delete, patch
from kcm.objects import is_deleting, own
from kcm.outcomes import NotFound
from kcm.specs import Read, itself
from kcm.steps import ensure, must
from tests.faults.mutants.mutant import Mutant
from tests.support.examples import copy_operator, test_copies

SETTING = test_copies.SETTING
Copies, SOURCES, COPIES = copy_operator.Copies, copy_operator.SOURCES, copy_operator.COPIES


def surplus_keys_kept() -> AbstractContextManager[Any]:
    """Keys that the source no longer has remain in the copy, as `ensure` keeps what is not named."""
    return mock.patch.object(copy_operator, "ensure", lambda lister, wanted, **_: ensure(lister, wanted))


def owned_across_clusters() -> AbstractContextManager[Any]:
    """The source owns the copy: the garbage collector of the other cluster finds no such owner."""
    wanted_copy = copy_operator.wanted_copy
    return mock.patch.object(
        copy_operator, "wanted_copy", lambda source: own(wanted_copy(source), by=source, of=SOURCES)
    )


def others_overwritten() -> AbstractContextManager[Any]:
    """Every ConfigMap of the same name is taken for a copy."""
    return mock.patch.object(copy_operator, "is_copy", return_value=True)


# Changes and deletions of copies enqueue nothing.
COPIES_UNWATCHED = replace(
    copy_operator.COPIER,
    queues=(Queue(watches=(Watch(SOURCES, to=itself, labels="example.com/copied=true"),)),),
    reads=(Read(COPIES),),
)


@contextmanager
def deleted_on_the_wrong_cluster() -> Iterator[None]:
    """The copy is deleted by the name of its source, on the cluster of the source."""
    reconcile = Copies.reconcile

    def confused(self: Any, key: str) -> Reconciliation:
        copy = self._copies.get(key)
        if self._sources.get(key) is None and copy is not None and copy_operator.is_copy(copy):
            yield from must(delete(SOURCES, key, depends_on=()), but=(NotFound,))
            return None
        return (yield from reconcile(self, key))

    with mock.patch.object(Copies, "reconcile", confused):
        yield


@contextmanager
def version_of_the_other_cluster() -> Iterator[None]:
    """The precondition of a patch is the version of the source, which means nothing on the other cluster."""
    reconcile = Copies.reconcile

    def confused(self: Any, key: str) -> Reconciliation:
        source, copy = self._sources.get(key), self._copies.get(key)
        if source is None or is_deleting(source) or copy is None or not copy_operator.is_copy(copy):
            return (yield from reconcile(self, key))
        if copy.get("data") != source.get("data"):
            version = {"resourceVersion": source["metadata"]["resourceVersion"]}
            yield from must(patch(COPIES, key, {"metadata": version, "data": source.get("data")}))
        return None

    with mock.patch.object(Copies, "reconcile", confused):
        yield


CLUSTER_COPIES = (
    *(
        Mutant(name=name, source=source, mutation=mutation, setting=replace(SETTING))
        for name, source, mutation in (
            ("surplus keys kept", "a key that was removed from the source remains in the copy", surplus_keys_kept),
            ("owned across clusters", "the collector of a cluster finds no owner on another", owned_across_clusters),
            ("others overwritten", "an object of the same name is not a copy", others_overwritten),
            ("deleted on the wrong cluster", "a key names an object on each cluster", deleted_on_the_wrong_cluster),
            ("version of the other cluster", "versions of two clusters mean nothing", version_of_the_other_cluster),
        )
    ),
    Mutant(
        name="copies not watched",
        source="a copy is changed by hand, and no event reports it",
        mutation=nullcontext,
        setting=replace(SETTING, controllers=(COPIES_UNWATCHED,)),
    ),
)
