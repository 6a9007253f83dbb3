"""Responses of injected faults, in the simulator and in a running system."""

from __future__ import annotations

import orjson

from kcm.runtime.client.api import Response
from kcm.runtime.faults.vocabulary import Fault

# Reasons as in the API server's Status; for other responses, as clients derive them from the code.
# Source: kubernetes v1.36 apimachinery/pkg/api/errors/errors.go, NewGenericServerResponse.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def no_answer(error: str, *, sent: bool = True) -> Response:
    return Response(status=0, error=error, sent=sent)


def refusal(fault: Fault) -> Response:
    """Return the response of a server, or of a proxy in front of it, that refuses a request."""
    reason = _REASONS.get(fault.status, "InternalError" if fault.status >= 500 else "Unknown")
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"injected: {reason}",
        "reason": reason,
        "code": fault.status,
    }
    return Response(status=fault.status, body=orjson.dumps(status), retry_after=fault.seconds)
