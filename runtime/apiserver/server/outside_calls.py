"""Calls that depend on others than the server: webhook calls of `handle`, and conversions of objects for watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.questions import Answer, CallWebhook, Computation, Outside, Question
from kcm.runtime.apiserver.core.suspended_requests import Asking, AskLater, Suspended, in_background
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.client.api import Response


class OutsideCalls:
    """Makes calls immediately, until `make_later` sets a function that makes those of watches."""

    def __init__(self, asking: Asking, call_webhook: CallWebhook) -> None:
        self._asking, self._call_webhook = asking, call_webhook
        self._ask_later: AskLater = self._ask_all

    def make_later(self, ask_later: AskLater) -> None:
        """Set the function that makes the calls that the delivery of watch events depends on."""
        self._ask_later = ask_later

    @contextmanager
    def acting_for(self, outside: Outside) -> Iterator[None]:
        """Use `outside` for the conversions within this context. Not within a request."""
        before, self._asking.outside = self._asking.outside, outside
        try:
            yield
        finally:
            self._asking.outside = before

    def finish(self, outcome: Response | Suspended) -> Response:
        """Make the calls of a suspended request immediately, until it has a response."""
        while isinstance(outcome, Suspended):
            outcome = outcome.resume(map(self._ask_now, outcome.questions))
        return outcome

    def convert_later(
        self,
        definition: ResourceDefinition,
        stored: list[Object],
        then: Callable[[list[Object]], None],
        failed: Callable[[StatusError], None],
    ) -> None:
        """Call `then` with the served version of stored objects once it is known, or `failed` with an error."""
        decode = definition.decode
        if decode is None:
            then(stored)
        else:
            in_background(self._asking, self._ask_later, partial(decode, stored), then, failed)

    def _ask_now(self, question: Question) -> Answer:
        return question.carried_out() if isinstance(question, Computation) else self._call_webhook(question)

    def _ask_all(self, questions: Sequence[Question], then: Callable[[list[Answer]], None]) -> None:
        then(list(map(self._ask_now, questions)))
