"""Strategic merge patches: cases and properties."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm.runtime.apiserver.schema.patches import apply_merge_patch
from kcm.runtime.apiserver.schema.strategic_merge import MergeField, MergeSchema, apply_strategic_merge

BY_NAME = MergeField(merge=True, merge_key="name")
ITEM = MergeSchema({"values": MergeField(merge=True), "children": BY_NAME})
SCHEMA = MergeSchema(
    {
        "items": MergeField(ITEM, merge=True, merge_key="name"),
        "values": MergeField(merge=True),
        "whole": MergeField(replace=True),
        "inner": MergeField(MergeSchema({"items": BY_NAME})),
    }
)


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


MAPS = [
    ("a value is set", {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
    ("a value is replaced", {"a": 1}, {"a": "x"}, {"a": "x"}),
    ("null removes", {"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    ("null of what is not there does nothing", {"b": 2}, {"a": None}, {"b": 2}),
    ("maps merge, whether named or not", {"m": {"a": 1, "b": 2}}, {"m": {"b": 3}}, {"m": {"a": 1, "b": 3}}),
    ("a new map comes without its nulls", {}, {"m": {"a": None, "b": {"c": None}}}, {"m": {"b": {}}}),
    ("a map over a scalar replaces it", {"m": 1}, {"m": {"a": None, "b": 2}}, {"m": {"b": 2}}),
    ("a map over null replaces it", {"m": None}, {"m": {"a": 1}}, {"m": {"a": 1}}),
    ("a map over a list replaces it", {"items": []}, {"items": {"a": 1}}, {"items": {"a": 1}}),
    ("a field may be replaced as a whole", {"whole": {"a": 1}}, {"whole": {"b": 2, "c": None}}, {"whole": {"b": 2}}),
    ("$patch: replace keeps nothing", {"m": {"a": 1}}, {"m": {"$patch": "replace", "b": 2}}, {"m": {"b": 2}}),
    ("$patch: delete empties a map", {"m": {"a": 1}}, {"m": {"$patch": "delete", "b": 2}}, {"m": {}}),
    ("$patch: delete of the object", {"a": 1}, {"$patch": "delete"}, {}),
    ("$patch: replace of the object", {"a": 1}, {"$patch": "replace", "b": 2}, {"b": 2}),
    ("a directive for a map that is not there does nothing", {}, {"m": {"$patch": "delete"}}, {}),
    ("$patch: replace takes no map that was not there", {}, {"m": {"$patch": "replace", "a": 1}}, {}),
    ("a directive over a scalar removes it", {"m": 1}, {"m": {"$patch": "delete"}}, {}),
    ("a directive deep in a new map is dropped", {}, {"m": {"n": {"$patch": "delete"}, "a": 1}}, {"m": {"a": 1}}),
    (
        "$retainKeys drops the others",
        {"m": {"a": 1, "b": 2}},
        {"m": {"$retainKeys": ["b", "c"], "c": 3}},
        {"m": {"b": 2, "c": 3}},
    ),
    (
        "$retainKeys permits nulls of others",
        {"m": {"a": 1, "b": 2}},
        {"m": {"$retainKeys": ["b"], "a": None}},
        {"m": {"b": 2}},
    ),
    ("$retainKeys of a new map is no field", {}, {"m": {"$retainKeys": ["a"], "a": 1}}, {"m": {"a": 1}}),
]

LISTS = [
    ("a list that is not named is replaced", {"x": [1, 2]}, {"x": [3]}, {"x": [3]}),
    ("also if its elements look mergeable", {"x": named("a")}, {"x": named("b")}, {"x": named("b")}),
    (
        "a replaced list keeps its elements, not their directives",
        {"x": [1]},
        {"x": [{"$patch": "delete", "k": None, "n": 1}]},
        {"x": [{"n": 1}]},
    ),
    ("a new element goes to the front", {"items": named("a")}, {"items": named("b")}, {"items": named("b", "a")}),
    (
        "elements are merged",
        {"items": [{"name": "a", "x": 1, "y": 1}]},
        {"items": [{"name": "a", "y": 2, "x": None}]},
        {"items": [{"name": "a", "y": 2}]},
    ),
    (
        "a new element comes without its nulls",
        {"items": []},
        {"items": [{"name": "a", "x": None}]},
        {"items": named("a")},
    ),
    (
        "a new element keeps what carries a directive, without it",
        {"items": named("b")},
        {"items": [{"name": "a", "m": {"$patch": "replace", "x": 1, "y": None}, "$retainKeys": ["m"]}]},
        {"items": [{"name": "a", "m": {"x": 1}}, {"name": "b"}]},
    ),
    (
        "a new list comes without directives",
        {},
        {"items": [{"name": "a", "$patch": "delete"}, {"name": "b", "x": None}]},
        {"items": named("b")},
    ),
    (
        "elements are deleted",
        {"items": named("a", "b", "c")},
        {"items": [{"name": "b", "$patch": "delete"}]},
        {"items": named("a", "c")},
    ),
    (
        "all elements with the key are deleted",
        {"items": named("a", "b", "a")},
        {"items": [{"name": "a", "$patch": "delete"}]},
        {"items": named("b")},
    ),
    (
        "deleting what is not there does nothing",
        {"items": named("a")},
        {"items": [{"name": "b", "$patch": "delete"}]},
        {"items": named("a")},
    ),
    (
        "delete and add in one patch",
        {"items": named("a")},
        {"items": [{"name": "a", "$patch": "delete"}, {"name": "b"}]},
        {"items": named("b")},
    ),
    (
        "the list is replaced",
        {"items": named("a", "b")},
        {"items": [{"name": "c", "x": None}, {"$patch": "replace"}]},
        {"items": named("c")},
    ),
    ("the list is emptied", {"items": named("a", "b")}, {"items": [{"$patch": "replace"}]}, {"items": []}),
    ("null removes a list", {"items": named("a")}, {"items": None}, {}),
    ("an empty patch list changes nothing", {"items": named("a")}, {"items": []}, {"items": named("a")}),
    (
        "the patch's elements take its order",
        {"items": named("a", "b")},
        {"items": named("b", "a")},
        {"items": named("b", "a")},
    ),
    (
        "of several with the same key the first is merged",
        {"items": [{"name": "a", "x": 1}, {"name": "a", "x": 2}]},
        {"items": [{"name": "a", "y": 3}]},
        {"items": [{"name": "a", "x": 1, "y": 3}, {"name": "a", "x": 2}]},
    ),
    (
        "and all of them stand where the first stood",
        {"items": [{"name": "a", "x": 1}, {"name": "b"}, {"name": "a", "x": 2}]},
        {"items": named("b")},
        {"items": [{"name": "a", "x": 1}, {"name": "a", "x": 2}, {"name": "b"}]},
    ),
    ("two empty lists are an empty list", {"items": []}, {"items": []}, {"items": []}),
    (
        "an element's lists merge too",
        {"items": [{"name": "a", "children": named("x")}]},
        {"items": [{"name": "a", "children": named("y")}]},
        {"items": [{"name": "a", "children": named("y", "x")}]},
    ),
    (
        "an element's map obeys $patch: replace",
        {"items": [{"name": "a", "m": {"x": 1}}]},
        {"items": [{"name": "a", "m": {"y": 1, "$patch": "replace"}}]},
        {"items": [{"name": "a", "m": {"y": 1}}]},
    ),
    (
        "$retainKeys in an element",
        {"items": [{"name": "a", "x": {}, "y": 1}]},
        {"items": [{"name": "a", "$retainKeys": ["name", "z"], "z": {}}]},
        {"items": [{"name": "a", "z": {}}]},
    ),
    (
        "a list within a map",
        {"inner": {"items": named("a")}},
        {"inner": {"items": named("b")}},
        {"inner": {"items": named("b", "a")}},
    ),
    ("values are united", {"values": ["a", "b"]}, {"values": ["c", "a"]}, {"values": ["c", "a", "b"]}),
    ("values are taken as they are when new", {}, {"values": ["b", "a"]}, {"values": ["b", "a"]}),
    (
        "values are deleted",
        {"values": ["a", "b", "c"]},
        {"$deleteFromPrimitiveList/values": ["b", "x"]},
        {"values": ["a", "c"]},
    ),
    ("the last value is deleted", {"values": ["a"]}, {"$deleteFromPrimitiveList/values": ["a"]}, {"values": []}),
    (
        "values are deleted from a list that does not merge, too",
        {"x": [1, 2]},
        {"$deleteFromPrimitiveList/x": [1]},
        {"x": [2]},
    ),
    ("deleting values of no list does nothing", {}, {"$deleteFromPrimitiveList/values": ["a"]}, {}),
    (
        "delete and add values",
        {"values": ["a", "b"]},
        {"$deleteFromPrimitiveList/values": ["a"], "values": ["c"]},
        {"values": ["c", "b"]},
    ),
    ("numbers are values", {"values": [1, 2]}, {"values": [3]}, {"values": [3, 1, 2]}),
]

ORDERS = [
    ("the order is set", named("a", "b", "c"), None, named("c", "a", "b"), named("c", "a", "b")),
    (
        "what only the object has keeps its place",
        named("x", "a", "y", "b", "z"),
        None,
        named("b", "a"),
        named("x", "y", "b", "a", "z"),
    ),
    (
        "an added element goes where the order says",
        named("a", "b"),
        named("c"),
        named("a", "c", "b"),
        named("a", "c", "b"),
    ),
    (
        "an element is merged and moved",
        [{"name": "a", "x": 1}, {"name": "b"}],
        [{"name": "b", "y": 2}],
        named("b", "a"),
        [{"name": "b", "y": 2}, {"name": "a", "x": 1}],
    ),
    (
        "an element is deleted",
        named("a", "b", "c"),
        [{"name": "b", "$patch": "delete"}],
        named("c", "a"),
        named("c", "a"),
    ),
    ("the first mention in the order counts", named("b", "a"), None, named("a", "b", "a"), named("a", "b")),
    ("the order may name what is nowhere", named("a", "b"), None, named("b", "q", "a"), named("b", "a")),
    ("a list of the patch alone is ordered", None, named("a", "b"), named("a", "b"), named("a", "b")),
    (
        "a new element takes the place of a deleted one behind what only the object has",
        named("a", "b", "x"),
        [{"name": "c"}, {"name": "a", "$patch": "delete"}],
        named("b", "c"),
        named("b", "x", "c"),
    ),
    (
        "without a deleted one it goes before what only the object has",
        named("b", "x"),
        named("c"),
        named("b", "c"),
        named("b", "c", "x"),
    ),
    (
        "a replaced list takes the order, too",
        named("a", "x"),
        [{"name": "b"}, {"name": "a"}, {"$patch": "replace"}],
        named("b", "a", "c"),
        named("b", "a"),
    ),
    ("an empty order changes nothing", named("a", "b"), None, [], named("a", "b")),
]


@pytest.mark.parametrize(
    ("original", "patch", "result"), [case[1:] for case in MAPS + LISTS], ids=[case[0] for case in MAPS + LISTS]
)
def test_strategic_merge_patch_is_applied(
    original: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]
) -> None:
    before = deepcopy((original, patch))
    assert apply_strategic_merge(original, patch, schema=SCHEMA) == result
    assert (original, patch) == before


@pytest.mark.parametrize(
    ("original", "patch", "order", "result"), [case[1:] for case in ORDERS], ids=[case[0] for case in ORDERS]
)
def test_set_element_order_sorts_elements(original: Any, patch: Any, order: Any, result: Any) -> None:
    obj = {} if original is None else {"items": original}
    whole_patch = {"$setElementOrder/items": order} | ({} if patch is None else {"items": patch})
    before = deepcopy((obj, whole_patch))
    assert apply_strategic_merge(obj, whole_patch, schema=SCHEMA) == {"items": result}
    assert (obj, whole_patch) == before


def test_set_element_order_sorts_values() -> None:
    patch = {"$setElementOrder/values": ["c", "a"], "values": ["c"], "$deleteFromPrimitiveList/values": ["b"]}
    assert apply_strategic_merge({"values": ["a", "x", "b"]}, patch, schema=SCHEMA) == {"values": ["c", "a", "x"]}


@pytest.mark.parametrize("patch", [{"$setElementOrder/items": named("a")}, {"$setElementOrder/items": []}])
def test_empty_set_element_order_has_no_effect(patch: dict[str, Any]) -> None:
    assert apply_strategic_merge({"a": 1}, patch, schema=SCHEMA) == {"a": 1}


def test_null_beside_an_order_removes_the_list() -> None:
    patch = {"$setElementOrder/items": named("a"), "items": None}
    assert apply_strategic_merge({"items": named("a")}, patch, schema=SCHEMA) == {}


@pytest.mark.parametrize(
    ("original", "patch", "reason"),
    [
        ({}, [], "a strategic merge patch must be a JSON object"),
        ({}, None, "a strategic merge patch must be a JSON object"),
        ({}, {"$patch": "merge"}, r"unknown \$patch 'merge'"),
        ({"m": {"a": 1}}, {"m": {"$patch": "erase"}}, r"unknown \$patch 'erase'"),
        ({"m": {"a": 1}}, {"m": {"$patch": ["delete"]}}, r"unknown \$patch"),
        ({"items": named("a")}, {"items": [{"name": "a", "$patch": "merge"}]}, r"items: unknown \$patch 'merge'"),
        ({"items": named("a")}, {"items": [{"x": 1}]}, "items: element without merge key name"),
        ({"items": named("a")}, {"items": [{"$patch": "delete"}]}, "without merge key name"),
        ({"items": [{"x": 1}]}, {"items": named("a")}, "without merge key name"),
        ({"items": named("a")}, {"items": [{"name": ["a"]}]}, "without merge key name"),
        ({"items": named("a")}, {"items": ["a"]}, "items: the elements of a list have different types"),
        ({"items": [["a"]]}, {"items": [["b"]]}, "lists of lists cannot be merged"),
        ({"values": named("a")}, {"values": named("b")}, "maps cannot be merged in a list without a merge key"),
        ({"values": ["a"]}, {"$deleteFromPrimitiveList/values": "a"}, "expected a list of strings or numbers"),
        ({"values": ["a"]}, {"$deleteFromPrimitiveList/values": [["a"]]}, "expected a list of strings or numbers"),
        ({"m": {}}, {"m": {"$retainKeys": ["a"], "b": 1}}, r"\$retainKeys does not name 'b'"),
        ({"m": {}}, {"m": {"$retainKeys": "a"}}, "expected a list of strings"),
        ({"items": named("a")}, {"$setElementOrder/items": "a"}, r"\$setElementOrder/items requires lists"),
        ({"items": 5}, {"$setElementOrder/items": named("a")}, r"\$setElementOrder/items requires lists"),
        (
            {"items": named("a")},
            {"$setElementOrder/items": named("b", "a"), "items": named("a", "b")},
            "not in the order",
        ),
        ({"items": named("a")}, {"$setElementOrder/items": named("a"), "items": named("b")}, "not in the order"),
        ({"values": ["a"]}, {"$setElementOrder/values": ["a"], "values": ["b"]}, "not in the order"),
        ({"x": named("a")}, {"$setElementOrder/x": named("a")}, "the list has no merge key"),
        ({"items": named("a")}, {"$setElementOrder/items": [{"x": 1}]}, "without merge key name"),
    ],
)
def test_invalid_strategic_merge_patch_is_rejected(original: dict[str, Any], patch: Any, reason: str) -> None:
    before = deepcopy(original)
    with pytest.raises(ValueError, match=reason):
        apply_strategic_merge(original, patch, schema=SCHEMA)
    assert original == before


# Properties.

NAMES = st.sampled_from(["a", "b", "c", "d"])
FIELDS = st.dictionaries(st.sampled_from(["x", "y"]), st.none() | st.integers(0, 3), max_size=2)
ELEMENTS = st.lists(st.tuples(NAMES, FIELDS), max_size=4, unique_by=lambda pair: pair[0]).map(
    lambda pairs: [{"name": name, **fields} for name, fields in pairs]
)
VALUES = st.lists(NAMES, max_size=4, unique=True)
PATCHES = st.fixed_dictionaries({}, optional={"items": ELEMENTS, "values": VALUES, "m": FIELDS, "scalar": NAMES})
OBJECTS = st.fixed_dictionaries({}, optional={"items": ELEMENTS, "values": VALUES, "m": FIELDS, "scalar": NAMES})


@given(OBJECTS, PATCHES)
def test_strategic_merge_patch_is_idempotent_and_does_not_change_its_arguments(
    obj: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = deepcopy((obj, patch))
    once = apply_strategic_merge(obj, patch, schema=SCHEMA)
    assert apply_strategic_merge(once, patch, schema=SCHEMA) == once
    assert (obj, patch) == before


@given(OBJECTS, PATCHES)
def test_result_contains_all_elements_of_patch_and_object(obj: dict[str, Any], patch: dict[str, Any]) -> None:
    patched = apply_strategic_merge(obj, patch, schema=SCHEMA)
    by_name = {element["name"]: element for element in patched.get("items", [])}
    former = {element["name"]: element for element in obj.get("items", [])}
    assert by_name.keys() == former.keys() | {element["name"] for element in patch.get("items", [])}
    for element in patch.get("items", []):
        expected = apply_merge_patch(former.get(element["name"], {}), element)
        assert by_name[element["name"]] == expected
    assert set(patched.get("values", [])) == {*obj.get("values", []), *patch.get("values", [])}


@given(ELEMENTS, st.permutations(["a", "b", "c", "d"]))
def test_a_full_order_is_kept(elements: list[dict[str, Any]], order: list[str]) -> None:
    patched = apply_strategic_merge({"items": elements}, {"$setElementOrder/items": named(*order)}, schema=SCHEMA)
    assert [element["name"] for element in patched["items"]] == [
        name for name in order if name in {element["name"] for element in elements}
    ]


@given(ELEMENTS, VALUES)
def test_elements_without_a_set_order_keep_their_order(elements: list[dict[str, Any]], order: list[str]) -> None:
    patched = apply_strategic_merge({"items": elements}, {"$setElementOrder/items": named(*order)}, schema=SCHEMA)
    assert sorted(map(str, patched["items"])) == sorted(map(str, elements))
    others = [element["name"] for element in patched["items"] if element["name"] not in order]
    assert others == [element["name"] for element in elements if element["name"] not in order]


JSON = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["a", "delete", "replace", "merge"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("a", "name", "items", "values", "whole", "$patch", "$retainKeys"),
                    *("$setElementOrder/items", "$setElementOrder/values", "$deleteFromPrimitiveList/values"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(OBJECTS, JSON)
def test_random_patch_returns_an_object_without_directives_or_raises_value_error(
    obj: dict[str, Any], patch: Any
) -> None:
    before = deepcopy((obj, patch))
    try:
        patched: Any = apply_strategic_merge(obj, patch, schema=SCHEMA)
    except ValueError:
        patched = {}
    assert isinstance(patched, dict)
    assert "$" not in str(patched)
    assert (obj, patch) == before


class CountedKey(str):
    """String that counts its comparisons."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedKey.compared += 1
        return str.__eq__(self, other)


def test_set_element_order_takes_linear_time() -> None:
    n = 1000
    schema = MergeSchema({"items": MergeField(merge=True, merge_key="name")})
    new = [{"name": CountedKey(f"new{i}")} for i in range(n)]
    obj = {"items": [{"name": CountedKey(f"old{i}")} for i in range(n)]}
    apply_strategic_merge(obj, {"$setElementOrder/items": new, "items": new}, schema=schema)
    assert CountedKey.compared < 50 * n
