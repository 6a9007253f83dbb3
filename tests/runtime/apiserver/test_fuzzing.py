"""Random requests, in process and over HTTP: each is rejected or carried out.

To send a million: `python -m tests.runtime.apiserver.fuzzing`.
"""

from __future__ import annotations

import http.client
import random
import ssl
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.runtime.apiserver.fuzzing import AS_UPSTREAM, Fuzzer, run

REQUESTS = 3000


def test_random_requests_are_rejected_or_carried_out() -> None:
    counted, _ = run(REQUESTS, seed=7)
    assert sum(counted.values()) == REQUESTS
    assert min(counted["200"], counted["201"], counted["422"]) > 100  # the requests have different results


@settings(max_examples=15, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_requests_of_hypothesis_are_rejected_or_carried_out(chance: random.Random) -> None:
    fuzzer = Fuzzer(chance)
    for _ in range(5):
        fuzzer.step()


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_300_000_random_requests_are_rejected_or_carried_out() -> None:
    counted, _ = run(300_000, seed=8)
    assert sum(counted.values()) == 300_000


def test_every_random_request_over_http_gets_a_response(tmp_path: Path) -> None:
    """The requests are drawn from the state of a second server, in this process, that receives the same requests."""
    server = launch(ServerSettings(directory=tmp_path / "kcm", in_memory=True))
    try:
        api = Api(server.kubeconfig)
        assert isinstance(api.tls, ssl.SSLContext)
        host, port = api.url.removeprefix("https://").split(":")
        connection = http.client.HTTPSConnection(host, int(port), context=api.tls, timeout=20)
        fuzzer = Fuzzer(random.Random(9))
        for number in range(400):
            request, _ = fuzzer.request()
            fuzzer.server.handle(request)
            target = quote(request.path, safe="/%:.~")
            if request.query:
                target += f"?{urlencode(request.query)}"
            accept = fuzzer.any_of("application/json", "*/*", "application/yaml", "text/html", "")
            accept = fuzzer.any_of(accept, "application/json;as=Table;g=meta.k8s.io;v=v1")
            headers = {"Authorization": f"Bearer {api.token}", "Accept": accept}
            type_ = fuzzer.any_of(request.content_type, request.content_type, "application/yaml", "application/cbor")
            connection.request(request.method, target, request.body, {**headers, "Content-Type": type_})
            response = connection.getresponse()
            answer = response.read()
            allowed = any(text.encode() in answer for text in AS_UPSTREAM)
            assert response.status < 500 or allowed, (number, request, answer)
        connection.close()
    finally:
        server.stop()
