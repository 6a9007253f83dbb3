import asyncio
import gc
import tracemalloc
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import orjson
import pytest

from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.presentation import response_converter
from kcm.runtime.apiserver.registry.users import User
from kcm.runtime.http.server.connection import HttpConnection
from tests.runtime.apiserver.http.served import DEPLOYMENTS, PODS, TOKEN, Served, posted_pod, run, until
from tests.runtime.apiserver.stores import HeldStore

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def test_objects_are_written_and_read() -> None:
    async def scenario(served: Served) -> None:
        created = await served.create("a")
        assert created.status == 201
        assert created.headers["Content-Type"] == "application/json"
        got = await served.get(f"{PODS}/a")
        assert (got.status, got.json) == (200, created.json)
        listed = await served.get("/api/v1/pods?labelSelector=app%3Dnone")
        assert listed.json["items"] == []
        assert (await served.create("a")).json["reason"] == "AlreadyExists"
        assert (await served.ask("DELETE", f"{PODS}/a")).status == 200
        assert (await served.get(f"{PODS}/a")).json["reason"] == "NotFound"

    run(scenario)


@pytest.mark.parametrize("path", [PODS, f"{PODS}?limit=1", DEPLOYMENTS])
def test_long_list_is_sent_in_parts_with_the_same_body(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(served: Served) -> None:
        for name in ("a", "b"):
            pod = posted_pod(name)
            pod["metadata"]["annotations"] = {"text": "<a & b>"}
            assert (await served.ask("POST", PODS, json=pod)).status == 201
        whole = await served.get(path)
        monkeypatch.setattr(response_converter, "STREAMED_FROM", 0)
        parts = await served.get(path)
        assert "Content-Length" in whole.headers
        assert parts.headers["Transfer-Encoding"] == "chunked"
        assert parts.raw == whole.raw
        assert (await served.get(f"{PODS}/a")).status == 200  # on the same connection

    run(scenario)


PUBLIC = ("/healthz", "/livez", "/readyz", "/version")


@pytest.mark.parametrize(
    ("headers", "refused"), [({"Authorization": ""}, ()), ({"Authorization": "Bearer wrong"}, PUBLIC)]
)
def test_unauthenticated_requests_get_only_health_and_version(
    headers: dict[str, str], refused: tuple[str, ...]
) -> None:
    async def scenario(served: Served) -> None:
        for path in (PODS, "/api", "/openapi/v3", "/nothing", *refused):
            answer = await served.get(path, headers=headers)
            assert (answer.status, answer.json["reason"]) == (401, "Unauthorized")
        for path in set(PUBLIC) - set(refused):
            assert (await served.get(path, headers=headers)).status == 200

    run(scenario)


def test_health_and_version() -> None:
    async def scenario(served: Served) -> None:
        assert (await served.get("/readyz")).raw == b"ok"
        verbose = "[+]ping ok\n[+]store ok\n[+]shutdown ok\nreadyz check passed\n"
        assert (await served.get("/readyz?verbose")).raw.decode() == verbose
        assert (await served.get("/readyz/store")).raw == b"ok"
        assert (await served.get("/readyz/nothing")).status == 404
        version = (await served.get("/version/")).json
        assert (version["major"], version["minor"]) == ("1", "36")
        assert version["gitVersion"].startswith("v1.36.2")
        required = {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"}
        assert all(version[field] for field in required)
        assert (await served.get("/api")).json["versions"] == ["v1"]
        assert (await served.get("/apis/apps/v1")).json["kind"] == "APIResourceList"
        index = (await served.get("/openapi/v3")).json["paths"]
        document = await served.get(index["apis/apps/v1"]["serverRelativeURL"])
        assert document.json["openapi"] == "3.0.0"
        whole = await served.get(
            "/apis", headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
        )
        assert whole.json["kind"] == "APIGroupDiscoveryList"
        assert whole.headers["Content-Type"].endswith("as=APIGroupDiscoveryList")

    run(scenario)


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("GET", "/api/v1/none", 404),
        ("POST", "/apis", 405),
        ("POST", "/version", 405),
        ("PUT", PODS, 405),
        ("GET", "/api/v1/namespaces/default/%70ods", 200),
    ],
)
def test_status_depends_on_path_and_method(method: str, path: str, status: int) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.ask(method, path)
        assert answer.status == status
        assert answer.json["kind"] == ("PodList" if status == 200 else "Status")

    run(scenario)


