"""What a request asks of others than the server while it is carried out, and how it goes on once they have answered.

No request waits. Where one needs an answer that it has not (of a webhook, or that some time has gone by), it raises
Unanswered: all that it did is undone, and it is Suspended, with its questions. Whoever called for it has them answered
in his own time, while other requests are carried out, and calls `resume`: it is carried out again from the beginning,
against what is stored then, and finds the answers to what it asks in the same words. If an object has changed meanwhile
it asks in other words, and is suspended once more. So nothing is stored that was not asked about.

All that it draws (uids, suffixes, the time) is drawn once and is the same in each attempt; else no question would be
asked twice in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.questions import Answer, Outside, Question, Unanswered, unanswered
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.client.api import Response

LONGEST = 34.0  # seconds from the first attempt to the last, as upstream's requestTimeoutUpperBound

T = TypeVar("T")
Attempt = Callable[[Cluster], Response]
"""Carries the request out, on a cluster that has the answers. Raises Unanswered."""


class Suspended:
    """A request that waits for answers to its questions."""

    def __init__(self, cluster: Cluster, attempt: Attempt) -> None:
        self._attempt, self._clock, self._began = attempt, cluster.clock, cluster.clock.now()
        self._uid, self._suffix = _Repeated(cluster.uid), _Repeated(cluster.suffix)
        self._answers: dict[Question, Answer] = {}
        self._cluster = replace(
            cluster, uid=self._uid, suffix=self._suffix, clock=_Stopped(self._began), outside=self._answered
        )
        self.questions: tuple[Question, ...] = ()

    def resume(self, answers: Iterable[Answer]) -> Response | Suspended:
        """answers: to the questions, in their order."""
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

    def _answered(self, questions: Sequence[Question]) -> list[Answer]:
        missing = [one for one in dict.fromkeys(questions) if one not in self._answers]
        if missing:
            raise Unanswered(missing)
        return [self._answers[one] for one in questions]


class Asking:
    """Whom objects ask that are converted: the answers that the request of the moment has.

    A definition converts its objects wherever they are read or written, and is handed no cluster there.
    """

    __slots__ = ("outside",)

    def __init__(self) -> None:
        self.outside: Outside = unanswered


AskLater = Callable[[Sequence[Question], Callable[[list[Answer]], None]], None]
"""Calls back with the answers to questions, in their order, when they are there. Not within a request."""


def in_background(
    asking: Asking,
    ask: AskLater,
    act: Callable[[], T],
    then: Callable[[T], None],
    failed: Callable[[StatusError], None],
) -> None:
    """Call `then` with what `act` returns once it has the answers that it asks for, or `failed` with what it raises."""
    answers: dict[Question, Answer] = {}

    def answered(questions: Sequence[Question]) -> list[Answer]:
        missing = [one for one in questions if one not in answers]
        if missing:
            raise Unanswered(missing)
        return [answers[one] for one in questions]

    def go_on() -> None:
        before, asking.outside = asking.outside, answered
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
            asking.outside = before
        ask(questions, lambda found: learn(questions, found))

    def learn(questions: Sequence[Question], found: list[Answer]) -> None:
        answers.update(zip(questions, found, strict=True))
        go_on()

    go_on()


class _Repeated(Generic[T]):
    """A source whose values come again after each rewind, in the same order."""

    def __init__(self, draw: Callable[[], T]) -> None:
        self._draw, self._drawn, self._at = draw, list[T](), 0

    def __call__(self) -> T:
        if self._at == len(self._drawn):
            self._drawn.append(self._draw())
        self._at += 1
        return self._drawn[self._at - 1]

    def rewind(self) -> None:
        self._at = 0


class _Stopped(NamedTuple):
    time: float

    def now(self) -> float:
        return self.time
