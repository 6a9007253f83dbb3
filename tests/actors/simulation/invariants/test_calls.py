"""What counts as written though it is there."""

from __future__ import annotations

from typing import Any

import pytest

from actors.simulation.invariants.calls import NothingWrittenTwice
from actors.simulation.invariants.observing import Handled
from runtime.apiserver.storage.store import MODIFIED, Change
from runtime.client.api import Request, Response

CHANGED = Change(MODIFIED, "configmaps", "d/c", 8, b'{"metadata": {}, "data": {}}', b'{"metadata": {}}')


@pytest.mark.parametrize(
    ("method", "body", "changes", "told"),
    [
        ("PUT", b"{}", [], True),
        ("PUT", b"{}", [CHANGED], False),
        ("PATCH", b'{"metadata":{"resourceVersion":"7"}}', [], True),
        ("PATCH", b'{"metadata":{"resourceVersion":"7"}}', [CHANGED], False),
        # It may be the repetition of one whose answer was lost.
        ("PATCH", b'{"metadata":{"uid":"u"}}', [], False),
    ],
)
def test_a_write_of_what_is_there_is_told(method: str, body: bytes, changes: Any, told: bool) -> None:
    failures: list[str] = []
    request = Request(method=method, path="/api/v1/namespaces/d/configmaps/c", body=body)
    handled = Handled("manager", "me", request, Response(status=200, body=b"{}"), changes)
    NothingWrittenTwice().observe(handled, failures.append)
    assert bool(failures) == told
