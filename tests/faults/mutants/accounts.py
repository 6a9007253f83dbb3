"""Mutants of the controllers of service accounts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
from msgspec.structs import replace

from kcm.actors.controllers.identity.root_ca_publisher import RootCaPublisher
from kcm.actors.controllers.identity.tokens.reconciler import SecretKey, Tokens
from kcm.actors.engine.dispatcher import actor as dispatcher
from kcm.actors.engine.dispatcher.requests import outcome_of, request_for
from kcm.actors.reconciliation import Step
from kcm.actors.simulation.campaign.domain_settings import ACCOUNTS_SETTING, NODES_SETTING
from kcm.protocols.messages.commands import Command, Get
from kcm.protocols.objects import Object
from kcm.runtime.client.api import Request
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.faults.mutants.mutant import Mutant


def late_accounts(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Draw a stall of the watch of service accounts only."""
    late = (5.0, 10.0, 20.0)[seed % 3]
    kind, resource = FaultKind.WATCH_LAGGING, "serviceaccounts"
    return (Fault(kind=kind, start=1.0, until=seconds, seconds=late, process=process, resource=resource),)


def cache_says_which_accounts_are_gone() -> Any:
    """Tokens of accounts missing in the table are deleted, although the watch of accounts may be late."""

    def trusting(self: Tokens, key: SecretKey) -> Step[Object | None]:
        yield from ()
        return self._known_account(key)

    return patch.object(Tokens, "_account_of", trusting)


def new_namespaces_are_not_looked_at() -> Any:
    """Certificates are restored where they existed, but not published in new namespaces."""

    def leave(*_: Any) -> Step[None]:
        yield from ()

    return patch.object(RootCaPublisher, "_create", leave)


@contextmanager
def live_reads_by_the_controller() -> Iterator[None]:
    """Live reads are sent as the controller, whose role may not permit them, instead of as the informer."""

    def by_itself(command: Command, **more: Any) -> Request:
        return request_for(
            msgspec.structs.replace(command, as_informer=False) if isinstance(command, Get) else command, **more
        )

    with (
        patch.object(dispatcher, "request_for", by_itself),
        patch.object(dispatcher, "client_of", lambda _command, client: client),
        patch.object(dispatcher, "outcome_of", lambda response, _command: outcome_of(response)),
    ):
        yield


ACCOUNTS = (
    Mutant(
        name="controllers get what they may only list",
        source="kubernetes/kubernetes#59351: a controller does what its role lacks",
        mutation=live_reads_by_the_controller,
        setting=NODES_SETTING,
    ),
    Mutant(
        name="an account that the cache does not show counts as gone",
        source="kubernetes/kubernetes#10041",
        mutation=cache_says_which_accounts_are_gone,
        setting=replace(ACCOUNTS_SETTING, draw=late_accounts),
    ),
    Mutant(
        name="namespaces are not looked at when they come",
        source="kubernetes/kubernetes#71005",
        mutation=new_namespaces_are_not_looked_at,
        setting=ACCOUNTS_SETTING,
    ),
)
