"""Questions of suspended requests, and their results. See suspended_requests.py.

A question is something that a request needs before it can continue: the response of a webhook (Post), the end of a
pause (Delay), or the result of a long computation (Computation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple


class Post(NamedTuple):
    """Call of a webhook: a POST request with JSON. Equal posts of one request are sent once."""

    url: str  # with the scheme https
    body: bytes
    address: tuple[str, int] | None = None  # (host, port) to connect to; None: the URL's
    authority: bytes = b""  # CA certificates in PEM; b"" for the system's CA certificates
    seconds: float = 10.0  # timeout of the whole exchange


class Delay(NamedTuple):
    """Pause after which the request continues."""

    seconds: float
    number: int = 0  # distinguishes several pauses of one request


class Computation:
    """Long computation, during which other requests are served: see long_computations.py.

    key: digest of its inputs. Computations with the same key are equal and have the same result.
    act: carries the computation out and returns its result.
    outside: `Cluster.outside` of the request.
    """

    __slots__ = ("act", "key", "outside")

    def __init__(self, key: bytes, act: Callable[[], Any], outside: Outside) -> None:
        self.key, self.act, self.outside = key, act, outside

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Computation) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def carried_out(self) -> Answer:
        """Carry the computation out without a pause, and return its result or its exception."""
        try:
            return Answer(result=Result(self.act()))
        except Exception as err:
            return Answer(result=Result(error=err))


class Result(NamedTuple):
    """Result of a computation. error: the exception that it raised, or None."""

    value: Any = None
    error: Exception | None = None


Question = Post | Delay | Computation


class Answer(NamedTuple):
    """Result of a question: the response to a Post, the result of a Computation, or ELAPSED after a Delay."""

    status: int = 0  # HTTP status; 0 without a response
    body: bytes = b""
    error: str = ""  # reason if there is no response
    result: Result | None = None  # result of a Computation; None for other questions


ELAPSED = Answer()
CallWebhook = Callable[[Question], Answer]
Outside = Callable[[Sequence[Question]], list[Answer]]
"""Returns the results of questions, in their order. Raises Unanswered if a result is not yet known."""


class Unanswered(Exception):
    """Suspends a request until the results of its questions are known. This is control flow, not an error."""

    def __init__(self, questions: Iterable[Question]) -> None:
        super().__init__()
        self.questions = tuple(questions)


def unanswered(questions: Sequence[Question]) -> list[Answer]:
    """Raise Unanswered if there are questions. Used in the first attempt of a request, when no results are known."""
    if questions:
        raise Unanswered(questions)
    return []


def call_no_webhook(question: Question) -> Answer:
    """Return the result of a question in a server that calls no webhooks: a Post fails, a Delay ends at once."""
    if isinstance(question, Computation):
        return question.carried_out()
    return ELAPSED if isinstance(question, Delay) else Answer(error="this server calls no webhooks")
