"""Protobuf encoding is that of kube-apiserver, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.schema.protobuf import ProtobufDecoder
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder, watch_event
from kcm.runtime.schema.api_types import built_in_types
from tests.runtime.apiserver.contracts import protobuf
from tests.runtime.apiserver.contracts.kinds import play
from tests.runtime.apiserver.contracts.kinds.tables import TABLES

RECORDED = protobuf.recorded()
# Objects of these kinds are not stored.
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


def test_recorded_json_is_encoded_as_recorded_protobuf(encoder: ProtobufEncoder) -> None:
    found = {name: (encoded(encoder, shown), raw) for name, (shown, raw) in RECORDED.items() if shown is not None}
    assert [name for name, (ours, theirs) in found.items() if ours != theirs] == []
    assert len(found) > 80


@pytest.mark.parametrize("name", protobuf.ANSWERED)
def test_decoded_protobuf_is_encoded_to_the_same_bytes(
    encoder: ProtobufEncoder, decoder: ProtobufDecoder, name: str
) -> None:
    _, raw = RECORDED[name]
    assert encoder.encode(decoder.decode(raw)) == raw


def test_every_kind_is_compared() -> None:
    compared = {shown["kind"] for shown, _ in RECORDED.values() if isinstance(shown, dict)}
    missing = {definition.kind for definition in BUILT_IN if definition.version == "v1"} - compared - ONLY_ANSWERED
    assert missing == {"ComponentStatus"}


def _objects() -> Iterator[Any]:
    for table in TABLES:
        for kind in json.loads((play.RESPONSES / f"{table}.json").read_text()).values():
            yield from (answer["body"] for answer in kind.values() if "body" in answer)


def test_objects_of_all_kinds_survive_encoding_and_decoding(encoder: ProtobufEncoder, decoder: ProtobufDecoder) -> None:
    compared = 0
    for found in _objects():
        obj = json.loads(json.dumps(found).replace("<time>", "2026-01-02T03:00:00Z").replace("<uid>", "u"))
        once = encoder.encode(obj)
        assert encoder.encode(decoder.decode(once)) == once
        compared += 1
    assert compared > 300


@pytest.mark.cluster
def test_recorded_bytes_are_those_of_kube_apiserver(encoder: ProtobufEncoder, tmp_path: Path) -> None:
    from tests.e2e.real_server import assets_or_skip

    found = protobuf.real_responses(tmp_path, assets_or_skip())
    assert found.keys() >= RECORDED.keys()  # new cases may not be recorded yet
    for name, (shown, raw) in found.items():
        assert shown is None or encoded(encoder, shown) == raw, name
