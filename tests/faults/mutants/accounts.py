"""Mutants of the controllers of service accounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from actors.controllers.identity.root_ca_publisher import RootCaPublisher
from actors.controllers.identity.tokens.reconciler import SecretKey, Tokens
from actors.reconciliation import Step
from actors.simulation.campaign.account_setting import ACCOUNTS_TOO
from protocols.objects import Object
from runtime.faults.vocabulary import Fault, FaultKind
from tests.faults.mutants.mutant import Mutant


def late_accounts(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """The watch of accounts is late, and no other."""
    late = (5.0, 10.0, 20.0)[seed % 3]
    kind, resource = FaultKind.WATCH_LAGGING, "serviceaccounts"
    return (Fault(kind=kind, start=1.0, until=seconds, seconds=late, process=process, resource=resource),)


def cache_says_which_accounts_are_gone() -> Any:
    """A token whose account no table shows is deleted, though the watch of accounts may only be late."""

    def trusting(self: Tokens, key: SecretKey) -> Step[Object | None]:
        yield from ()
        return self._known_account(key)

    return patch.object(Tokens, "_account_of", trusting)


def new_namespaces_are_not_looked_at() -> Any:
    """Certificates are restored where they were before, and published nowhere else."""

    def leave(*_: Any) -> Step[None]:
        yield from ()

    return patch.object(RootCaPublisher, "_create", leave)


ACCOUNTS = (
    Mutant(
        name="an account that the cache does not show counts as gone",
        source="kubernetes/kubernetes#10041",
        mutation=cache_says_which_accounts_are_gone,
        setting=replace(ACCOUNTS_TOO, draw=late_accounts),
    ),
    Mutant(
        name="namespaces are not looked at when they come",
        source="kubernetes/kubernetes#71005",
        mutation=new_namespaces_are_not_looked_at,
        setting=ACCOUNTS_TOO,
    ),
)
