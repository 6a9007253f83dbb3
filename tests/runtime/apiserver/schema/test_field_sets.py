"""Sets of fields, in the form of FieldsV1."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kcm.runtime.apiserver.schema.field_sets import (
    Tree,
    common,
    field_set,
    has_path,
    minus,
    paths,
    united,
    with_named_members,
    without,
)
from kcm.runtime.apiserver.schema.merge_types import DEDUCED, built_in

POD = built_in("io.k8s.api.core.v1.Pod")
WEB: Any = {
    "metadata": {"labels": {"app": "web"}, "finalizers": ["a/b"]},
    "spec": {
        "nodeSelector": {"x": "y"},
        "containers": [{"name": "web", "image": "nginx", "args": ["-v"], "ports": [{"containerPort": 80}]}],
        "tolerations": [{"key": "a"}],
        "securityContext": {},
        "hostname": None,
    },
}
FIELDS = {
    "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {'v:"a/b"': {}}},
    "f:spec": {
        "f:nodeSelector": {},
        "f:containers": {
            'k:{"name":"web"}': {
                ".": {},
                "f:name": {},
                "f:image": {},
                "f:args": {},
                "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
            }
        },
        "f:tolerations": {},
        "f:securityContext": {},
        "f:hostname": {},
    },
}


def test_fields_of_an_object_depend_on_its_type() -> None:
    assert field_set(WEB, POD) == FIELDS


def test_untyped_maps_are_granular_and_untyped_lists_atomic() -> None:
    of_no_known_type = {"spec": {"a": {"b": 1}, "c": [{"name": "d"}]}}
    found = {"f:spec": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:c": {}}}
    assert field_set(of_no_known_type, DEDUCED) == found


def test_duplicate_element_is_one_field() -> None:
    twice = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "y"}]}}
    assert field_set(twice, POD) == {"f:spec": {"f:containers": {'k:{"name":"a"}': {}}}}


def test_member_does_not_include_fields_below_it() -> None:
    """Like fieldpath's Set: a map that is managed as a whole is distinct from its fields."""
    itself, below = {"f:a": {}}, {"f:a": {"f:b": {}}}
    both = {"f:a": {".": {}, "f:b": {}}}
    assert united(itself, below) == united(below, itself) == both
    assert minus(both, itself) == below
    assert minus(both, below) == itself
    assert minus(itself, below) == itself
    assert common(both, itself) == itself
    assert common(itself, below) == {}
    assert without(both, itself) == {}
    assert without(both, below) == itself


def test_fields_of_structs_become_members_and_those_of_maps_do_not() -> None:
    fields = {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:containers": {'k:{"name":"c"}': {"f:image": {}}}}}
    assert with_named_members(fields, POD) == {
        "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
        "f:spec": {".": {}, "f:containers": {".": {}, 'k:{"name":"c"}': {"f:image": {}}}},
    }


def test_members_are_described() -> None:
    fields = {"f:spec": {"f:l": {'k:{"name":"w"}': {".": {}, "f:x": {}}, 'v:"a"': {}}}, "f:a": {}}
    assert list(paths(fields)) == [".a", '.spec.l[name="w"]', '.spec.l[="a"]', '.spec.l[name="w"].x']


STEPS = st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'v:"y"'])
BELOW: st.SearchStrategy[Tree] = st.recursive(
    st.just({}),
    lambda inner: st.builds(
        lambda fields, itself: {**({".": {}} if itself and fields else {}), **fields},
        st.dictionaries(STEPS, inner, max_size=3),
        st.booleans(),
    ),
    max_leaves=8,
)
TREES = st.dictionaries(STEPS, BELOW, max_size=3)


def members(fields: Tree, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the members as a Python set."""
    found = set()
    for step, inner in fields.items():
        if step == ".":
            found.add(path)
            continue
        if not inner:
            found.add((*path, step))
        found |= members(inner, (*path, step))
    return found


@given(TREES, TREES)
def test_union_difference_and_intersection_are_those_of_sets(first: Tree, second: Tree) -> None:
    assert members(united(first, second)) == members(first) | members(second)
    assert members(minus(first, second)) == members(first) - members(second)
    assert members(common(first, second)) == members(first) & members(second)
    covered = {path for path in members(first) for end in range(1, len(path) + 1) if path[:end] in members(second)}
    assert members(without(first, second)) == members(first) - covered
    assert all(has_path(first, path) for path in members(first))
