"""Outcomes: results of commands. An outcome is a value; a reconciler matches the outcomes that it handles.

`message` is the text of the server, `status` its metav1 Status as JSON bytes if the response contained one.
"""

from __future__ import annotations

from kcm.protocols.messages.message import Message


class Done(Message, frozen=True, tag=20):
    """2xx. body: of the response, which is the object after the write, or a Status (for some deletions)."""

    body: bytes


class NotFound(Message, frozen=True, tag=21):
    """404."""

    message: str = ""
    status: bytes = b""


class AlreadyExists(Message, frozen=True, tag=22):
    """409 with reason AlreadyExists: an object with the name of the created one exists."""

    message: str = ""
    status: bytes = b""


class Conflict(Message, frozen=True, tag=23):
    """409 with another reason: a precondition (resourceVersion, uid) is not met."""

    message: str = ""
    status: bytes = b""


class Forbidden(Message, frozen=True, tag=24):
    """401 or 403: the server refused the request.

    Reasons are authentication, RBAC, admission (quota), and a terminating namespace.
    """

    message: str = ""
    status: bytes = b""
    code: int = 403


class Invalid(Message, frozen=True, tag=25):
    """400, 405, 415, 422 and other 4xx: the request itself is invalid; a retry fails again."""

    message: str = ""
    status: bytes = b""
    code: int = 422


class Gone(Message, frozen=True, tag=26):
    """410: the resourceVersion is too old."""

    message: str = ""
    status: bytes = b""


class Throttled(Message, frozen=True, tag=27):
    """429, after the client's own retries. retry_after: seconds; 0 if the response had no Retry-After."""

    message: str = ""
    status: bytes = b""
    retry_after: float = 0.0


class ServerFailure(Message, frozen=True, tag=28):
    """5xx."""

    message: str = ""
    status: bytes = b""
    code: int = 500


class Unknown(Message, frozen=True, tag=29):
    """No response: a timeout or a broken connection. The write may have been applied."""

    message: str = ""


class Refused(Message, frozen=True, tag=30):
    """The command was not sent: the sender is fenced, the lease is not held, or no thread was free for a call."""

    message: str = ""


class Raised(Message, frozen=True, tag=32):
    """A function that was called outside the actors raised an exception (calls.py).

    kinds: qualified names of the exception's class and its base classes, most specific first, up to Exception.
    message: "KeyError: 'u1'".
    where: the line that raised it, "directory.py:12 in remove"; "" if unknown.
    """

    kinds: tuple[str, ...]
    message: str = ""
    where: str = ""

    def is_a(self, error: type[BaseException]) -> bool:
        """Report whether `except error` would have caught the exception."""
        return error is Exception or qualified_name(error) in self.kinds


def qualified_name(error: type[BaseException]) -> str:
    return error.__qualname__ if error.__module__ == "builtins" else f"{error.__module__}.{error.__qualname__}"


Failure = (
    NotFound
    | AlreadyExists
    | Conflict
    | Forbidden
    | Invalid
    | Gone
    | Throttled
    | ServerFailure
    | Unknown
    | Refused
    | Raised
)
Outcome = Done | Failure
OUTCOMES: tuple[type[Outcome], ...] = (
    Done,
    NotFound,
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    Gone,
    Throttled,
    ServerFailure,
    Unknown,
    Refused,
    Raised,
)


FAILURES = tuple(outcome for outcome in OUTCOMES if outcome is not Done)


class Settled(Message, frozen=True, tag=31):
    """The outcome of one command of a Submit. Dispatcher → the sender."""

    ticket: int
    index: int
    outcome: Outcome
