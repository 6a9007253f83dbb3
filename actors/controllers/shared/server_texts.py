"""Error texts of failed requests as in client-go, for conditions and events.

The message of a Status object from the server is used unchanged. For a response without a Status, such as the 404 of an
unknown path, client-go has its own texts, which this module contains.

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
_TEXTS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    UNAVAILABLE: "the server is currently unable to handle the request",
}


def client_go_message(failure: Failure, about: str) -> str:
    """Return the error message that client-go would have for a failed request.

    about: verb, resource and name of the request, such as "get pods.metrics.k8s.io".
    """
    if isinstance(failure, Raised | Refused | Unknown) or _is_status(failure.status):
        return failure.message
    code = _code(failure)
    text = _TEXTS.get(code)
    if text is None and code >= 500:
        body = failure.status.decode("utf-8", "replace").strip()
        text = f'an error on the server ("{body}") has prevented the request from succeeding'
    if text is None:
        text = f"the server responded with the status code {code} but did not return more information"
    return f"{text} ({about})"


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
