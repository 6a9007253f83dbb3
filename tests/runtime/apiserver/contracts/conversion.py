"""Versions of custom kinds: conversion of objects, and warnings and errors for clients."""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import orjson

from kcm.runtime.apiserver.storage.watches import CacheWatcher
from kcm.runtime.client.api import Request
from tests.runtime.apiserver.conftest import Api, Listener
from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.contract import Contract, webhook_server
from tests.runtime.apiserver.contracts.custom_resources import (
    ANY,
    DEFINITIONS,
    NAME,
    STRING,
    Body,
    Step,
    array,
    defining,
    definition,
    obj,
    version,
    widget,
)
from tests.runtime.apiserver.contracts.requests import APPLY, JSON, JSON_PATCH, MERGE, Given
from tests.runtime.apiserver.converters import MISTAKES, RESPONSES, Converter

UNREACHED = "https://127.0.0.1:1/x"
WATCH = "WATCH"  # a GET that ends when no more events arrive

V1 = obj(spec=obj(host=STRING, port={**STRING, "default": "80"}, tags=array(STRING)))
V2 = obj(spec=obj(hostPort=STRING, tier={**STRING, "default": "low"}, tags=array(STRING)))


def by_webhook(path: str = "/convert", *reviews: str, **client: Any) -> Body:
    reached = client or {"url": path if path.startswith("https:") else f"$url{path}"}
    webhook = {"conversionReviewVersions": list(reviews) or ["v1"], "clientConfig": {**reached, "caBundle": "$bundle"}}
    return {"strategy": "Webhook", "webhook": webhook}


def versions(stored: str = "v1", **of_v2: Any) -> list[Body]:
    return [version(V1, storage=stored == "v1"), version(V2, "v2", storage=stored == "v2", **of_v2)]


def kind(path: str = "/convert", *reviews: str, stored: str = "v1", **of_v2: Any) -> Step:
    return defining(definition(*versions(stored, **of_v2), conversion=by_webhook(path, *reviews)))


def at(api: str, name: str = "") -> str:
    return f"{api}/namespaces/contract/widgets/{name}".rstrip("/")


def make(api: str, name: str, **fields: Any) -> Step:
    return ("POST", at(api), widget(name, api, **fields))


def get(api: str, name: str = "", **query: str) -> Step:
    return ("GET", at(api, name), None, JSON, query)


def patch(api: str, name: str, body: Any, type_: str = MERGE, **query: str) -> Step:
    return ("PATCH", at(api, name), body, type_, query)


def apply(api: str, name: str, manager: str, **fields: Any) -> Step:
    query = {"fieldManager": manager}
    force = fields.pop("force", "")
    return patch(api, name, widget(name, api, **fields), APPLY, **query, **({"force": force} if force else {}))


def watch(api: str, **query: str) -> Step:
    return (WATCH, at(api), None, JSON, {"watch": "1", "timeoutSeconds": "1", **query})


def redefine(body: Body) -> Step:
    return ("PATCH", f"{DEFINITIONS}/{NAME}", body, MERGE)


ANYTHING = {"type": "object", **ANY}
OF_V1 = {"host": "a.example.com", "port": "8080"}
OF_V2 = {"hostPort": "b.example.com:9090"}


def wrong(path: str) -> list[Step]:
    """Return the steps for a faulty webhook. Only requests for another version than the stored one are affected."""
    return [
        kind(path),
        make("v1", "w", spec=OF_V1),
        get("v1", "w"),
        get("v2", "w"),
        make("v2", "x", spec=OF_V2),
        patch("v1", "w", {"spec": {"port": "1"}}),
        patch("v2", "w", {"spec": {"tier": "high"}}),
        ("DELETE", at("v1", "w")),
    ]


WITHOUT_RESPONSE = ("/fails", "/lost", "/text", "/silent", "/other-review", "/old-review")
BAD = [path for path in (*MISTAKES, *RESPONSES, *WITHOUT_RESPONSE) if path not in ("/meddles", "/adds")]

