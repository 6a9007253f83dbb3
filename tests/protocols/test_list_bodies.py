"""Lists in the format of kube-apiserver and of other servers, in pieces of any size."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.protocols.list_bodies import ListReader, is_list
from kcm.protocols.watch_lines import MalformedError, parse_list_page


def numbered_pod(number: int, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": f"p{number}"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}, **more}


def typed(items: list[Any]) -> bytes:
    head = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}
    return orjson.dumps(head) + b"\n"


def custom(items: list[Any]) -> bytes:
    """Return a list of custom resources, whose fields are sorted, so that the version comes last."""
    ordered = {"apiVersion": "a/v1", "items": items, "kind": "SiteList", "metadata": {"resourceVersion": "7"}}
    return orjson.dumps(ordered) + b"\n"


TEMPLATES = [{"metadata": {"name": f"t{i}"}} for i in range(20)]
ODD = [
    numbered_pod(1, note='},{"metadata":{"name":"x"}}'),
    numbered_pod(2, spec={"volumeClaimTemplates": TEMPLATES}),
    numbered_pod(3, note='"items":['),
    numbered_pod(4),
]
BODIES = {
    "pods": typed([numbered_pod(number) for number in range(50)]),
    "custom resources": custom(
        [{"apiVersion": "a/v1", "kind": "Site", "metadata": {"ownerReferences": TEMPLATES}} for _ in range(9)]
    ),
    "odd ones": typed(ODD * 3),
    "claims within claims": typed([{"metadata": {}, "spec": {"volumeClaimTemplates": TEMPLATES}}] * 9),
    "one": typed([numbered_pod(1)]),
    "none": typed([]),
    "no items": b'{"metadata":{"resourceVersion":"7"}}',
    "null": b'{"metadata":{"resourceVersion":"7"},"items":null}',
    "with spaces": orjson.dumps(
        {"items": [numbered_pod(1), numbered_pod(2)], "metadata": {}}, option=orjson.OPT_INDENT_2
    ),
    "no objects": b'{"metadata":{},"items":[1,2,3]}',
}


def read(body: bytes, size: int) -> tuple[list[Any], str, int]:
    """Return the items, the list's version, and the number of items before the end. size: size of the pieces."""
    reader = ListReader()
    items = [item for at in range(0, len(body), size) for item in reader.feed(body[at : at + size])]
    page = reader.end()
    return items + page.items, page.resource_version, len(items)


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000, 100_000])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_all_items_come_once_in_their_order_however_the_body_is_cut(body: bytes, size: int) -> None:
    whole = parse_list_page(body)
    assert read(body, size)[:2] == (whole.items, whole.resource_version)
    assert is_list(body)


NESTED = st.recursive(st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=6)


@given(items=st.lists(st.fixed_dictionaries({"metadata": NESTED}), max_size=6), size=st.integers(1, 99))
def test_any_text_may_stand_in_items(items: list[Any], size: int) -> None:
    assert read(typed(items), size)[0] == items


@pytest.mark.parametrize("name", ["pods", "odd ones", "custom resources"])
def test_items_are_there_before_the_end(name: str) -> None:
    items, _, before = read(BODIES[name], 2000)
    assert before >= len(items) // 2


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"metadata":{},"items":[{"metadata":{}},{"metadata":', b'["items":[', b"[]"]
)
def test_truncated_or_invalid_list_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedError):
        read(body, 5)


def test_event_is_not_recognized_as_a_list() -> None:
    assert not is_list(b'{"type":"ADDED","object":{"kind":"Pod"}}\n')
    assert not is_list(b'{"object":{"kind":"Pod"},"type":"ADDED"}\n')
