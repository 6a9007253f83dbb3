"""Cost of hostile input: a few cases in process, where allocated bytes are counted, and many on a server process.

For a longer run: `python -m tests.runtime.apiserver.hostile --seconds 1800`.
"""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from kcm.runtime.apiserver.core.questions import ELAPSED, Answer, Post, Question
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.errors.warnings import LONGEST, MOST_TEXT, Warnings
from kcm.runtime.apiserver.presentation.request_bodies import RequestBodies
from kcm.runtime.apiserver.storage.sizes import MOST_STORED
from kcm.runtime.client.api import Request, Response
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.hostile import APPLY, LONGEST_ANSWER, YAML, Cases, Sent, hostile_response, run

SIZE = 300  # elements; the long run sends more
MAX_MEMORY = 60_000_000  # bytes in use at the same time during a case


def ask(question: Question) -> Answer:
    """Return the response of the webhook, decompressed. Another test covers the limit of its size."""
    if not isinstance(question, Post):
        return ELAPSED
    seed = int(question.url.partition("?")[0].rpartition("/")[2])
    body, encoding = hostile_response(seed, json.loads(question.body))
    if encoding or len(body) > 8 * 1024 * 1024:
        return Answer(error=f'Post "{question.url}": the response is too large')
    return Answer(200, body)


def send(api: Api, sent: Sent) -> Response | None:
    """Send a request. Returns None if the body is rejected before the request is handled."""
    path, _, query = sent.path.partition("?")
    body = sent.body
    if sent.type in (YAML, APPLY):
        try:
            body = RequestBodies(None, None).read(sent.method, sent.type, body).json  # type: ignore[arg-type]
        except StatusError:
            return None
    request = Request(method=sent.method, path=path, query=dict(parse_qsl(query)), body=body, content_type=sent.type)
    return api.server.handle(request)


def check(sent: Sent, response: Response) -> None:
    assert len(response.body) < 4 * len(sent.body) + LONGEST_ANSWER // 10, (sent.method, sent.path)
    assert b"see the server's log" not in response.body
    shown = Warnings(response.warnings).shown()
    assert sum(map(len, shown)) <= MOST_TEXT + LONGEST


def test_hostile_input_causes_bounded_memory_and_responses() -> None:
    api = Api(call_webhook=ask)
    cases = Cases(4, size=SIZE, hook="https://127.0.0.1", authority=b"")
    tracemalloc.start()
    try:
        for _ in range(30):
            name, sent = cases.next()
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            for each in sent:
                response = send(api, each)
                if response is not None:
                    check(each, response)
            assert tracemalloc.get_traced_memory()[1] - before < MAX_MEMORY, name
    finally:
        tracemalloc.stop()
    for _, collection in api.server._state.collections():
        assert all(len(raw) <= 6 * MOST_STORED for raw in collection.raw_objects())


def test_the_same_seed_draws_the_same_cases() -> None:
    drawn: list[list[Any]] = []
    for _ in range(2):
        cases = Cases(7, size=SIZE, hook="https://127.0.0.1")
        drawn.append([cases.next() for _ in range(20)])
    assert drawn[0] == drawn[1]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hostile_input_neither_delays_other_clients_nor_fills_the_memory(tmp_path: Path) -> None:
    found = run(240, seed=3, size=60_000, patience=4.0, memory=500_000_000, directory=tmp_path, tell=print)
    assert not found.troubles