def test_response_waits_until_the_write_is_durable() -> None:
    store = HeldStore()

    async def scenario(served: Served) -> None:
        store.release()
        create = asyncio.create_task(served.create("a"))
        await until(lambda: bool(store.held))
        read = asyncio.create_task(served.get(f"{PODS}/a"))
        done, _ = await asyncio.wait([create, read], timeout=0.1)
        assert not done
        store.release()
        assert (await create).status == 201
        assert (await read).status == 200

    run(scenario, store=store)


def test_client_may_disconnect_while_its_write_becomes_durable() -> None:
    store = HeldStore()

    async def scenario(served: Served) -> None:
        store.release()
        create = asyncio.create_task(served.create("a"))
        await until(lambda: bool(store.held))
        create.cancel()
        await asyncio.wait([create])
        store.release()
        assert (await served.get(f"{PODS}/a")).status == 200
        assert served.logs.entries == []

    run(scenario, store=store)


def test_table_is_returned_if_accepted() -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        listed = (await served.get(PODS, headers=TABLE)).json
        assert (listed["kind"], [row["cells"][0] for row in listed["rows"]]) == ("Table", ["a"])
        assert (await served.get(f"{PODS}/a", headers=TABLE)).json["rows"][0]["cells"][1] == "0/1"
        whole = await served.get(f"{PODS}?includeObject=Object", headers=TABLE)
        assert whole.json["rows"][0]["object"]["spec"]["containers"][0]["name"] == "c"
        assert (await served.get(f"{PODS}?includeObject=Some", headers=TABLE)).status == 400
        assert (await served.get(f"{PODS}/none", headers=TABLE)).json["kind"] == "Status"

    run(scenario)


def test_partial_metadata_is_returned_if_accepted() -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        listed = (await served.get(PODS, headers={"Accept": accept})).json
        assert listed["kind"] == "PartialObjectMetadataList"
        assert [set(item) for item in listed["items"]] == [{"kind", "apiVersion", "metadata"}]

    run(scenario)


