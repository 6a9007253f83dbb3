"""Error responses of injected faults."""

from __future__ import annotations

import orjson
import pytest

from kcm.runtime.faults.answers import refusal
from kcm.runtime.faults.vocabulary import Fault, FaultKind


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (409, "Conflict"),
        (410, "Expired"),
        (418, "Unknown"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (502, "InternalError"),
        (503, "ServiceUnavailable"),
    ],
)
def test_text_of_an_injected_error_fits_its_status(status: int, reason: str) -> None:
    body = orjson.loads(refusal(Fault(kind=FaultKind.COMMAND_ANSWERED, status=status)).body)
    assert (body["code"], body["reason"], body["message"]) == (status, reason, f"injected: {reason}")
