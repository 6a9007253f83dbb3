"""Merge patches and JSON patches: examples of their RFCs, and properties."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.runtime.apiserver.schema.patches import apply_json_patch, apply_merge_patch


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_examples_of_rfc_7386(original: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch({"member": original}, {"member": patch}) == {"member": result}
    if isinstance(original, dict) and isinstance(patch, dict):
        assert apply_merge_patch(original, patch) == result


def test_null_inside_a_list_of_a_merge_patch_is_kept() -> None:
    assert apply_merge_patch({}, {"a": [None, {"b": None}]}) == {"a": [None, {"b": None}]}


@pytest.mark.parametrize("patch", [None, [], "text", 5, [{"op": "add"}]])
def test_merge_patch_must_be_an_object(patch: object) -> None:
    with pytest.raises(ValueError, match="a merge patch must be a JSON object"):
        apply_merge_patch({"a": 1}, patch)


NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
WITHOUT_NULLS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
WITH_NULLS = st.recursive(
    st.none() | SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, WITHOUT_NULLS, max_size=3)
PATCHES = st.dictionaries(NAMES, WITH_NULLS, max_size=3)


def difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch that turns `before` into `after`, for objects without nulls."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        former = before.get(name)
        if isinstance(value, dict) and isinstance(former, dict):
            patch[name] = difference(former, value)
        elif former != value or type(former) is not type(value):
            patch[name] = value
    return patch


@given(OBJECTS, PATCHES)
def test_merge_patch_is_idempotent_and_does_not_change_its_arguments(
    obj: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = deepcopy((obj, patch))
    once = apply_merge_patch(obj, patch)
    assert apply_merge_patch(once, patch) == once
    assert (obj, patch) == before


@given(OBJECTS, OBJECTS)
def test_merge_patch_can_turn_any_object_into_any_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert apply_merge_patch(before, difference(before, after)) == after


@pytest.mark.parametrize(
    ("original", "operations", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
        (
            {"foo": ["bar", "baz"]},
            [{"op": "add", "path": "/foo/1", "value": "qux"}],
            {"foo": ["bar", "qux", "baz"]},
        ),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["x"]}], {"foo": ["bar", ["x"]]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        (
            {"foo": ["all", "grass", "cows", "eat"]},
            [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        (
            {"baz": "qux", "foo": ["a", 2, "c"]},
            [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
            {"baz": "qux", "foo": ["a", 2, "c"]},
        ),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"foo": None}, [{"op": "test", "path": "/foo", "value": None}], {"foo": None}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": 1}, [{"op": "add", "path": "/b", "value": {}, "unknown": 5}], {"a": 1, "b": {}}),
        (
            {},
            [{"op": "add", "path": "/a", "value": {}}, {"op": "add", "path": "/a/b", "value": 1}],
            {"a": {"b": 1}},
        ),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_json_patch_operations_of_rfc_6902(original: Any, operations: Any, result: Any) -> None:
    before = deepcopy((original, operations))
    assert apply_json_patch(original, operations) == result
    assert (original, operations) == before


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/a", "value": 2}],
        [{"op": "test", "path": "/a", "value": "1"}],
        [{"op": "test", "path": "/nope", "value": 1}],
        [{"op": "remove", "path": "/nope"}],
        [{"op": "replace", "path": "/nope", "value": 1}],
        [{"op": "add", "path": "/nope/deeper", "value": 1}],
        [{"op": "add", "path": "/list/5", "value": 1}],
        [{"op": "add", "path": "/list/x", "value": 1}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": "/a"}],
        [{"op": "add", "value": 1}],
        [{"op": "move", "path": "/b"}],
        [{"op": "move", "from": "/list", "path": "/list/0"}],
        [{"op": "jump", "path": "/a"}],
        [{"path": "/a", "value": 1}],
        [{"op": 5, "path": 5}],
        [{"op": "replace", "path": "", "value": [1]}],
        [{"op": "remove", "path": ""}],
        ["add"],
        [None],
        {"op": "add", "path": "/b", "value": 1},
        "add",
        None,
        # the last operation fails, so the first is not applied either
        [{"op": "add", "path": "/b", "value": 1}, {"op": "test", "path": "/a", "value": 2}],
    ],
)
def test_failed_json_patch_changes_nothing(operations: Any) -> None:
    obj = {"a": 1, "list": [1, 2]}
    with pytest.raises(ValueError):
        apply_json_patch(obj, operations)
    assert obj == {"a": 1, "list": [1, 2]}


def test_error_of_a_failed_test_operation_shows_json_types() -> None:
    with pytest.raises(ValueError, match=r"cannot be applied: 1 is not equal to tested value 2$"):
        apply_json_patch({"a": 1}, [{"op": "test", "path": "/a", "value": 2}])


PATHS = st.sampled_from(["", "/", "/a", "/a/0", "/a/-", "/b/c", "a", "~", "/~2", 5, None])
OPERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "nope", None, 3]),
        "path": PATHS,
        "from": PATHS,
        "value": WITH_NULLS,
    },
)


@given(OBJECTS, st.lists(OPERATIONS, max_size=4))
def test_random_operations_return_an_object_or_raise_value_error(obj: dict[str, Any], operations: list[Any]) -> None:
    before = deepcopy((obj, operations))
    try:
        result = apply_json_patch(obj, operations)
    except ValueError:
        result = {}
    assert isinstance(result, dict)
    assert (obj, operations) == before


def test_growth_by_copies_of_copies_is_limited() -> None:
    copies = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 10
    with pytest.raises(ValueError, match=r"the accumulated size increase of copy is \d+, exceeding the limit 3145728"):
        apply_json_patch({"a": ["x" * 20_000]}, copies)


def test_many_small_copies_are_carried_out() -> None:
    copies = [{"op": "copy", "from": "/a", "path": f"/b{i}"} for i in range(100)]
    assert len(apply_json_patch({"a": 1}, copies)) == 101
