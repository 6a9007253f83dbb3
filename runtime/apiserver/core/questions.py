"""What a request asks of others while it is carried out, as values: see outside.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple


class Post(NamedTuple):
    """A POST of JSON to a webhook. Those with equal fields are one question, with one answer.

    url: with its scheme, "https". address: (host, port) to connect to in the place of the URL's; None: the URL's.
    authority: PEM of who has signed the webhook's certificate; b"" for those that the system trusts. seconds: for the
    whole exchange.
    """

    url: str
    body: bytes
    address: tuple[str, int] | None = None
    authority: bytes = b""
    seconds: float = 10.0


class Pause(NamedTuple):
    """Nobody is asked: the request goes on after so many seconds. number: tells several of a request apart."""

    seconds: float
    number: int = 0


class Work:
    """A computation that takes long: nobody is asked, but others are served meanwhile. See long_work.py.

    Those with the same key are the same, and have the same result.
    """

    __slots__ = ("act", "key", "outside")

    def __init__(self, key: bytes, act: Callable[[], Any], outside: Outside) -> None:
        """outside: whom what it converts asks."""
        self.key, self.act, self.outside = key, act, outside

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Work) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def carried_out(self) -> Answer:
        """Carry it out at once."""
        try:
            return Answer(result=Result(self.act()))
        except Exception as err:
            return Answer(result=Result(error=err))


class Result(NamedTuple):
    """value: of a computation; error: what it raised."""

    value: Any = None
    error: Exception | None = None


Question = Post | Pause | Work


class Answer(NamedTuple):
    """status: of HTTP; 0 without a response, and then error says why. result: of a Work."""

    status: int = 0
    body: bytes = b""
    error: str = ""
    result: Result | None = None


PAUSED = Answer()
Ask = Callable[[Question], Answer]
Outside = Callable[[Sequence[Question]], list[Answer]]
"""The answers in the order of the questions. Raises Unanswered where one is missing."""


class Unanswered(Exception):
    """A request cannot be carried out without answers to these questions."""

    def __init__(self, questions: Iterable[Question]) -> None:
        super().__init__()
        self.questions = tuple(questions)


def unanswered(questions: Sequence[Question]) -> list[Answer]:
    """The first attempt of a request has no answers."""
    raise Unanswered(questions)


def nobody_there(question: Question) -> Answer:
    """For a server that calls nobody."""
    if isinstance(question, Work):
        return question.carried_out()
    return PAUSED if isinstance(question, Pause) else Answer(error="this server calls no webhooks")
