import asyncio
import struct
from base64 import b64decode
from typing import Any

import aiohttp
import pytest

from kcm.runtime.apiserver.presentation.protobuf_cache import ProtobufCache
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.schema.protobuf import ProtobufDecoder
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder
from kcm.runtime.apiserver.server.event_loop import round_robin
from kcm.runtime.schema.api_types import built_in_types
from tests.runtime.apiserver.http.served import PODS, RESOURCES, Answer, Served, run

PROTOBUF, JSON = "application/vnd.kubernetes.protobuf", "application/json"
CLIENT_GO = {"Accept": f"{PROTOBUF},{JSON}"}
PARTIAL = {"Accept": f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"}
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
WIDGET = ResourceDefinition(group="example.com", plural="widgets", kind="Widget", dynamic=True)

DECODER = ProtobufDecoder(built_in_types())


def decoded(raw: bytes) -> dict[str, Any]:
    return DECODER.decode(raw)


async def events(response: aiohttp.ClientResponse, count: int) -> list[tuple[str, bytes]]:
    """Return the type of each event, and its object in the envelope."""
    found = []
    for _ in range(count):
        (size,) = struct.unpack(">I", await response.content.readexactly(4))
        frame = await response.content.readexactly(size)
        assert frame[0] == 0x0A  # field 1, the type
        type_ = frame[2 : 2 + frame[1]].decode()
        found.append((type_, frame[frame.index(b"k8s\0") :]))
    return found


def test_preferred_protobuf_is_returned_for_every_verb() -> None:
    encoded = "azhzAAoJCgJ2MRIDUG9kEhMKAwoBYRIMEgoKAWMSAWlqAHIA"  # the pod "a" with one container

    async def scenario(served: Served) -> None:
        async def ask(method: str, path: str, **options: Any) -> dict[str, Any]:
            answer = await served.ask(method, path, headers=CLIENT_GO | options.pop("headers", {}), **options)
            assert answer.headers["Content-Type"] == PROTOBUF
            return decoded(answer.raw)

        created = await ask("POST", PODS, data=b64decode(encoded), headers={"Content-Type": PROTOBUF})
        assert created["spec"]["containers"][0]["image"] == "i"
        patch = {"metadata": {"labels": {"a": "b"}}}
        patched = await ask("PATCH", f"{PODS}/a", json=patch, headers={"Content-Type": "application/merge-patch+json"})
        assert patched["metadata"]["labels"] == {"a": "b"}
        assert await ask("GET", f"{PODS}/a") == patched
        found = await ask("GET", PODS)
        assert (found["kind"], [item["metadata"]["name"] for item in found["items"]]) == ("PodList", ["a"])
        assert found["metadata"]["resourceVersion"] == str(served.api.revision)
        deleted = await ask("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
        assert deleted["kind"] in ("Pod", "Status")
        assert (await ask("GET", f"{PODS}/a"))["reason"] == "NotFound"

    run(scenario)


def test_other_requests_are_handled_while_a_long_list_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_robin, "TIME_SLICE", 0.0)  # one object in each turn

    async def scenario(served: Served) -> None:
        for number in range(300):
            await served.create(f"p{number:03}")
        ended = []

        async def ask(path: str) -> Answer:
            answer = await served.get(path, headers=CLIENT_GO)
            ended.append(path)
            return answer

        listed, _ = await asyncio.gather(ask(PODS), ask(f"{PODS}/p007"))
        assert ended == [f"{PODS}/p007", PODS]
        assert len(decoded(listed.raw)["items"]) == 300

    run(scenario)


def test_protobuf_watch_delivers_frames() -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        watch = f"{served.url}{PODS}?watch=true"
        async with served.session.get(watch, headers=CLIENT_GO) as first, served.session.get(watch) as second:
            assert first.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
            assert second.headers["Content-Type"] == JSON
            await served.create("b")
            await served.ask("DELETE", f"{PODS}/b?gracePeriodSeconds=0")
            found = [(type_, decoded(raw)["metadata"]["name"]) for type_, raw in await events(first, 3)]
            assert found == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "b")]

    run(scenario)


def test_protobuf_watch_of_metadata_and_protobuf_error() -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        async with served.session.get(f"{served.url}{PODS}?watch=true", headers=PARTIAL) as response:
            ((type_, raw),) = await events(response, 1)
            assert (type_, b"PartialObjectMetadata" in raw, b"nginx" in raw) == ("ADDED", True, False)
        refused = await served.get(f"{PODS}?watch=true&timeoutSeconds=x", headers=CLIENT_GO)
        assert (refused.status, decoded(refused.raw)["reason"]) == (400, "BadRequest")

    run(scenario)


def test_custom_resources_are_json_except_their_metadata() -> None:
    async def scenario(served: Served) -> None:
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": 1}}
        created = await served.ask("POST", WIDGETS, json=widget, headers=CLIENT_GO)
        assert (created.status, created.headers["Content-Type"]) == (201, JSON)
        refused = await served.get(f"{WIDGETS}/w", headers={"Accept": PROTOBUF})
        assert (refused.status, refused.headers["Content-Type"]) == (406, PROTOBUF)
        assert decoded(refused.raw)["reason"] == "NotAcceptable"
        partial = await served.get(f"{WIDGETS}/w", headers=PARTIAL)
        assert partial.headers["Content-Type"] == PROTOBUF
        missing = await served.get(f"{WIDGETS}/none", headers=CLIENT_GO)
        assert decoded(missing.raw)["code"] == 404

    run(scenario, resources=(*RESOURCES, WIDGET))


def test_large_responses_are_compressed() -> None:
    async def scenario(served: Served) -> None:
        annotations = {"text": "x" * 200_000}
        await served.create("a", metadata={"name": "a", "annotations": annotations})
        answer = await served.get(f"{PODS}/a", headers=CLIENT_GO)
        assert answer.headers["Content-Encoding"] == "gzip"
        assert decoded(answer.raw)["metadata"]["annotations"] == annotations

    run(scenario)


def test_an_object_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(served: Served) -> None:
        encoded: list[str] = []
        message = ProtobufEncoder.message

        def counting(self: ProtobufEncoder, obj: Any, api_version: str, kind: str) -> bytes:
            encoded.append(kind)
            return message(self, obj, api_version, kind)

        monkeypatch.setattr(ProtobufEncoder, "message", counting)
        watch = f"{served.url}{PODS}?watch=true"
        async with (
            served.session.get(watch, headers=CLIENT_GO) as first,
            served.session.get(watch, headers=CLIENT_GO) as second,
        ):
            await served.create("a")
            assert await events(first, 1) == await events(second, 1)
            await served.get(PODS, headers=CLIENT_GO)
        assert encoded.count("Pod") == 1

    run(scenario)


def test_oldest_encodings_are_evicted_first() -> None:
    encodings = ProtobufCache(ProtobufEncoder(built_in_types()), most=700)
    meta = b'{"name":"%d","resourceVersion":"1"}'
    raws = [
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":%b,"data":{"a":"%b"}}' % (meta % i, b"x" * 80)
        for i in range(3)
    ]
    first = encodings.of(raws[0])
    assert encodings.of(raws[0]) is first
    for raw in raws[1:]:
        encodings.of(raw)
    assert encodings.of(raws[0]) is not first
    assert encodings.of(raws[0]) == first


def test_object_that_is_not_stored_is_not_cached() -> None:
    encodings = ProtobufCache(ProtobufEncoder(built_in_types()))
    token = b'{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","metadata":{},"status":{"token":"secret"}}'
    assert encodings.of(token) is not encodings.of(token)
