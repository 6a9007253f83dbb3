"""Webhook calls over HTTPS do not block other requests."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.discovery import endpoint_slice
from kcm.runtime.apiserver.storage.store import MemoryStore
from tests.runtime.apiserver.contracts.admission_webhooks import hook
from tests.runtime.apiserver.converters import Converter
from tests.runtime.apiserver.core.test_conversion import V1, V2, definition, thing
from tests.runtime.apiserver.http.served import Served, serving
from tests.runtime.apiserver.webhooks import ANSWERS, BODIES, Hook, Review
from tests.runtime.apiserver.webhooks import serving as listening

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def configure(served: Served, url: str, authority: bytes, **more: Any) -> None:
    webhook = hook(url, name="hook.example.com", **more)
    webhook["clientConfig"]["caBundle"] = base64.b64encode(authority).decode()
    made = await served.ask("POST", CONFIGURATIONS, json={"metadata": {"name": "hooks"}, "webhooks": [webhook]})
    assert made.status == 201, made.json


def run(scenario: Any, directory: Path) -> None:
    async def serve() -> None:
        asked = Hook()
        with listening(asked, directory) as (url, authority):
            async with serving(MemoryStore(), BUILT_IN) as served:
                await scenario(served, asked, url, authority)

    asyncio.run(serve())


def new(name: str) -> dict[str, Any]:
    return {"json": {"metadata": {"name": name}}}


def test_webhook_changes_the_created_object(tmp_path: Path) -> None:
    async def scenario(served: Served, asked: Hook, url: str, authority: bytes) -> None:
        await configure(served, f"{url}/label-a", authority)
        made = await served.ask("POST", CONFIG_MAPS, **new("c"))
        assert (made.status, made.json["metadata"]["labels"]) == (201, {"a": "yes"})
        assert (await served.get(f"{CONFIG_MAPS}/c")).json["metadata"]["labels"] == {"a": "yes"}
        assert [request["userInfo"]["username"] for _, request in asked.heard] == ["admin"]

    run(scenario, tmp_path)


def test_warnings_of_a_webhook_are_response_headers(tmp_path: Path) -> None:
    async def scenario(served: Served, _asked: Hook, url: str, authority: bytes) -> None:
        await configure(served, f"{url}/warn", authority)
        made = await served.ask("POST", CONFIG_MAPS, **new("c"))
        assert made.headers.getall("Warning") == ['299 - "mind the gap"']

    run(scenario, tmp_path)


def test_other_requests_are_served_during_a_webhook_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    came, may_answer = threading.Event(), threading.Event()

    def think(_review: Review) -> dict[str, Any]:
        came.set()
        assert may_answer.wait(20)
        return {"allowed": True}

    monkeypatch.setitem(ANSWERS, "/think", think)

    async def scenario(served: Served, _asked: Hook, url: str, authority: bytes) -> None:
        await configure(served, f"{url}/think", authority)
        slow = asyncio.create_task(served.ask("POST", CONFIG_MAPS, **new("slow")))
        await asyncio.to_thread(came.wait, 20)
        assert (await served.get(f"{CONFIG_MAPS}/slow")).status == 404
        assert (await served.ask("POST", "/api/v1/namespaces/default/secrets", **new("quick"))).status == 201
        may_answer.set()
        assert (await slow).status == 201

    run(scenario, tmp_path)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/large", "the response is larger than 8388608 bytes"),
        ("/bomb", "the response is larger than 8388608 bytes"),
        ("/cut-gzip", "unexpected EOF"),
        ("/no-gzip", "gzip: Error -3 while decompressing data: incorrect header check"),
    ],
)
def test_answer_of_a_webhook_is_read_up_to_a_limit(tmp_path: Path, path: str, why: str) -> None:
    async def scenario(served: Served, _asked: Hook, there: str, authority: bytes) -> None:
        await configure(served, f"{there}{path}", authority)
        BODIES[path]()  # built in advance: the call has a timeout
        tracemalloc.start()
        try:
            refused = await served.ask("POST", CONFIG_MAPS, **new("c"))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 150_000_000  # includes the copies of the webhook in this process
        assert refused.status == 500
        assert refused.json["message"].endswith(f'failed to call webhook: Post "{there}{path}?timeout=10s": {why}')

    run(scenario, tmp_path)


@pytest.mark.parametrize("code", [499, 600, 999, 1000, 2**31 - 1])
def test_webhook_refuses_with_any_code(tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"allowed": False, "status": {"message": "no", "code": code}}
    monkeypatch.setitem(ANSWERS, "/code", lambda _review: answer)

    async def scenario(served: Served, _asked: Hook, there: str, authority: bytes) -> None:
        await configure(served, f"{there}/code", authority)
        refused = await served.ask("POST", CONFIG_MAPS, **new("c"))
        assert refused.status == (code if code < 1000 else 500)
        assert refused.json["message"] == 'admission webhook "hook.example.com" denied the request: no'
        assert not served.logs.entries

    run(scenario, tmp_path)


@pytest.mark.parametrize(
    ("url", "trusted", "why"),
    [
        ("https://127.0.0.1:1/x", True, "dial tcp 127.0.0.1:1: connect: connection refused"),
        ("", False, "tls: failed to verify certificate: x509: certificate signed by unknown authority"),
    ],
)
def test_failed_call_returns_the_error_text_of_go(tmp_path: Path, url: str, trusted: bool, why: str) -> None:
    async def scenario(served: Served, _asked: Hook, there: str, authority: bytes) -> None:
        called = url or f"{there}/allow"
        await configure(served, called, authority if trusted else b"")
        refused = await served.ask("POST", CONFIG_MAPS, **new("c"))
        assert refused.status == 500
        assert refused.json["message"] == (
            'Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook: '
            f'Post "{called}?timeout=10s": {why}'
        )

    run(scenario, tmp_path)


def test_a_service_is_called_at_its_endpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_slice, "wrong_endpoint_address", lambda *_: [])  # the webhook is on loopback

    async def scenario(served: Served, asked: Hook, url: str, authority: bytes) -> None:
        port = int(url.rpartition(":")[2])
        service = {"metadata": {"name": "localhost"}, "spec": {"ports": [{"port": 443, "targetPort": port}]}}
        endpoints = {
            "metadata": {"name": "localhost-1", "labels": {"kubernetes.io/service-name": "localhost"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": False}}, {"addresses": ["127.0.0.1"]}],
            "ports": [{"name": "", "port": port}],
        }
        assert (await served.ask("POST", "/api/v1/namespaces/default/services", json=service)).status == 201
        slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        made = await served.ask("POST", slices, json=endpoints)
        assert made.status == 201, made.json
        named = {"name": "localhost", "namespace": "default", "path": "/allow"}
        await configure(served, "", authority, clientConfig={"service": named})
        refused = await served.ask("POST", CONFIG_MAPS, **new("c"))
        # The certificate is not valid for localhost.default.svc.
        assert "certificate is not valid for the requested host name" in refused.json["message"]
        assert asked.heard == []

    run(scenario, tmp_path)


def test_watch_events_are_converted_by_a_webhook(tmp_path: Path) -> None:
    asked = Converter()

    async def scenario(url: str, authority: bytes) -> None:
        async with serving(MemoryStore(), BUILT_IN) as served:
            body = definition(f"{url}/convert")
            client = body["spec"]["conversion"]["webhook"]["clientConfig"]
            client["caBundle"] = base64.b64encode(authority).decode()
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            assert (await served.ask("POST", definitions, json=body)).status == 201
            assert (await served.ask("POST", V1, json=thing("a"))).status == 201
            async with served.session.get(f"{served.url}{V2}?watch=1") as events:
                first = json.loads(await events.content.readline())
                assert first["object"]["spec"] == {"hostPort": "h:"}
                assert (await served.ask("POST", V1, json=thing("b"))).status == 201
                second = json.loads(await events.content.readline())
                assert (second["type"], second["object"]["apiVersion"]) == ("ADDED", "example.com/v2")

    with listening(asked, tmp_path) as (url, authority):
        asyncio.run(scenario(url, authority))


def test_every_request_for_a_deprecated_version_returns_a_warning(tmp_path: Path) -> None:
    async def scenario(served: Served, _asked: Hook, url: str, _authority: bytes) -> None:
        body = definition(url, deprecated=True, deprecationWarning="use v1")
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await served.ask("POST", definitions, json=body)).status == 201
        warned = [(await served.get(path)).headers.get("Warning") for path in (V1, V2, f"{V2}/none")]
        assert warned == [None, '299 - "use v1"', '299 - "use v1"']
        async with served.session.get(f"{served.url}{V2}?watch=1&timeoutSeconds=1") as events:
            assert events.headers["Warning"] == '299 - "use v1"'

    run(scenario, tmp_path)
