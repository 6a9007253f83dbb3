"""Complete responses are those of kube-apiserver, byte for byte, with the exceptions below."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.runtime.apiserver.contracts.wire import EXCHANGES, RESPONSES, responses

REAL = json.loads(RESPONSES.read_text())
# Header lines that only one of the two servers sends, and the reason.
ONLY_THERE = {
    "X-Kubernetes-Pf-Flowschema-Uid": "requests are not classified here, as none is ever queued by its flow",
    "X-Kubernetes-Pf-Prioritylevel-Uid": "the same",
}
ONLY_HERE = {"Server": "names the program; Go's server has no such line"}
DIFFERENT = {
    "get in YAML": "there are no responses in YAML",
    "get in another type": "lists what there is, which is not YAML",
    "list by a wrong selector": "names the column",
    "patch garbage in the middle": "the parser's own text, with the position",
    "patch in vain": "states which operation cannot be applied; upstream does not",
    "unknown resource": "names what is not served",
    "version": "facts of the build",
    "aggregated": "its Etag is the hash of a document that serves fewer subresources",
    "keys": "keys of ECDSA",
    "issuer": "another issuer",
    "review": "another user; upstream sets creationTimestamp",
    "access review": "fields of reviews have no managers",
    "malformed name": "the parser refuses it without a reason",
    "unknown protocol": "the same",
    "unknown coding": "the same",
    "unknown method": "the parser knows the methods",
    "asterisk": "OPTIONS * is authorized as any other request",
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    server = launch(ServerSettings(directory=tmp_path_factory.mktemp("wire") / "kcm", in_memory=True))
    try:
        yield responses(Api(server.kubeconfig))
    finally:
        server.stop()


@pytest.mark.parametrize("name", [exchange.name for exchange in EXCHANGES])
def test_response_is_that_of_kube_apiserver(ours: dict[str, str], name: str) -> None:
    assert (_comparable(ours[name]) != _comparable(REAL[name])) == (name in DIFFERENT)
    if name not in DIFFERENT:
        assert _comparable(ours[name]) == _comparable(REAL[name])


@pytest.mark.cluster
def test_recorded_responses_are_those_of_kube_apiserver(tmp_path: Path) -> None:
    from tests.e2e.real_server import assets_or_skip, real_server

    with real_server(tmp_path, assets_or_skip()) as server:
        found = responses(Api(server.kubeconfig))
    changing = {"keys", "version"}
    assert {name: text for name, text in found.items() if name not in changing} == {
        name: text for name, text in REAL.items() if name not in changing
    }


def _comparable(response: str) -> str:
    """Return the response without the headers that only one server sends, and without those that state its length.

    Go's server sends large bodies in chunks.
    """
    head, blank, body = response.partition("\r\n\r\n")
    names = "|".join((*ONLY_THERE, *ONLY_HERE))
    head = re.sub(rf"\r\n(?:{names}): [^\r]*", "", head)
    return re.sub(r"\r\n(?:Content-Length: …|Transfer-Encoding: chunked)", "", head) + blank + body
