"""What a failed request says in the words of client-go, as they stand in conditions and events.

What the server says of itself stays; where it says nothing, as of a path that it does not know, client-go has words.

Source: apimachinery pkg/api/errors/errors.go (NewGenericServerResponse).
"""

from __future__ import annotations

import orjson

from kcm.protocols.messages.outcomes import (
    Failure,
    Forbidden,
    Invalid,
    NotFound,
    Raised,
    Refused,
    ServerFailure,
    Unknown,
)

UNAVAILABLE = 503
_WORDS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    UNAVAILABLE: "the server is currently unable to handle the request",
}


def said_by_client_go(failure: Failure, about: str) -> str:
    """about: verb, resource and name of what was asked for: "get pods.metrics.k8s.io"."""
    if isinstance(failure, Raised | Refused | Unknown) or _is_status(failure.status):
        return failure.message
    code = _code(failure)
    words = _WORDS.get(code)
    if words is None and code >= 500:
        said = failure.status.decode("utf-8", "replace").strip()
        words = f'an error on the server ("{said}") has prevented the request from succeeding'
    if words is None:
        words = f"the server responded with the status code {code} but did not return more information"
    return f"{words} ({about})"


def _is_status(body: bytes) -> bool:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(status, dict) and status.get("kind") == "Status"


def _code(failure: Failure) -> int:
    match failure:
        case Forbidden(code=code) | Invalid(code=code) | ServerFailure(code=code):
            return code
        case NotFound():
            return 404
        case _:
            return {"AlreadyExists": 409, "Conflict": 409, "Gone": 410, "Throttled": 429}[type(failure).__name__]
