"""Execution, on the event loop, of what suspended requests wait for: webhook calls, delays and long computations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from kcm.runtime.apiserver.core.questions import ELAPSED, Answer, Computation, Delay, Outside, Question
from kcm.runtime.apiserver.core.suspended_requests import Suspended
from kcm.runtime.apiserver.server.event_loop.long_computations import LongComputations
from kcm.runtime.apiserver.server.event_loop.round_robin import RoundRobin
from kcm.runtime.client.api import Response

if TYPE_CHECKING:
    from kcm.runtime.apiserver.server.event_loop.webhook_client import WebhookClient


class SuspendedCalls:
    """Executor of the webhook calls, delays and computations of suspended requests.

    All methods run on the event loop's thread. Connections and threads are created when they are needed.
    """

    def __init__(self, conversion_context: Callable[[Outside], AbstractContextManager[None]]) -> None:
        """Create an executor.

        conversion_context: WebhookCalls.conversion_context, in which a computation can convert objects
        """
        self._conversion_context = conversion_context
        self._long_computations: LongComputations | None = None  # created for the first computation
        self._webhooks: WebhookClient | None = None  # created for the first call
        self._running: set[asyncio.Task[None]] = set()

    def finish(
        self, suspended: Suspended, then: Callable[[Response], None], failed: Callable[[Exception], None]
    ) -> None:
        """Execute a suspended request to its end.

        then: called with the response
        failed: called with the exception that the request raised
        """
        self._run(self._finish(suspended, then, failed))

    def answer(self, questions: Sequence[Question], then: Callable[[list[Answer]], None]) -> None:
        """Execute webhook calls, delays and computations (the questions) concurrently.

        then: called with all results, in the order of the questions
        """
        self._run(self._answer_all(questions, then))

    async def _answer_all(self, questions: Sequence[Question], then: Callable[[list[Answer]], None]) -> None:
        then(await asyncio.gather(*map(self._answer, questions)))

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """Cancel all calls and suspended requests."""
        for task in self._running:
            task.cancel()
        if self._webhooks is not None:
            self._webhooks.close()

    async def _finish(
        self, suspended: Suspended, then: Callable[[Response], None], failed: Callable[[Exception], None]
    ) -> None:
        outcome: Response | Suspended = suspended
        try:
            while isinstance(outcome, Suspended):
                outcome = outcome.resume(await asyncio.gather(*map(self._answer, outcome.questions)))
            then(outcome)
        except Exception as error:
            failed(error)

    async def _answer(self, question: Question) -> Answer:
        if isinstance(question, Delay):
            await asyncio.sleep(question.seconds)
            return ELAPSED
        if isinstance(question, Computation):
            return await self._carried_out(question)
        if self._webhooks is None:
            # Imported late: libcurl takes time to load, and most servers have no webhooks.
            from kcm.runtime.apiserver.server.event_loop.webhook_client import WebhookClient

            self._webhooks = WebhookClient()
        return await self._webhooks.post(question)

    async def _carried_out(self, work: Computation) -> Answer:
        loop = asyncio.get_running_loop()
        if self._long_computations is None:
            round_robin = RoundRobin(now=loop.time, soon=loop.call_soon)
            self._long_computations = LongComputations(
                round_robin, now=loop.time, conversion_context=self._conversion_context
            )
        done: asyncio.Future[Answer] = loop.create_future()

        def then(answer: Answer) -> None:
            if not done.done():  # cancelled by `close`
                done.set_result(answer)

        self._long_computations.run(work, then)
        return await done
