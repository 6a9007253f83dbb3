"""Mutants of the controllers of bootstrap tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.bootstrap import signer, token_cleaner
from kcm.actors.controllers.bootstrap.signer import BootstrapSigner
from kcm.actors.controllers.bootstrap.token_cleaner import TokenCleaner
from kcm.actors.reconciliation import Reconciliation, delete
from kcm.actors.simulation.campaign.domain_settings import BOOTSTRAP_SETTING
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.objects import Key
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.faults.mutants.mutant import Mutant


@contextmanager
def looked_at_once() -> Iterator[None]:
    """An unexpired token is not requeued for its expiry."""
    right = TokenCleaner.reconcile

    def reconcile(self: TokenCleaner, key: Key) -> Reconciliation:
        yield from right(self, key)
        return None

    with patch.object(TokenCleaner, "reconcile", reconcile):
        yield


def deleted_as_the_cache_shows_it() -> Any:
    """Deletions have only a uid precondition, as upstream, so that an extended token is deleted."""

    def lax(resource: Any, which: Any, *, unchanged: bool = False) -> Any:
        return delete(resource, which)

    return patch.object(token_cleaner, "delete", lax)


@contextmanager
def failed_updates_are_forgotten() -> Iterator[None]:
    """Failed commands are not retried before the next event."""
    right = BootstrapSigner.reconcile

    def reconcile(self: BootstrapSigner, key: Key) -> Reconciliation:
        with suppress(CommandError):
            yield from right(self, key)
        return None

    with patch.object(BootstrapSigner, "reconcile", reconcile):
        yield


def signed_whatever_it_became() -> Any:
    """The ConfigMap is written without its resourceVersion, so that a concurrent change of a user is lost."""

    def lax(resource: Any, obj: Any) -> Any:
        meta = {field: value for field, value in obj["metadata"].items() if field != "resourceVersion"}
        return signer_update(resource, {**obj, "metadata": meta})

    signer_update = signer.update
    return patch.object(signer, "update", lax)


def late(resource: str) -> Any:
    """Draw a lagging watch that also stalls for some time."""

    def draw(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
        at = round(random.Random(f"late {resource} {seed}").uniform(5.0, seconds * 0.7), 2)
        return (Fault(kind=FaultKind.WATCH_STALLED, start=at, until=at + 30.0, process=process, resource=resource),)

    return draw


BOOTSTRAP = (
    Mutant(
        name="a token that has not expired is not looked at again",
        source="kubernetes/kubernetes#77505",
        mutation=looked_at_once,
        setting=BOOTSTRAP_SETTING,
    ),
    Mutant(
        name="a token is deleted as the cache shows it",
        source="kubernetes v1.36 pkg/controller/bootstrap/tokencleaner.go, where the uid is the only precondition",
        mutation=deleted_as_the_cache_shows_it,
        setting=replace(BOOTSTRAP_SETTING, draw=late("secrets")),
    ),
    Mutant(
        name="a signature that could not be written is forgotten",
        source="kubernetes/kubernetes#109233",
        mutation=failed_updates_are_forgotten,
        setting=BOOTSTRAP_SETTING,
    ),
    Mutant(
        name="cluster-info is overwritten",
        source="in words: an update without the version that was read",
        mutation=signed_whatever_it_became,
        setting=replace(BOOTSTRAP_SETTING, draw=late("configmaps")),
    ),
)
