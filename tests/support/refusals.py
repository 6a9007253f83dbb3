"""Outcomes of refused writes, and a server that refuses one write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcm.protocols.messages.commands import Command, Get, List
from kcm.protocols.messages.outcomes import (
    Conflict,
    Forbidden,
    Invalid,
    Outcome,
    Refused,
    ServerFailure,
    Throttled,
    Unknown,
)
from kcm.protocols.objects import encode_object

QUOTA_EXCEEDED = Forbidden('pods "web-" is forbidden: exceeded quota: small')
NAMESPACE_TERMINATING = Forbidden(
    'pods "web-" is forbidden: unable to create new content in namespace default because it is being terminated',
    encode_object(
        {"kind": "Status", "status": "Failure", "details": {"causes": [{"reason": "NamespaceTerminating"}]}},
    ),
)
FAILURES: tuple[Outcome, ...] = (
    Conflict("changed"),
    Forbidden("no"),
    Invalid("odd"),
    Throttled("later"),
    ServerFailure("broken"),
    Unknown("cut"),
    Refused("fenced"),
)

with_each_failure = pytest.mark.parametrize("outcome", FAILURES, ids=lambda outcome: type(outcome).__name__)


class OneWriteFails:
    """Server that fails one write and accepts all other commands as `otherwise` does.

    outcome: outcome of the failing write; None if no write fails.
    number: index of the failing write.
    met: whether the write occurred, or no write fails.
    """

    def __init__(self, outcome: Outcome | None, number: int, otherwise: Callable[[Command], Outcome]) -> None:
        self._outcome, self._left, self._otherwise = outcome, number, otherwise
        self.met = outcome is None

    def __call__(self, command: Command) -> Outcome:
        if self._outcome is not None and not isinstance(command, Get | List):
            self._left -= 1
            if self._left < 0 and not self.met:
                self.met = True
                return self._outcome
        return self._otherwise(command)
