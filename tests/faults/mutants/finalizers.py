"""Mutations of operators that have something outside the cluster for each object, protected by `finalize`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock

from kcm import Key
from kcm.objects import is_deleting
from kcm.steps import Step, finalize
from kcm.tables import Lister

NEVER = 1_000_000.0  # seconds


def missing(operator: ModuleType) -> AbstractContextManager[Any]:
    """No finalizer is added, and so nothing is cleaned up."""

    def unprotected(lister: Lister[Any], key: Key, *_: Any, **__: Any) -> Step[Any]:
        found = lister.get(key)
        return None if found is None or is_deleting(lister.map_of(found)) else found
        yield

    return mock.patch.object(operator, "finalize", unprotected)


def too_early(operator: ModuleType) -> AbstractContextManager[Any]:
    """The finalizer is removed when the cleanup begins, and not when it is complete."""

    def hasty(lister: Lister[Any], key: Key, name: str, clean_up: Callable[[str], Any], **more: Any) -> Step[Any]:
        def request(uid: str) -> None:
            clean_up(uid)

        return (yield from finalize(lister, key, name, request, **more))

    return mock.patch.object(operator, "finalize", hasty)


def no_requeue(operator: ModuleType) -> AbstractContextManager[Any]:
    """An object whose thing is being made or deleted is reconciled once."""
    return mock.patch.multiple(operator, SOON=None, finalize=partial(finalize, again=NEVER))