SCENARIOS: dict[str, list[Step]] = {
    "both ways": [
        kind(),
        make("v1", "a", spec=OF_V1),
        get("v2", "a"),
        make("v2", "b", spec=OF_V2),
        get("v1", "b"),
        get("v1"),
        get("v2"),
        ("PUT", at("v2", "a"), widget("a", "v2", metadata={"resourceVersion": "$version"}, spec=OF_V2)),
        patch("v2", "a", {"spec": {"hostPort": "c:1"}}),
        patch("v2", "a", [{"op": "test", "path": "/spec/hostPort", "value": "c:1"}], JSON_PATCH),
        patch("v1", "a", [{"op": "replace", "path": "/spec/port", "value": "2"}], JSON_PATCH),
        patch("v2", "a", {"spec": {"hostPort": 3}}),
        get("v2", "a"),
        ("DELETE", at("v2", "a")),
        ("DELETE", at("v2")),
        get("v1"),
    ],
    "dry run": [
        kind(),
        ("POST", at("v2"), widget("a", "v2", spec=OF_V2), JSON, {"dryRun": "All"}),
        make("v2", "a", spec=OF_V2),
        patch("v2", "a", {"spec": {"hostPort": "c:1"}}, dryRun="All"),
        get("v2", "a"),
    ],
    "a review of v1beta1": [kind("/convert", "v1beta1", "v1"), make("v2", "a", spec=OF_V2), get("v2", "a")],
    "of a review of v1beta1 the uid does not matter": [kind("/wrong-uid", "v1beta1"), make("v2", "a", spec=OF_V2)],
    "unknown versions of reviews": [kind("/convert", "v9", "v1"), make("v2", "a", spec=OF_V2)],
    "metadata": [
        kind("/meddles"),
        make("v2", "a", spec=OF_V2, metadata={"labels": {"x": "y"}, "annotations": {"p": "q"}}),
        get("v1", "a"),
        get("v2", "a"),
    ],
    "unknown fields": [kind("/adds"), make("v2", "a", spec=OF_V2), get("v1", "a"), get("v2", "a")],
    "applied in both": [
        kind(),
        apply("v1", "a", "one", spec=OF_V1),
        get("v2", "a"),
        apply("v2", "a", "two", spec=OF_V2),
        apply("v2", "a", "two", spec={"tier": "high"}),
        apply("v2", "a", "two", spec=OF_V2, force="true"),
        get("v1", "a"),
        apply("v1", "a", "one", spec={"tags": ["x"]}),
        apply("v2", "a", "one", spec={"tags": ["y"]}),
        patch("v2", "a", {"spec": {"hostPort": "d:4"}}, fieldManager="three"),
        patch("v1", "a", {"spec": {"host": "e"}}, fieldManager="four"),
        apply("v2", "a", "two", spec={}),
    ],
    "managers of fields that the other version does not have": [
        defining(definition(*versions())),
        apply("v1", "a", "one", spec={"tags": ["x"]}),
        patch("v2", "a", {"spec": {"tier": "high"}}, fieldManager="two"),
        apply("v2", "a", "three", spec={"tier": "low"}),
        get("v1", "a"),
        make("v1", "b", spec=OF_V1),
        apply("v2", "b", "three", spec={"tier": "low"}),
        patch("v2", "b", {"spec": {"tags": ["y"]}}, fieldManager="two"),
    ],
    "status and scale": [
        defining(
            definition(
                version(
                    obj(spec=obj(host=STRING, port=STRING, n={"type": "integer"}), status=obj(n={"type": "integer"})),
                    subresources={
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                    },
                ),
                version(
                    obj(spec=obj(hostPort=STRING, n={"type": "integer"}), status=obj(n={"type": "integer"})),
                    "v2",
                    subresources={
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                    },
                ),
                conversion=by_webhook(),
            )
        ),
        make("v2", "a", spec={**OF_V2, "n": 3}),
        patch("v2", "a/status", {"status": {"n": 2}}),
        get("v2", "a/scale"),
        patch("v2", "a/scale", {"spec": {"replicas": 5}}),
        get("v1", "a"),
        get("v2", "a/status"),
    ],
    "another version is stored": [
        kind(),
        make("v1", "a", spec=OF_V1),
        make("v1", "b", spec=OF_V1),
        redefine({"spec": {"versions": versions("v2")}}),
        get("v1", "a"),
        get("v2", "a"),
        make("v1", "c", spec=OF_V1),
        patch("v1", "a", {}),
        patch("v1", "a", {}),
        get("v1"),
        get("v2"),
        ("PATCH", f"{DEFINITIONS}/{NAME}/status", {"status": {"storedVersions": ["v2"]}}, MERGE),
        redefine({"spec": {"versions": [version(V2, "v2", storage=True)]}}),
        get("v1", "a"),
        get("v2", "a"),
        get("v2", "b"),
    ],
    "another version is stored, of two alike": [
        defining(definition(version(V1), version(V1, "v2", storage=False))),
        make("v1", "a", spec=OF_V1),
        redefine({"spec": {"versions": [version(V1, storage=False), version(V1, "v2", storage=True)]}}),
        get("v1", "a"),
        get("v2", "a"),
        patch("v1", "a", {}),
        get("v2", "a"),
        get("v2"),
    ],
    "from none to a webhook and back": [
        defining(definition(*versions())),
        make("v1", "a", spec={**OF_V1, "tags": ["x"]}),
        get("v2", "a"),
        redefine({"spec": {"conversion": by_webhook()}}),
        get("v2", "a"),
        redefine({"spec": {"conversion": {"strategy": "None", "webhook": None}}}),
        get("v2", "a"),
        make("v2", "b", spec={**OF_V2, "tags": ["y"]}),
        get("v1", "b"),
    ],
    "a version that is not served": [
        kind(),
        make("v2", "a", spec=OF_V2),
        redefine({"spec": {"versions": versions(served=False)}}),
        get("v2", "a"),
        patch("v1", "a", {"spec": {"port": "1"}}),
        apply("v1", "a", "one", spec={"tags": ["x"]}),
        redefine({"spec": {"versions": versions()}}),
        get("v2", "a"),
    ],
    "fields are selected": [
        kind(selectableFields=[{"jsonPath": ".spec.hostPort"}]),
        make("v1", "a", spec=OF_V1),
        make("v1", "b", spec={"host": "b"}),
        get("v2", fieldSelector="spec.hostPort=a.example.com:8080"),
        get("v1", fieldSelector="spec.hostPort=a.example.com:8080"),
        watch("v2", fieldSelector="spec.hostPort=b:80"),
    ],
    "watches": [
        kind(),
        make("v1", "a", spec=OF_V1),
        make("v2", "b", spec=OF_V2),
        watch("v2"),
        watch("v1"),
        get("v2"),
        patch("v1", "a", {"spec": {"port": "1"}}),
        ("DELETE", at("v1", "b")),
        watch("v2", resourceVersion="$listed"),
    ],
    "deprecated versions": [
        defining(
            definition(
                version(ANYTHING, "v1beta1", deprecated=True),
                version(ANYTHING, "v1beta2", deprecated=True, deprecationWarning='leave "it"'),
                version(ANYTHING, "v2alpha1"),
                version(ANYTHING),
                version(ANYTHING, "v3", deprecated=True),
            )
        ),
        make("v1beta1", "a"),
        get("v1beta1", "a"),
        get("v1beta1", "none"),
        get("v1beta1"),
        patch("v1beta2", "a", {"spec": {}}),
        get("v2alpha1", "a"),
        get("v3", "a"),
        watch("v1beta2"),
        ("DELETE", at("v1beta1", "a")),
    ],
    "a service that is not there": [
        defining(
            definition(
                *versions(), conversion=by_webhook("", service={"name": "none", "namespace": "contract", "path": "/x"})
            )
        ),
        make("v2", "a", spec=OF_V2),
    ],
    "nobody there": wrong(UNREACHED),
    **{f"it answers {path.strip('/')}": wrong(path) for path in BAD},
}


