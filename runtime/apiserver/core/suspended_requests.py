"""Requests that depend on calls to webhooks, on pauses, or on long computations.

No request blocks the server's only thread. A request that needs something first (a question, see questions.py) raises
Unanswered: its changes are rolled back, and it becomes a Suspended with its questions. The caller obtains the results
while other requests are served, then calls `resume`. The request is handled again from the beginning, with the objects
stored at that time, and finds the results of its questions. If an object has changed in the meantime, the questions
differ, and the request is suspended again. An object is therefore never stored in a state that a webhook has not seen.

Generated values (uids, suffixes of names, the time) are the same in each attempt. Otherwise the questions would differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.questions import Answer, Outside, Question, Unanswered, unanswered
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.client.api import Response

LONGEST = 34.0  # seconds from the first attempt to the last, as upstream's requestTimeoutUpperBound

T = TypeVar("T")
Attempt = Callable[[Cluster], Response]
"""Handles a request in a server context that has the results of its questions. Raises Unanswered."""


class Suspended:
    """Request that waits for the results of its questions."""

    def __init__(self, cluster: Cluster, attempt: Attempt) -> None:
        self._attempt, self._clock, self._began = attempt, cluster.clock, cluster.clock.now()
        self._uid, self._suffix = _Replayed(cluster.uid), _Replayed(cluster.suffix)
        self._answers: dict[Question, Answer] = {}
        self._cluster = replace(
            cluster, uid=self._uid, suffix=self._suffix, clock=_FixedClock(self._began), outside=self._results_of
        )
        self.questions: tuple[Question, ...] = ()

    def resume(self, answers: Iterable[Answer]) -> Response | Suspended:
        """Handle the request again, with the results of its questions, in their order.

        Returns the response, or this object if the request has further questions. After LONGEST the response is a 504.
        """
        self._answers.update(zip(self.questions, answers, strict=True))
        if self._clock.now() - self._began > LONGEST:
            text = "Timeout: request did not complete within requested timeout - context deadline exceeded"
            return StatusError(504, "Timeout", text, {}).response()
        self._uid.rewind()
        self._suffix.rewind()
        try:
            return self._attempt(self._cluster)
        except Unanswered as asked:
            self.questions = asked.questions
            return self

    def _results_of(self, questions: Sequence[Question]) -> list[Answer]:
        missing = [question for question in dict.fromkeys(questions) if question not in self._answers]
        if missing:
            raise Unanswered(missing)
        return [self._answers[question] for question in questions]


class OutsideAccess:
    """Access of object conversions to the responses of webhooks.

    outside: `Cluster.outside` of the current request. It is set for each request, because objects are converted
    wherever they are read or written, also in functions that do not receive the Cluster.
    """

    __slots__ = ("outside",)

    def __init__(self) -> None:
        self.outside: Outside = unanswered


AskLater = Callable[[Sequence[Question], Callable[[list[Answer]], None]], None]
"""Obtains the results of questions outside any request, then calls the function with them, in their order."""


def in_background(
    outside_access: OutsideAccess,
    obtain: AskLater,
    act: Callable[[], T],
    then: Callable[[T], None],
    failed: Callable[[StatusError], None],
) -> None:
    """Call `act` outside any request; if it raises Unanswered, obtain the results of its questions and call it again.

    outside_access: provides the results to `act`.
    obtain: obtains the results of questions.
    act: may raise Unanswered and StatusError.
    then: called with the result of `act`.
    failed: called with the StatusError of `act`.
    """
    answers: dict[Question, Answer] = {}

    def known_results(questions: Sequence[Question]) -> list[Answer]:
        missing = [question for question in questions if question not in answers]
        if missing:
            raise Unanswered(missing)
        return [answers[question] for question in questions]

    def attempt() -> None:
        before, outside_access.outside = outside_access.outside, known_results
        try:
            result = act()
        except Unanswered as asked:
            questions = asked.questions
        except StatusError as err:
            failed(err)
            return
        else:
            then(result)
            return
        finally:
            outside_access.outside = before
        obtain(questions, lambda new_answers: resume(questions, new_answers))

    def resume(questions: Sequence[Question], new_answers: list[Answer]) -> None:
        answers.update(zip(questions, new_answers, strict=True))
        attempt()

    attempt()


class _Replayed(Generic[T]):
    """Generator of values (`draw`) that returns the same values again after `rewind`."""

    def __init__(self, draw: Callable[[], T]) -> None:
        self._draw, self._drawn, self._at = draw, list[T](), 0

    def __call__(self) -> T:
        if self._at == len(self._drawn):
            self._drawn.append(self._draw())
        self._at += 1
        return self._drawn[self._at - 1]

    def rewind(self) -> None:
        self._at = 0


class _FixedClock(NamedTuple):
    time: float

    def now(self) -> float:
        return self.time
