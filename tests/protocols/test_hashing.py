"""Template hashes: equal to upstream's, stable, independent of the order of keys, different after a collision."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.protocols.fnv import fnv1a_32
from kcm.protocols.go_dump import dump
from kcm.protocols.hashing import safe_encode, template_hash

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}], "terminationGracePeriodSeconds": 30},
}


@pytest.mark.parametrize(
    ("collision_count", "expected"),
    [(None, "57d89bcf7b"), (0, "6fb95bf6d4"), (1, "67bdb885c"), (2**31 - 1, "58f44cf9d4")],
)
def test_hash_of_a_template_never_changes(collision_count: int | None, expected: str) -> None:
    assert template_hash(TEMPLATE, collision_count) == expected


def test_the_order_of_keys_does_not_count() -> None:
    turned = {key: TEMPLATE[key] for key in reversed(TEMPLATE)}
    assert list(turned) != list(TEMPLATE)
    assert template_hash(turned, None) == template_hash(TEMPLATE, None)


def test_the_order_of_lists_counts() -> None:
    assert template_hash({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}, None) != template_hash(
        {"spec": {"containers": [{"name": "b"}, {"name": "a"}]}}, None
    )


def test_each_collision_gives_another_hash() -> None:
    hashes = [template_hash(TEMPLATE, count) for count in (None, *range(50))]
    assert len(set(hashes)) == len(hashes)


@given(st.dictionaries(st.text(max_size=5), st.integers(-(2**31), 2**31), max_size=4), st.none() | st.integers(-1, 9))
def test_a_hash_may_stand_in_a_name_and_in_a_label(template: dict[str, int], collision_count: int | None) -> None:
    assert re.fullmatch(r"[bcdfghjklmnpqrstvwxz2456789]{1,10}", template_hash(template, collision_count))


@pytest.mark.parametrize(("text", "encoded"), [("", ""), ("0123456789", "456789bcdf"), ("az", "vs")])
def test_safe_encoding(text: str, encoded: str) -> None:
    assert safe_encode(text) == encoded


@pytest.mark.parametrize("length", [10, 20_000])
def test_cached_and_uncached_templates_have_the_hash_of_their_dump(length: int) -> None:
    template = {"metadata": {"annotations": {"a": "x" * length}}}
    assert template_hash(template, None) == safe_encode(str(fnv1a_32(dump(template).encode())))
