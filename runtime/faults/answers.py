"""The responses that injected faults cause, in the simulator and in a running system."""

from __future__ import annotations

import orjson

from runtime.client.api import Response
from runtime.faults.vocabulary import Fault

_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 504: "Timeout"}


def no_answer(error: str, *, sent: bool = True) -> Response:
    return Response(status=0, error=error, sent=sent)


def refusal(fault: Fault) -> Response:
    """The response of a server, or of a proxy before it, that refuses a request."""
    reason = _REASONS.get(fault.status, "InternalError")
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
