"""Conversion of YAML to JSON, and its limits."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from kcm.runtime.apiserver.presentation.request_bodies import RequestBodies
from tests.runtime.apiserver.http.served import PODS, Served, run

WHY = "yaml: line 2: did not find expected node content"
YAML = {"Content-Type": "application/yaml"}


def converted(text: str) -> object:
    return orjson.loads(RequestBodies(None, None).read("POST", "application/yaml", text.encode()).json)  # type: ignore[arg-type]


def test_yaml_is_converted_by_the_rules_of_kubernetes() -> None:
    assert converted("a: 1:30\nb: 2026-01-02\nc: [1e3, yes, 010, 1_0]\n1: d\n") == {
        "a": "1:30",
        "b": "2026-01-02",
        "c": [1000, True, 8, 10],
        "1": "d",
    }


@pytest.mark.parametrize(
    ("method", "type_", "message"),
    [
        (
            "POST",
            "application/yaml",
            f"the object provided is unrecognized (must be of type Pod): {WHY} (6b696e643a20506f640a613a205b)",
        ),
        (
            "PATCH",
            "application/apply-patch+yaml",
            f"error decoding YAML: error converting YAML to JSON: {WHY}",
        ),
    ],
)
def test_malformed_yaml_has_the_error_text_of_kube_apiserver(method: str, type_: str, message: str) -> None:
    async def scenario(served: Served) -> None:
        path = PODS if method == "POST" else f"{PODS}/p?fieldManager=x"
        refused = await served.ask(method, path, data="kind: Pod\na: [", headers={"Content-Type": type_})
        assert (refused.status, refused.json["message"]) == (400, message)

    run(scenario)


def test_other_requests_are_served_while_a_large_document_is_parsed() -> None:
    slow = "\n".join(f"- {{name: n{i}, value: [1, 2, x]}}" for i in range(15_000))

    async def scenario(served: Served) -> None:
        large = asyncio.ensure_future(served.ask("POST", PODS, data=slow, headers=YAML))
        others = 0
        while not large.done():
            assert (await served.get(PODS)).status == 200
            others += 1
        assert (await large).status == 400
        assert others > 3

    run(scenario)


@pytest.mark.parametrize("form", ["long", "deep"])
def test_applied_json_with_duplicate_keys_is_not_parsed_as_yaml(form: str) -> None:
    more = "[" * 260 + "]" * 260 if form == "deep" else f'"{"x" * 100_000}"'
    body = (
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b", "a": "c"}}, '
        f'"spec": {more}}}'
    )

    async def scenario(served: Served) -> None:
        headers = {"Content-Type": "application/apply-patch+yaml"}
        path = f"{PODS}/p?fieldManager=x&fieldValidation=Strict"
        refused = await served.ask("PATCH", path, data=body, headers=headers)
        assert refused.status == 400
        assert 'duplicate field "metadata.labels.a"' in refused.json["message"]
        assert not served.logs.entries

    run(scenario)
