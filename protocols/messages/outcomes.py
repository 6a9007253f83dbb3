"""Outcomes: results of commands. An outcome is a value; a reconciler matches the outcomes that it handles.

`message` is the text of the server, `status` its metav1 Status as JSON bytes if the response contained one.
"""

from __future__ import annotations

from msgspec import Struct


class Done(Struct, frozen=True):
    """2xx. body: of the response, which is the object after the write, or a Status (for some deletions)."""

    body: bytes


class NotFound(Struct, frozen=True):
    """404."""

    message: str = ""
    status: bytes = b""


class AlreadyExists(Struct, frozen=True):
    """409 with reason AlreadyExists: an object with the name of the created one exists."""

    message: str = ""
    status: bytes = b""


class Conflict(Struct, frozen=True):
    """409 with another reason: a precondition (resourceVersion, uid) is not met."""

    message: str = ""
    status: bytes = b""


class Forbidden(Struct, frozen=True):
    """401 or 403: the server refused the request.

    Reasons are authentication, RBAC, admission (quota), and a terminating namespace.
    """

    message: str = ""
    status: bytes = b""
    code: int = 403


class Invalid(Struct, frozen=True):
    """400, 405, 415, 422 and other 4xx: the request itself is invalid; a retry fails again."""

    message: str = ""
    status: bytes = b""
    code: int = 422


class Gone(Struct, frozen=True):
    """410: the resourceVersion is too old."""

    message: str = ""
    status: bytes = b""


class Throttled(Struct, frozen=True):
    """429, after the client's own retries. retry_after: seconds; 0 if the response had no Retry-After."""

    message: str = ""
    status: bytes = b""
    retry_after: float = 0.0


class ServerFailure(Struct, frozen=True):
    """5xx."""

    message: str = ""
    status: bytes = b""
    code: int = 500


class Unknown(Struct, frozen=True):
    """No response: a timeout or a broken connection. The write may have been applied."""

    message: str = ""


class Refused(Struct, frozen=True):
    """The command was not sent: the sender is fenced, the lease is not held, or no thread was free for a call."""

    message: str = ""


class Raised(Struct, frozen=True):
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


class Settled(Struct, frozen=True):
    """The outcome of one command of a Submit. Dispatcher → the sender."""

    ticket: int
    index: int
    outcome: Outcome
