import asyncio
from typing import Any

import pytest
import yaml

from kcm.runtime.apiserver.http import openapi_v2
from kcm.runtime.apiserver.presentation.openapi.v2 import make_document
from kcm.runtime.apiserver.presentation.openapi.v2_protobuf import encoded
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from tests.runtime.apiserver.http.served import Served, run

PATH = "/openapi/v2"
OLD, NEW = openapi_v2.MEDIA_TYPES[2], openapi_v2.PROTOBUF
THING = ResourceDefinition(group="example.com", plural="things", kind="Thing", schema={"type": "object"}, dynamic=True)


def test_the_document_is_json_or_protobuf() -> None:
    async def scenario(served: Served) -> None:
        plain = await served.get(PATH)
        assert (plain.status, plain.headers["Content-Type"]) == (200, "application/json")
        assert plain.json["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"]["$ref"].endswith("v1.PodSpec")
        patch = plain.json["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
        assert {"$ref": "#/parameters/dryRun"} in patch["parameters"]
        for asked in (OLD, NEW, f"{NEW},application/json;q=0.5"):
            answer = await served.get(PATH, headers={"Accept": asked})
            assert (answer.status, answer.headers["Content-Type"]) == (200, NEW)
            assert answer.raw == encoded(plain.json)
            assert answer.headers["Etag"] == plain.headers["Etag"]
        assert (await served.get(PATH, headers={"Accept": "text/html"})).status == 406
        assert (await served.ask("POST", PATH)).status == 405

    run(scenario)


def test_matching_etag_returns_not_modified() -> None:
    async def scenario(served: Served) -> None:
        etag = (await served.get(PATH)).headers["Etag"]
        for known in (etag, f'"other", {etag}', f"W/{etag}"):
            again = await served.get(PATH, headers={"If-None-Match": known})
            assert (again.status, again.raw, again.headers["Etag"]) == (304, b"", etag)
        served.api.registry.add(THING)
        changed = await served.get(PATH, headers={"If-None-Match": etag})
        assert changed.status == 200
        assert "com.example.v1.Thing" in changed.json["definitions"]

    run(scenario)


def test_document_is_built_once_for_concurrent_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(served: Served) -> None:
        made: list[Any] = []

        def counted(*arguments: Any) -> Any:
            made.append(arguments)
            return make_document(*arguments)

        monkeypatch.setattr("kcm.runtime.apiserver.presentation.openapi.documents.make_document", counted)
        answers = await asyncio.gather(*(served.get(PATH) for _ in range(3)))
        answers.append(await served.get(PATH))
        assert {answer.status for answer in answers} == {200}
        assert len(made) == 1

    run(scenario)


def test_values_of_extensions_are_yaml() -> None:
    values = {
        "x-a": {"b": ["*", "true", "1", "", "a b", "ü"], "c": {"d": None, "e": 1.5}, "f": [{"g": 1, "h": []}], "i": {}},
        "x-b": "merge,retainKeys",
        "x-c": "two\nlines: \"'",
    }
    raw = encoded({"definitions": {"a": values}})
    shown = """b:
  - '*'
  - "true"
  - "1"
  - ""
  - a b
  - 'ü'
c:
  d: null
  e: 1.5
f:
  - g: 1
    h: []
i: {}
"""
    assert yaml.safe_load(shown) == values["x-a"]
    for text in (shown, "merge,retainKeys\n", '"two\\nlines: \\"\'"\n'):
        assert text.encode() in raw


def test_small_document_has_expected_bytes() -> None:
    schema = {"type": "array", "items": {"$ref": "#/definitions/b"}, "minItems": 1, "maximum": 1.5}
    operation = {"operationId": "get", "responses": {"200": {"description": "OK", "schema": schema}}}
    found = encoded({"swagger": "2.0", "paths": {"/a": {"get": operation}}, "security": [{"BearerToken": []}]})
    assert found.startswith(b"\x0a\x032.0\x42")  # swagger = 1, paths = 8
    assert b"\x2a\x03get" in found  # operation_id = 5
    assert b"\x0a\x02OK" in found
    assert b"\xb2\x01\x07\x0a\x05array" in found  # type = 22, its value = 1
    assert b"\x39\x00\x00\x00\x00\x00\x00\xf8\x3f" in found  # maximum = 7
    assert b"\x78\x01" in found  # min_items = 15
    assert found.endswith(b"\x62\x11\x0a\x0f\x0a\x0bBearerToken\x12\x00")
