"""Exception that is raised at a `yield` for an outcome that the reconciler does not match."""

from __future__ import annotations

from kcm.protocols.messages.commands import Command, in_words
from kcm.protocols.messages.outcomes import Failure, Raised


class CommandError(Exception):
    """A command had an outcome that its reconciler does not match; the key is retried with backoff.

    failure.message is the server's text alone.
    """

    def __init__(self, command: Command, failure: Failure) -> None:
        self.command, self.failure = command, failure
        super().__init__(command, failure)

    def __str__(self) -> str:
        failure = self.failure
        message = f": {failure.message}" if failure.message else ""
        where = f" ({failure.where})" if isinstance(failure, Raised) and failure.where else ""
        return f"{in_words(self.command)}: {type(failure).__name__}{message}{where}"
