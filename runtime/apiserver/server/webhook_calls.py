"""Webhook calls for synchronous requests (ApiServer.handle), and for the conversion of objects in watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.questions import Answer, CallWebhook, Computation, Outside, Question
from kcm.runtime.apiserver.core.suspended_requests import AskLater, OutsideAccess, Suspended, in_background
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.client.api import Response


class WebhookCalls:
    """Caller of webhooks for synchronous requests and for watches.

    All calls are synchronous, until `set_async_caller` sets a function for the calls of watches.
    """

    def __init__(self, outside_access: OutsideAccess, call_webhook: CallWebhook) -> None:
        self._outside_access, self._call_webhook = outside_access, call_webhook
        self._ask_asynchronously: AskLater = self._ask_all_now

    def set_async_caller(self, ask: AskLater) -> None:
        """Set an asynchronous function for the webhook calls that convert objects for watches."""
        self._ask_asynchronously = ask

    @contextmanager
    def conversion_context(self, outside: Outside) -> Iterator[None]:
        """Return a context for conversions of objects that do not belong to a request. Not for use within a request.

        outside: returns the results of webhook calls, or raises Unanswered if one is missing
        """
        before, self._outside_access.outside = self._outside_access.outside, outside
        try:
            yield
        finally:
            self._outside_access.outside = before

    def finish(self, outcome: Response | Suspended) -> Response:
        """Return the response of a request. If it is suspended, execute its calls and computations synchronously."""
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
        """Convert stored objects to the version of a definition, possibly with a conversion webhook.

        then: called with the converted objects, possibly before this returns
        failed: called with the error if the conversion fails
        """
        decode = definition.decode
        if decode is None:
            then(stored)
        else:
            in_background(self._outside_access, self._ask_asynchronously, partial(decode, stored), then, failed)

    def _ask_now(self, question: Question) -> Answer:
        return question.carried_out() if isinstance(question, Computation) else self._call_webhook(question)

    def _ask_all_now(self, questions: Sequence[Question], then: Callable[[list[Answer]], None]) -> None:
        then(list(map(self._ask_now, questions)))