@pytest.mark.parametrize(
    "method, headers, status",
    [
        ("GET", {"Accept": "application/cbor"}, 406),
        ("GET", {"Accept": "application/vnd.kubernetes.protobuf"}, 200),
        ("GET", {"Accept": "application/vnd.kubernetes.protobuf,application/json"}, 200),
        ("POST", {"Content-Type": "application/vnd.kubernetes.protobuf"}, 400),
        ("POST", {"Content-Type": "application/cbor"}, 415),
        ("POST", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("POST", {"Content-Type": "application/json; charset=utf-8"}, 201),
        ("POST", {"Content-Type": "application/json", "Accept": "text/html"}, 406),
    ],
)
def test_unsupported_media_types_are_rejected(method: str, headers: dict[str, str], status: int) -> None:
    async def scenario(served: Served) -> None:
        data = orjson.dumps(posted_pod("a")) if method == "POST" else None
        assert (await served.ask(method, PODS, data=data, headers=headers)).status == status

    run(scenario)


def test_media_type_is_checked_only_on_served_paths() -> None:
    async def scenario(served: Served) -> None:
        headers = {"Content-Type": "application/cbor"}
        assert (await served.ask("POST", "/api/v1/nothing", data=b"x", headers=headers)).status == 404

    run(scenario)


def test_yaml_body_is_accepted() -> None:
    text = """
    metadata:
      name: a
      annotations: {since: "2026-01-02", count: "1"}
    spec: {containers: [{name: c, image: i, ports: [{containerPort: 80}]}]}
    """

    async def scenario(served: Served) -> None:
        created = await served.ask("POST", PODS, data=text, headers={"Content-Type": "application/yaml"})
        assert created.status == 201
        assert created.json["metadata"]["annotations"] == {"since": "2026-01-02", "count": "1"}
        broken = await served.ask("POST", PODS, data="a: [", headers={"Content-Type": "application/yaml"})
        assert (broken.status, broken.json["reason"]) == (400, "BadRequest")

    run(scenario)


def test_too_large_body_is_rejected() -> None:
    async def scenario(served: Served) -> None:
        answer = await served.ask("POST", PODS, data=BytesIO(b" " * (3 * 1024 * 1024 + 1)))
        assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")

    run(scenario)


def test_unknown_fields_are_rejected_or_warned_about() -> None:
    body = posted_pod("a", spek={})

    async def scenario(served: Served) -> None:
        strict = await served.ask("POST", f"{PODS}?fieldValidation=Strict", json=body)
        assert strict.status == 400
        assert strict.json["message"].endswith('strict decoding error: unknown field "spek"')
        warned = await served.ask("POST", f"{PODS}?fieldValidation=Warn", json=body)
        assert warned.status == 201
        assert warned.headers["Warning"] == r'299 - "unknown field \"spek\""'
        ignored = await served.ask("POST", f"{PODS}?fieldValidation=Ignore", json=body | {"metadata": {"name": "b"}})
        assert ignored.status == 201
        assert "Warning" not in ignored.headers
        by_default = await served.ask("POST", PODS, json=body | {"metadata": {"name": "c"}})
        assert (by_default.status, by_default.headers["Warning"]) == (201, r'299 - "unknown field \"spek\""')
        none = await served.ask("POST", PODS, json=posted_pod("d"))
        assert (none.status, none.headers.get("Warning")) == (201, None)

    run(scenario)


@pytest.mark.parametrize(
    "media_type, body, status",
    [
        ("application/merge-patch+json", {"spek": {}}, 422),
        ("application/strategic-merge-patch+json", {"spek": {}}, 422),
        ("application/strategic-merge-patch+json", {"metadata": {"$patch": "merge", "labels": {"a": "b"}}}, 422),
        ("application/strategic-merge-patch+json", {"metadata": {"labels": {"a": "b"}}}, 200),
        ("application/json-patch+json", [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}], 200),
        ("application/apply-patch+yaml", {"apiVersion": "v1", "kind": "Pod", "spek": 1}, 500),  # as upstream
        ("application/apply-patch+yaml", {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}}, 200),
    ],
)
def test_unknown_fields_of_patches_are_validated(media_type: str, body: Any, status: int) -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        path = f"{PODS}/a?fieldValidation=Strict&fieldManager=me"
        answer = await served.ask("PATCH", path, data=orjson.dumps(body), headers={"Content-Type": media_type})
        assert answer.status == status
        assert status != 200 or answer.json["metadata"]["labels"] == {"a": "b"}

    run(scenario)


APPLIED_TWICE = b"""
apiVersion: v1
kind: Pod
metadata:
  labels:
    a: b
    a: c
"""


@pytest.mark.parametrize(
    "body", [APPLIED_TWICE, b'{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":1,\n"a":""}}}']
)
def test_duplicate_keys_of_applied_yaml_are_reported_with_lines(body: bytes) -> None:
    async def scenario(served: Served) -> None:
        headers, line = {"Content-Type": "application/apply-patch+yaml"}, 7 if body is APPLIED_TWICE else 2
        path = f"{PODS}/a?fieldManager=me&fieldValidation"
        twice = f'line {line}: key "a" already set in map'
        await served.create("a")
        strict = await served.ask("PATCH", f"{path}=Strict", data=body, headers=headers)
        assert strict.status == 400
        why = f"error converting YAML to JSON: yaml: unmarshal errors:\n  {twice}"
        assert strict.json["message"] == f"error strict decoding YAML: {why}"
        warned = await served.ask("PATCH", f"{path}=Warn", data=body, headers=headers)
        quoted = twice.replace('"', r"\"")
        assert (warned.status, warned.headers["Warning"]) == (200, f'299 - "{quoted}"')
        ignored = await served.ask("PATCH", f"{path}=Ignore", data=body, headers=headers)
        assert (ignored.status, ignored.headers.get("Warning")) == (200, None)

    run(scenario)


