"""YAML as JSON, and what is too large to be."""

from __future__ import annotations

import asyncio
import tracemalloc

import orjson
import pytest
import yaml

from runtime.apiserver.errors.status_errors import StatusError
from runtime.apiserver.http.request_bodies import json_body
from runtime.apiserver.http.yaml_bodies import LARGEST, MOST_EVENTS
from tests.runtime.apiserver.http.served import PODS, Served, run

YAML = {"Content-Type": "application/yaml"}


def converted(text: str) -> object:
    return orjson.loads(json_body("POST", "application/yaml", text.encode(), None).json)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: [x, 2.5, null, ~, true, 0x10, 1e3, '1', \"\\u00e9\"]\n",
        "a: &x {b: 1}\nc: *x\nd: [*x, *x]\n",
        "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 3\n",
        "a: &x {b: 1}\ne: &y {b: 2, f: 3}\nd:\n  b: 4\n  <<: [*x, *y]\n",
        "- |\n  two\n  lines\n- >\n  folded\n  text\n",
        "1: a\ntrue: b\n",
        "a: !!str 1\nb: !!int '2'\n",
        "",
        "--- \na: b\n...\n",
        "[[], {}, [{}]]",
    ],
)
def test_it_is_read_as_by_the_safe_loader(text: str) -> None:
    expected = orjson.loads(orjson.dumps(yaml.safe_load(text), option=orjson.OPT_NON_STR_KEYS))
    assert (converted(text) if text else None) == expected


def test_times_stay_text() -> None:
    assert converted("a: 2026-01-02T03:04:05Z\nb: 2026-01-02") == {"a": "2026-01-02T03:04:05Z", "b": "2026-01-02"}


@pytest.mark.parametrize(
    "text,why",
    [
        ("a: [", "did not find expected node content|expected the node content"),
        ("a: *x", "unknown anchor 'x' referenced|undefined alias"),
        ("a: &x [*x]", "unknown anchor 'x' referenced"),
        ("? {a: b}\n: c", "cannot be a key"),
        ("a: 1\n---\nb: 2", "a single document"),
        ("a: !!binary aGk=", "not JSON serializable"),
        ("a: !!python/name:os.system x", "could not determine a constructor"),
        ("a: 1\n<<: 2", "map merge requires"),
        ("[" * 300 + "]" * 300, "Recursion limit"),
        (f"[{'a,' * MOST_EVENTS}]", "more than"),
        ("- " + "x" * LARGEST, "too large"),
    ],
    ids=range(11),
)
def test_what_cannot_be_read_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(StatusError, match=why) as refused:
        converted(text)
    assert refused.value.code == 400


@pytest.mark.parametrize("form", ["lists", "merges"])
def test_aliases_do_not_grow_without_end(form: str) -> None:
    if form == "lists":
        levels = [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
        text = "\n".join(['a0: &a0 "lol"', *levels])
        assert len(text) < 400
    else:
        keys = ", ".join(f"k{i}: v" for i in range(1000))
        text = "\n".join([f"a0: &a0 {{{keys}}}", *(f"a{i}: {{<<: *a0, x: {i}}}" for i in range(1000))])
    tracemalloc.start()
    try:
        with pytest.raises(StatusError, match="excessive aliasing"):
            converted(text)
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def test_while_a_large_document_is_read_other_requests_are_served() -> None:
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