class Reply(NamedTuple):
    """Response to a request."""

    status: int
    body: Any
    warnings: list[str]
    lines: list[Any]  # of a watch, which has no body


class Side(NamedTuple):
    """A server, and the webhook that it calls."""

    send: Callable[[Given], Reply]
    hook: Converter
    url: str  # of the webhook
    authority: bytes  # of its certificate


def play(scenario: str, side: Side) -> dict[str, Any]:
    """Return the responses, without the parts that differ from run to run."""
    group = f"{scenario.replace(' ', '-').replace(',', '')}.example.com"
    answers, words = [], dict[str, str]()
    listed = latest = ""
    bundle = base64.b64encode(side.authority).decode()
    for step in SCENARIOS[scenario]:
        method, path, *rest = step
        body, type_, query = [*rest, *(None, JSON, {})[len(rest) :]]
        if not path.startswith("/"):
            path = f"/apis/$group/{path}"
        text = "" if body is None else json.dumps(body)
        for word, meant in (("$group", group), ("$url", side.url), ("$bundle", bundle), ("$version", latest)):
            text, path = text.replace(word, meant), path.replace(word, meant)
        query = {name: value.replace("$listed", listed) for name, value in query.items()}
        reply = side.send(Given(method, path, text.encode(), type_, query))
        for shown in (reply.body, *(line["object"] for line in reply.lines)):
            requests.learn(shown, words)
        meta = reply.body.get("metadata") or {}
        if "items" in reply.body:
            listed = meta["resourceVersion"]
            latest = next((item["metadata"]["resourceVersion"] for item in reply.body["items"]), "")
        body = {} if _is_unknown(reply) else _plain(reply.body, words)
        lines = [_plain(line, words) for line in reply.lines]
        answers.append({"status": reply.status, "body": body, "warnings": reply.warnings, "lines": lines})
    send = side.send
    send(Given("DELETE", f"{DEFINITIONS}/{NAME}".replace("$group", group), b"", JSON, {}))
    text = json.dumps({"answers": answers}).replace(side.url, "https://webhook")
    if bundle:
        text = text.replace(bundle, "")
    for pattern, instead in _DRAWN:
        text = pattern.sub(instead, text)
    plain: dict[str, Any] = json.loads(text)
    return plain


