"""Decoding of webhook responses, and the errors of Go's client for invalid ones.

Source: client-go rest/request.go, apimachinery pkg/api/errors/errors.go, NewGenericServerResponse (v1.36).
"""

from __future__ import annotations

from typing import Any

import orjson

from kcm.runtime.apiserver.core.go_structs import Decode
from kcm.runtime.apiserver.core.questions import Answer
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.schema.scalars import json_type

_VERSION_AND_KIND = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_STATUSES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


class UnansweredError(Exception):
    """Failed call of a webhook: no response, or an invalid response. The text is that of Go's client."""


def review_in(answer: Answer, decode: Decode) -> dict[str, Any]:
    """Decode the review in the response of a webhook, such as an AdmissionReview. Raises UnansweredError.

    decode: decoder of the review's Go struct, see go_structs.py.
    """
    if answer.error:
        raise UnansweredError(answer.error)
    try:
        whole = orjson.loads(answer.body) if answer.body.strip() else None
    except ValueError as err:
        whole = err
    if not 200 <= answer.status <= 206:
        if isinstance(whole, dict) and whole.get("kind") == "Status" and whole.get("status") != "Success":
            raise UnansweredError(whole.get("message") or "")
        raise UnansweredError(_status_text(answer.status, answer.body.decode(errors="replace").strip()))
    if isinstance(whole, Exception):
        raise UnansweredError(f"couldn't get version/kind; json parse error: {whole}")
    if whole is None:
        whole = {}
    problem = ""
    if not isinstance(whole, dict):
        problem = f"json: cannot unmarshal {json_type(whole)} into Go value of type {_VERSION_AND_KIND}"
    else:
        for field in ("kind", "apiVersion"):
            value = whole.get(field)
            if value is not None and not isinstance(value, str):
                problem = f"json: cannot unmarshal {json_type(value)} into Go struct field .{field} of type string"
    if problem:
        raise UnansweredError(f"couldn't get version/kind; json parse error: {problem}")
    try:
        review: dict[str, Any] = decode(whole, "", "")
    except ValueError as err:
        raise UnansweredError(str(err)) from err
    return review


def _status_text(code: int, body: str) -> str:
    if code in (403, 406, 415):
        return body or "unknown"
    if code in _STATUSES:
        return _STATUSES[code]
    if code >= 500:
        return f"an error on the server ({quoted(body or 'unknown')}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"
