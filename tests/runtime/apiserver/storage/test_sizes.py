"""Objects above the size limit are rejected for every verb."""

from __future__ import annotations

import tracemalloc

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.storage.sizes import MOST_SENT, MOST_STORED
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.core.test_custom_resources import THINGS, crd, thing

REFUSED = (500, "etcdserver: request is too large")
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.fixture
def things(api: Api) -> Api:
    api.create("customresourcedefinitions", crd())
    return api


def with_schema(api: Api, spec: Object) -> None:
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    assert api.create("customresourcedefinitions", crd(versions=[version])).status == 201


def test_custom_object_above_the_limit_is_refused_on_creation(things: Api) -> None:
    revision = things.server.revision
    refused = things.send("POST", THINGS, thing(spec={"a": "x" * MOST_STORED}))
    assert (refused.status, refused.message) == REFUSED
    assert "reason" not in refused.obj
    assert things.server.revision == revision
    assert things.send("GET", f"{THINGS}/t").status == 404
    assert things.send("POST", THINGS, thing(spec={"a": "x" * (MOST_STORED - 1000)})).status == 201


def test_custom_object_above_the_message_limit_is_refused_with_the_text_of_grpc(things: Api) -> None:
    refused = things.send("POST", THINGS, thing(spec={"a": "x" * MOST_SENT}))
    assert refused.status == 500
    assert refused.message.startswith(
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (209"
    )
    assert refused.message.endswith(" vs. 2097152)")


def test_custom_object_does_not_grow_above_the_limit_by_patches(things: Api) -> None:
    things.send("POST", THINGS, thing(spec={}))
    part = "x" * (MOST_STORED // 4)
    statuses = []
    for number in range(6):
        patch = {"spec": {f"part{number}": part}}
        statuses.append(things.send("PATCH", f"{THINGS}/t", patch, type_="application/merge-patch+json").status)
    assert statuses == [200, 200, 200, 500, 500, 500]
    copies = [{"op": "copy", "from": "/spec/part0", "path": "/spec/copy"}]
    refused = things.send("PATCH", f"{THINGS}/t", copies, type_="application/json-patch+json")
    assert (refused.status, refused.message) == REFUSED
    assert sorted(things.send("GET", f"{THINGS}/t").obj["spec"]) == ["part0", "part1", "part2"]


def test_built_in_object_is_measured_as_protobuf(api: Api) -> None:
    lines = {"a": "\n" * 1_000_000}  # twice as long in JSON
    assert api.create("configmaps", {"metadata": {"name": "lines"}, "data": lines}).status == 201
    pods = [api.pod(f"p{number}") for number in range(2)]
    pods[0]["metadata"]["annotations"] = {"a": "x" * 200_000}
    pods[1]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x" * MOST_STORED}]
    assert api.create("pods", pods[0]).status == 201
    refused = api.create("pods", pods[1])
    assert (refused.status, refused.message) == REFUSED


def test_managed_fields_are_dropped_if_the_object_fits_without_them(api: Api) -> None:
    fields = {f"field-{number:06}": "x" for number in range(41_000)}
    created = api.create("configmaps", {"metadata": {"name": "many"}, "data": fields})
    assert created.status == 201
    assert "managedFields" not in created.meta
    patched = api.patch("configmaps", "many", {"data": {"more": "x"}})
    assert (patched.status, "managedFields" in patched.meta) == (200, False)
    refused = api.patch("configmaps", "applied", {**CONFIG_MAP, "data": fields}, form="apply")
    assert (refused.status, refused.message) == REFUSED


def test_quota_is_not_charged_for_a_too_large_object(things: Api) -> None:
    hard = {"count/things.example.com": "5"}
    things.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    things.send(
        "PATCH",
        things.path("resourcequotas", "q", "status"),
        {"status": {"hard": hard, "used": {"count/things.example.com": "0"}}},
        type_="application/merge-patch+json",
    )
    assert things.send("POST", THINGS, thing(spec={"a": "x" * MOST_STORED})).status == 500
    assert things.get("resourcequotas", "q").obj["status"]["used"] == {"count/things.example.com": "0"}


@pytest.mark.parametrize("form", ["text", "object", "nested", "null items", "map values"])
def test_size_of_defaults_inside_lists_is_limited(api: Api, form: str) -> None:
    large = {"type": "string", "default": "x" * 100_000}
    many: Object = {"type": "array", "items": {"type": "object", "properties": {"a": large}}}
    given: Object = {"list": [{} for _ in range(9_000)]}
    if form == "object":
        many["items"]["properties"]["a"] = {**ANYTHING, "default": {"b": ["x"] * 20_000}}
    elif form == "nested":
        many = {"type": "array", "items": {"type": "object", "properties": {"b": {**many, "default": [{}] * 1_000}}}}
        given = {"list": [{} for _ in range(900)]}
    elif form == "null items":
        many = {"type": "array", "items": large}
        given = {"list": [None] * 9_000}
    elif form == "map values":
        many = {"type": "object", "additionalProperties": large}
        given = {"list": {f"k{number}": None for number in range(5_000)}}
    with_schema(api, {"type": "object", "properties": {"list": many}})
    tracemalloc.start()
    try:
        refused = api.send("POST", THINGS, thing(spec=given))
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()
    assert (refused.status, refused.message) == REFUSED
    assert api.send("POST", THINGS, thing(spec={"list": given["list"] and type(given["list"])()})).status == 201


def test_size_of_defaults_added_on_read_is_limited(api: Api) -> None:
    items: Object = {"type": "object", "properties": {}}
    with_schema(api, {"type": "object", "properties": {"list": {"type": "array", "items": items}}})
    for name in ("a", "b"):
        small = {**thing(spec={"list": [{}] * 9_000}), "metadata": {"name": name}}
        assert api.send("POST", THINGS, small).status == 201
    definition = api.get("customresourcedefinitions", "things.example.com").obj
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["list"]["items"] = {
        "type": "object",
        "properties": {"a": {"type": "string", "default": "x" * 100_000}},
    }
    assert api.put("customresourcedefinitions", definition).status == 200
    for path in (THINGS, f"{THINGS}/a"):
        refused = api.send("GET", path)
        assert (refused.status, refused.message) == REFUSED
    assert api.send("DELETE", f"{THINGS}/a").status == 200


def test_json_patch_that_moves_too_many_items_is_refused(things: Api) -> None:
    things.send("POST", THINGS, thing(spec={"list": [1] * 500_000}))
    operations = [{"op": "add", "path": "/spec/list/0", "value": 1} for _ in range(9_000)]
    refused = things.send("PATCH", f"{THINGS}/t", operations, type_="application/json-patch+json")
    assert refused.status == 422
    assert "shifts more than" in refused.obj["details"]["causes"][0]["message"]
    few = operations[:100]
    assert things.send("PATCH", f"{THINGS}/t", few, type_="application/json-patch+json").status == 200
