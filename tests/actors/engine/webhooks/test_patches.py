"""JSON patches: applied by the API server's code, they give exactly the wanted object."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.actors.engine.webhooks.patches import carried_over, json_patch
from kcm.runtime.apiserver.schema.patches import apply_json_patch

TEXTS = st.sampled_from(["a", "b", "a/b", "~", "~1", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
MAPS = st.dictionaries(TEXTS, VALUES, max_size=4)


@given(MAPS, MAPS)
def test_a_patch_changes_one_object_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert sorted_repr(apply_json_patch(before, json_patch(before, after))) == sorted_repr(after)
    assert json_patch(after, after) == []


def sorted_repr(value: Any) -> str:
    """Return a text that is equal for equal JSON values only: true differs from 1, and the order of maps is ignored."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name!r}:{sorted_repr(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(sorted_repr, value)) + "]"
    return repr(value)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {}, [{"op": "remove", "path": "/a"}]),
        ({}, {"a/b": {"c": 1}}, [{"op": "add", "path": "/a~1b", "value": {"c": 1}}]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [{"op": "replace", "path": "/a/b", "value": 2}]),
        ({"a": [1, 2]}, {"a": [2]}, [{"op": "replace", "path": "/a", "value": [2]}]),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": {"b": 1}}, {"a": None}, [{"op": "replace", "path": "/a", "value": None}]),
    ],
)
def test_operations_are_minimal(before: Any, after: Any, expected: Any) -> None:
    assert json_patch(before, after) == expected


@given(MAPS, MAPS)
def test_changes_of_a_whole_object_are_carried_over_completely(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert sorted_repr(carried_over(before, before, after)) == sorted_repr(after)


@pytest.mark.parametrize(
    ("whole", "before", "after", "expected"),
    [
        # Fields that the model does not define are kept.
        ({"a": 1, "more": 2}, {"a": 1}, {"a": 3}, {"a": 3, "more": 2}),
        # A default of the model that the function has not changed is not written.
        ({}, {"a": 1}, {"a": 1}, {}),
        ({}, {"a": 1, "b": 1}, {"a": 1, "b": 2}, {"b": 2}),
        # An unset field is removed.
        ({"a": 1, "b": 2, "more": 3}, {"a": 1, "b": 2}, {"a": 1}, {"a": 1, "more": 3}),
        (
            {"containers": [{"name": "x", "image": "1", "more": 1}, {"name": "y", "more": 2}]},
            {"containers": [{"name": "x", "image": "1"}, {"name": "y"}]},
            {"containers": [{"name": "new"}, {"name": "y", "image": "2"}]},
            {"containers": [{"name": "new"}, {"name": "y", "image": "2", "more": 2}]},
        ),
        (
            {"ports": [{"port": 1, "more": 1}, {"port": 2, "more": 2}]},
            {"ports": [{"port": 1}, {"port": 2}]},
            {"ports": [{"port": 0}, {"port": 1}, {"port": 2}]},
            {"ports": [{"port": 0}, {"port": 1, "more": 1}, {"port": 2, "more": 2}]},
        ),
        (
            {"ports": [{"port": 1, "more": 1}]},
            {"ports": [{"port": 1}]},
            {"ports": [{"port": 3}]},
            {"ports": [{"port": 3, "more": 1}]},
        ),
    ],
)
def test_changes_of_a_model_keep_what_the_model_lacks(whole: Any, before: Any, after: Any, expected: Any) -> None:
    assert carried_over(whole, before, after) == expected