def _is_unknown(reply: Reply) -> bool:
    """Report whether the path is unknown, which upstream reports as plain text."""
    return reply.status == 404 and "name" not in (reply.body.get("details") or {})


def _plain(answer: Any, words: dict[str, str]) -> Any:
    """Return a comparable form: without managedFields of definitions, and with sorted managedFields of objects."""
    of_object = answer.get("kind") != "CustomResourceDefinition"
    plain = requests.plain(answer, words, _LEFT_OUT if of_object else _LEFT_OUT | {"managedFields"})
    for shown in (plain, plain.get("object") or {}, *(plain.get("items") or ())):
        if "managedFields" in (shown.get("metadata") or {}):
            shown["metadata"]["managedFields"].sort(key=lambda entry: json.dumps(entry, sort_keys=True))
    return plain


_LEFT_OUT = (requests.DROPPED - {"managedFields"}) | {"time"}
_DRAWN = (
    (re.compile(r'expected response.uid=\\"[-\w]+\\"'), "expected response.uid=<uid>"),
    (re.compile(r"must have the same UID: [-\w]+ !="), "must have the same UID: <uid> !="),
    (re.compile(r"Object 'Kind' is missing in '[^']*'"), "Object 'Kind' is missing"),
    (re.compile(r'json parse error: (?:[^"\\]|\\.)*'), "json parse error"),
)
MOST_RETRIES = 10  # of a request, a second after each other


@contextmanager
def _real(directory: Path, assets: Path) -> Iterator[Callable[[str], Side]]:
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import real_server

    hook = Converter()
    with webhook_server(hook, directory) as (url, authority), real_server(directory, assets) as server:
        reached = Api(server.kubeconfig)
        send = _sender(reached.url, reached.token)
        send(Given("POST", "/api/v1/namespaces", b'{"metadata": {"name": "contract"}}', JSON, {}))
        yield lambda _scenario: Side(_patiently(send), hook, url, authority)


def _sender(url: str, token: str) -> Callable[[Given], Reply]:
    where, context = urlsplit(url), ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def send(given: Given) -> Reply:
        connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=context, timeout=70)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": given.type, "Accept": JSON}
        headers["User-Agent"] = "contract/1"
        query = f"?{urlencode(given.query)}" if given.query else ""
        method = "GET" if given.method == WATCH else given.method
        connection.request(method, given.path + query, given.body or None, headers)
        response = connection.getresponse()
        raw = response.read()
        warnings = [json.loads(header.removeprefix("299 - ")) for header in response.headers.get_all("Warning") or ()]
        connection.close()
        if given.method == WATCH and response.status == 200:
            return Reply(200, {}, warnings, [json.loads(line) for line in raw.splitlines()])
        return Reply(response.status, json.loads(raw) if raw.startswith(b"{") else {}, warnings, [])

    return send


def _patiently(send: Callable[[Given], Reply]) -> Callable[[Given], Reply]:
    """Wait after changes of definitions, because kube-apiserver serves them with a delay.

    Until it has listed the objects of a definition, it responds 429 with "storage is (re)initializing".
    """

    def sent(given: Given) -> Reply:
        reply = send(given)
        for _ in range(MOST_RETRIES):
            if reply.status != 429:
                break
            time.sleep(1.0)
            reply = send(given)
        if DEFINITIONS in given.path and given.method in ("POST", "PATCH") and reply.status in (200, 201):
            time.sleep(3.0)
            if given.method == "POST":
                return reply
        return reply

    return sent


def _embedded(make_api: type[Api], _scenario: str) -> Side:
    hook = Converter()
    api = make_api(call_webhook=hook.ask)
    api.create("namespaces", {"metadata": {"name": "contract"}})
    return Side(lambda given: _send(api, given), hook, "https://127.0.0.1:9443", b"")


def _send(api: Api, given: Given) -> Reply:
    method = "GET" if given.method == WATCH else given.method
    request = Request(
        method=method,
        path=given.path,
        query=given.query,
        body=given.body,
        content_type=given.type,
        agent="contract",
    )
    if given.method == WATCH:
        listener = Listener()
        watch = api.server.watch(request, deliver=listener.deliver, end=listener.end)
        assert isinstance(watch, CacheWatcher)
        return Reply(200, {}, [watch.definition.deprecation] if watch.definition.deprecation else [], listener.events)
    response = api.server.handle(request)
    return Reply(response.status, orjson.loads(response.body), list(response.warnings), [])


CONTRACT = Contract("conversion", SCENARIOS, play, embedded=_embedded, real=_real)
