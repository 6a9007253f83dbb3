"""Our protobuf is kube-apiserver's, byte for byte, of what it had in JSON; see protobuf_contract.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.schema.api_types import built_in_types
from kcm.runtime.apiserver.schema.protobuf import ProtobufDecoder
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder, watch_event
from tests.runtime.apiserver import protobuf_contract
from tests.runtime.apiserver.kind_contract import play
from tests.runtime.apiserver.kind_contract.tables import TABLES

RECORDED = protobuf_contract.recorded()
# Their objects are not kept, or the server makes them itself.
ONLY_ANSWERED = {
    *("LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectReview", "SelfSubjectRulesReview"),
    *("SubjectAccessReview", "TokenReview", "Binding"),
}


@pytest.fixture(scope="module")
def encoder() -> ProtobufEncoder:
    return ProtobufEncoder(built_in_types())


@pytest.fixture(scope="module")
def decoder() -> ProtobufDecoder:
    return ProtobufDecoder(built_in_types())


def encoded(encoder: ProtobufEncoder, shown: Any) -> bytes:
    if isinstance(shown, list):
        return b"".join(watch_event(event["type"], encoder.encode(event["object"])) for event in shown)
    return encoder.encode(shown)


def test_what_json_has_is_the_same_in_protobuf(encoder: ProtobufEncoder) -> None:
    found = {name: (encoded(encoder, shown), raw) for name, (shown, raw) in RECORDED.items() if shown is not None}
    assert [name for name, (ours, theirs) in found.items() if ours != theirs] == []
    assert len(found) > 80


@pytest.mark.parametrize("name", protobuf_contract.ANSWERED)
def test_what_was_decoded_is_encoded_to_the_same(encoder: ProtobufEncoder, decoder: ProtobufDecoder, name: str) -> None:
    _, raw = RECORDED[name]
    assert encoder.encode(decoder.decode(raw)) == raw


def test_every_kind_is_compared() -> None:
    compared = {shown["kind"] for shown, _ in RECORDED.values() if isinstance(shown, dict)}
    missing = {one.kind for one in BUILT_IN if one.version == "v1"} - compared - ONLY_ANSWERED
    assert missing == {"ComponentStatus"}


def _objects() -> Iterator[Any]:
    for table in TABLES:
        for kind in json.loads((play.ANSWERS / f"{table}.json").read_text()).values():
            yield from (answer["body"] for answer in kind.values() if "body" in answer)


def test_all_objects_of_the_kinds_tables_come_back(encoder: ProtobufEncoder, decoder: ProtobufDecoder) -> None:
    compared = 0
    for found in _objects():
        obj = json.loads(json.dumps(found).replace("<time>", "2026-01-02T03:00:00Z").replace("<uid>", "u"))
        once = encoder.encode(obj)
        assert encoder.encode(decoder.decode(once)) == once
        compared += 1
    assert compared > 300


@pytest.mark.cluster
def test_the_recorded_bytes_are_those_of_kube_apiserver(tmp_path_factory: pytest.TempPathFactory) -> None:
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import assets_or_skip, real_server

    assets = assets_or_skip()
    with real_server(tmp_path_factory.mktemp("real"), assets, *play.FLAGS) as server:
        api = Api(server.kubeconfig)

        def ask(method: str, path: str, body: Any, accept: str) -> tuple[bytes, str]:
            return protobuf_contract.real_answer(api, method, path, body, accept)

        encoder = ProtobufEncoder(built_in_types())
        found = dict(protobuf_contract.answers(ask, TABLES))
    assert found.keys() >= RECORDED.keys()  # the tables grow
    for name, (shown, raw) in found.items():
        assert shown is None or encoded(encoder, shown) == raw, name
