"""Values of a suspended request: pending calls, timers and computations, and their results.

See suspended_requests.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple


class Post(NamedTuple):
    """POST request with JSON to a webhook. Equal posts are sent once."""

    url: str  # with the scheme https
    body: bytes
    address: tuple[str, int] | None = None  # (host, port) to connect to; None: the URL's
    authority: bytes = b""  # CA certificates in PEM; b"" for those of the system
    seconds: float = 10.0  # timeout of the whole exchange


class Delay(NamedTuple):
    """Delay after which the request continues."""

    seconds: float
    number: int = 0  # distinguishes several pauses of a request


class Computation:
    """Long computation, during which other requests are served: see long_computations.py.

    Computations with the same key are equal and have the same result.
    """

    __slots__ = ("act", "key", "outside")

    def __init__(self, key: bytes, act: Callable[[], Any], outside: Outside) -> None:
        self.key, self.act, self.outside = key, act, outside

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Computation) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def carried_out(self) -> Answer:
        """Carry the computation out at once."""
        try:
            return Answer(result=Result(self.act()))
        except Exception as err:
            return Answer(result=Result(error=err))


class Result(NamedTuple):
    """Result of a computation, or the exception that it raised."""

    value: Any = None
    error: Exception | None = None


Question = Post | Delay | Computation


class Answer(NamedTuple):
    """Result of a question."""

    status: int = 0  # HTTP status; 0 without a response
    body: bytes = b""
    error: str = ""  # reason if there is no response
    result: Result | None = None  # of a Computation


ELAPSED = Answer()
CallWebhook = Callable[[Question], Answer]
Outside = Callable[[Sequence[Question]], list[Answer]]
"""Return the answers in the order of the questions. Raises Unanswered if an answer is missing."""


class Unanswered(Exception):
    """Control flow: a request needs the results of these questions."""

    def __init__(self, questions: Iterable[Question]) -> None:
        super().__init__()
        self.questions = tuple(questions)


def unanswered(questions: Sequence[Question]) -> list[Answer]:
    """Raise Unanswered: the first attempt of a request has no results."""
    raise Unanswered(questions)


def call_no_webhook(question: Question) -> Answer:
    """Return the result of a question in a server that calls no webhooks."""
    if isinstance(question, Computation):
        return question.carried_out()
    return ELAPSED if isinstance(question, Delay) else Answer(error="this server calls no webhooks")