@pytest.mark.parametrize(
    "timeout, status",
    [("10s", 200), ("1.5h", 200), ("", 200), ("10", 400), ("invalid", 400), ("10x", 400), ("x&watch=1", 200)],
)
def test_timeout_must_be_a_duration(timeout: str, status: int) -> None:
    async def scenario(served: Served) -> None:
        async with served.session.get(f"{served.url}{PODS}?timeout={timeout}&timeoutSeconds=1") as answer:
            assert answer.status == status
            if status == 400:
                message = (await answer.json())["message"]
                assert message.startswith("invalid timeout specified in the request URL - time: ")

    run(scenario)


def test_applied_yaml_that_begins_like_json_is_accepted() -> None:
    async def scenario(served: Served) -> None:
        body = b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"b": "", "a": "c",},},}'
        headers = {"Content-Type": "application/apply-patch+yaml"}
        await served.create("a")
        applied = await served.ask("PATCH", f"{PODS}/a?fieldManager=me", data=body, headers=headers)
        assert (applied.status, applied.json["metadata"]["labels"]) == (200, {"a": "c", "b": ""})
        (mine,) = [entry for entry in applied.json["metadata"]["managedFields"] if entry["manager"] == "me"]
        assert list(mine["fieldsV1"]["f:metadata"]["f:labels"]) == ["f:a", "f:b"]  # in the order of their names

    run(scenario)


def test_duplicate_keys_of_yaml_are_reported_with_lines() -> None:
    async def scenario(served: Served) -> None:
        body = b"kind: Pod\napiVersion: v1\nspek: 1\nkind: Pod\n"
        strict = await served.ask(
            "POST", f"{PODS}?fieldValidation=Strict", data=body, headers={"Content-Type": "application/yaml"}
        )
        assert strict.json["message"].endswith(
            'strict decoding error: yaml: unmarshal errors:\n  line 4: key "kind" already set in map, '
            'unknown field "spek"'
        )

    run(scenario)


def test_review_cannot_be_requested_as_a_table() -> None:
    async def scenario(served: Served) -> None:
        path, body = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"nonResourceAttributes": {}}}
        headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        assert (await served.ask("POST", path, json=body, headers=headers)).status == 406
        headers["Accept"] += ",application/json"
        assert (await served.ask("POST", path, json=body, headers=headers)).json["kind"] == "SelfSubjectAccessReview"

    run(scenario, resources=BUILT_IN)


def test_unknown_field_in_a_json_patch_is_rejected_or_warned_about() -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        patch = b'[{"op": "add", "path": "/spec/imag", "value": 1}]'
        headers = {"Content-Type": "application/json-patch+json"}
        strict = await served.ask("PATCH", f"{PODS}/a?fieldValidation=Strict", data=patch, headers=headers)
        assert strict.status == 422
        assert strict.json["message"].endswith('strict decoding error: unknown field "spec.imag"')
        warned = await served.ask("PATCH", f"{PODS}/a", data=patch, headers=headers)
        assert (warned.status, warned.headers["Warning"]) == (200, r'299 - "unknown field \"spec.imag\""')
        ignored = await served.ask("PATCH", f"{PODS}/a?fieldValidation=Ignore", data=patch, headers=headers)
        assert (ignored.status, ignored.headers.get("Warning")) == (200, None)

    run(scenario)


def test_deprecated_resource_returns_a_warning() -> None:
    async def scenario(served: Served) -> None:
        answer = await served.get("/api/v1/namespaces/default/endpoints")
        assert answer.headers["Warning"] == (
            '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
        )

    run(scenario, resources=BUILT_IN)


def test_patch_without_changes_is_warned_about_unknown_fields() -> None:
    async def scenario(served: Served) -> None:
        await served.create("a")
        headers = {"Content-Type": "application/merge-patch+json"}
        answer = await served.ask("PATCH", f"{PODS}/a", data=b'{"spec": {"imag": "x"}}', headers=headers)
        assert answer.status == 200
        assert answer.headers["Warning"] == r'299 - "unknown field \"spec.imag\""'

    run(scenario)


SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"image": {"type": "string"}}}}}
WEBSITES = {
    "metadata": {"name": "websites.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "websites", "kind": "Website"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}


def test_unknown_field_of_a_custom_object_is_a_warning_for_every_verb() -> None:
    async def scenario(served: Served) -> None:
        await served.ask("POST", "/api/v1/namespaces", json={"metadata": {"name": "default"}})
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await served.ask("POST", definitions, json=WEBSITES)).status == 201
        path = "/apis/example.com/v1/namespaces/default/websites"
        blog = {"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "blog"}}
        stray = r'299 - "unknown field \"spec.imaeg\""'
        created = await served.ask("POST", path, json={**blog, "spec": {"image": "a", "imaeg": "b"}})
        assert (created.status, created.headers.get("Warning")) == (201, stray)
        replaced = await served.ask("PUT", f"{path}/blog", json={**created.json, "spec": {"imaeg": "b"}})
        assert (replaced.status, replaced.headers.get("Warning")) == (200, stray)
        merge = {"Content-Type": "application/merge-patch+json"}
        patched = await served.ask("PATCH", f"{path}/blog", data=b'{"spec": {"imaeg": "c"}}', headers=merge)
        assert (patched.status, patched.headers.get("Warning")) == (200, stray)
        right = await served.ask("PATCH", f"{path}/blog", data=b'{"spec": {"image": "c"}}', headers=merge)
        assert (right.status, right.headers.get("Warning")) == (200, None)

    run(scenario, resources=BUILT_IN)


def test_internal_error_is_returned_and_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(served: Served) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(served.api, "begin", broken)
        answer = await served.get(DEPLOYMENTS)
        assert (answer.status, answer.json["reason"]) == (500, "InternalError")
        (entry,) = served.logs.entries
        assert (entry["event"], entry["path"]) == ("request failed", DEPLOYMENTS)
        monkeypatch.undo()
        assert (await served.get(DEPLOYMENTS)).status == 200

    run(scenario)


def test_health_check_fails_when_the_store_cannot_be_written() -> None:
    async def scenario(served: Served) -> None:
        served.front.fail(status_errors.internal("the disk is full"))
        for path in PUBLIC[:3]:
            unhealthy = await served.get(path)
            assert unhealthy.status == 500
            assert b"[-]store failed: Internal error occurred: the disk is full\n" in unhealthy.raw

    run(scenario)


def test_failed_server_rejects_writes_and_ends_watches() -> None:
    async def scenario(served: Served) -> None:
        async with served.session.get(served.url + PODS, params={"watch": "true"}) as stream:
            served.front.fail(status_errors.unavailable("it is gone"))
            assert await stream.read() == b""
        revision = served.api.revision
        for method in ("GET", "POST", "DELETE"):
            refused = await served.ask(method, PODS, json=posted_pod("a"))
            assert (refused.status, refused.json["reason"], refused.json["message"]) == (
                503,
                "ServiceUnavailable",
                "it is gone",
            )
        assert served.api.revision == revision

    run(scenario)


def test_health_check_fails_while_a_write_hangs() -> None:
    store = HeldStore()

    async def scenario(served: Served) -> None:
        store.release()
        create = asyncio.create_task(served.create("a"))
        await until(lambda: bool(store.held))
        assert (await served.get("/livez")).status == 200
        served.clock.time += 11
        assert b"[-]store failed: a write has not been durable for 11 s\n" in (await served.get("/livez")).raw
        store.release()
        assert (await create).status == 201
        assert (await served.get("/livez")).status == 200

    run(scenario, store=store)


def test_stopping_server_is_alive_but_not_ready() -> None:
    async def scenario(served: Served) -> None:
        served.front.end_watches()
        assert (await served.get("/readyz")).status == 500
        assert (await served.get("/livez")).status == 200

    run(scenario)


def test_responses_contain_no_versions_of_python_or_libraries() -> None:
    async def scenario(served: Served) -> None:
        for path in ("/version", PODS, "/nothing"):
            assert (await served.get(path)).headers["Server"] == "kcm"

    run(scenario)


def large_heads(name: str, count: int) -> Iterator[bytes]:
    """Requests each of which has a long text of its own in one place."""
    for number in range(count):
        text = f"{number}" + "x" * 90_000
        target, lines, user = PODS, "", f"Authorization: Bearer {TOKEN}\r\n"
        match name:
            case "query":
                target = f"{PODS}?labelSelector={text}"
            case "path":
                target = f"{PODS}/{text}"
            case "page":
                target = f"/healthz/{text}"
            case "of an unknown user":
                target, user = f"{PODS}?{text}", ""
            case "token":
                user = f"Authorization: Bearer {text}\r\n"
            case "media types":
                lines = f"Accept: application/json,{text}/x\r\n"
            case "user agent":
                lines = f"User-Agent: {text}\r\nContent-Length: 2\r\n"
        method = "POST" if name == "user agent" else "GET"
        body = "{}" if name == "user agent" else ""
        yield f"{method} {target} HTTP/1.1\r\nHost: h\r\n{user}{lines}\r\n{body}".encode()


@pytest.mark.parametrize("name", ["query", "path", "page", "of an unknown user", "token", "media types", "user agent"])
def test_long_texts_of_requests_are_freed(name: str) -> None:
    """30 requests, each with 90 kB that no other has, leave less behind than five of them have."""

    async def scenario(served: Served) -> None:
        connection: Any = HttpConnection(served.front.server())
        connection.connection_made(Sink())
        for head in large_heads(name, 3):
            connection.data_received(head)
            await until(lambda: connection.is_idle)
        tracemalloc.start()
        for head in large_heads(name, 30):
            connection.data_received(head)
            while not connection.is_idle:
                await asyncio.sleep(0)
        del head
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert kept < 400_000  # what there is of the last request

    run(scenario, role_based=True, users={TOKEN: User("admin", groups=("system:masters",))})


class Sink(asyncio.Transport):
    """Takes everything and keeps nothing."""

    def write(self, data: Any) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


@pytest.mark.parametrize(
    ("target", "status", "message"),
    [
        ("x=" + "y" * 140_000, 414, "the request's target has 140034 bytes, at most 131072 are allowed"),
        ("a&" * 1000 + "a", 400, "the request's query has 1001 parameters, at most 1000 are allowed"),
        ("a&" * 999 + "a", 200, ""),
    ],
    ids=["long", "many parameters", "as many parameters as allowed"],
)
def test_invalid_targets_are_rejected(target: str, status: int, message: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await served.get(f"{PODS}?{target}")
        assert (answer.status, answer.json.get("message", "")) == (status, message)

    run(scenario)


def test_component_statuses_report_controllers_scheduler_and_store() -> None:
    users = {TOKEN: User("admin"), "manager": User("system:kube-controller-manager")}

    async def scenario(served: Served) -> None:
        path = "/api/v1/componentstatuses"
        missing = [{"type": "Healthy", "status": "False", "message": "lease kube-system/kube-scheduler not found"}]
        ok = [{"type": "Healthy", "status": "True", "message": "ok"}]
        manager = {"Authorization": "Bearer manager"}
        async with served.session.get(f"{served.url}/api/v1/nodes?watch=1", headers=manager) as watch:
            assert watch.status == 200
            found = (await served.get(path)).json
            assert (found["kind"], found["metadata"]) == ("ComponentStatusList", {})
            assert {item["metadata"]["name"]: item["conditions"] for item in found["items"]} == {
                "scheduler": missing,
                "controller-manager": ok,
                "etcd-0": ok,
            }
        named = (await served.get(f"{path}/etcd-0")).json
        assert (named["kind"], named["metadata"], named["conditions"]) == ("ComponentStatus", {"name": "etcd-0"}, ok)
        selected = (await served.get(f"{path}?fieldSelector=metadata.name=etcd-0")).json
        assert [item["metadata"]["name"] for item in selected["items"]] == ["etcd-0"]
        other = await served.get(f"{path}/other")
        assert (other.status, other.json["message"]) == (404, 'componentstatus "other" not found')
        assert (await served.get(f"{path}?watch=1")).status == 405

    run(scenario, resources=BUILT_IN, users=users)
