"""ControllerRevisions: data, names, order, equality, and surplus revisions."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.actors.controllers.shared.controller_revisions import (
    HASH_LABEL,
    create_revision,
    data_bytes,
    data_hash,
    equal_revisions,
    labelled,
    new_revision,
    next_number,
    revision_name,
    same_data,
    sort_revisions,
    surplus,
    template_data,
    update_revision,
    with_template_of,
)
from kcm.protocols.fnv import fnv1_32
from kcm.protocols.objects import Object, name_of
from kcm.protocols.resources import STATEFULSETS

CONTAINER = {"name": "main", "image": "nginx", "resources": {}}
TEMPLATE: Object = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}


def owner(template: Any = TEMPLATE, name: str = "web") -> Object:
    return {"metadata": {"name": name, "namespace": "default", "uid": "uid-of-web"}, "spec": {"template": template}}


def revision(name: str, number: int, *, created: str = "2026-01-01T00:00:00Z", template: Any = TEMPLATE) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": created},
        "data": template_data(owner(template)),
        "revision": number,
    }


def names(revisions: list[Object]) -> list[str]:
    return [name_of(each) for each in revisions]


def test_data_contains_the_template_and_is_encoded_as_by_go() -> None:
    data = template_data(owner({"spec": {"z": "a<b>&c\u2028", "a": 1}, "metadata": {}}))
    assert data_bytes(data) == (
        b'{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"a":1,"z":"a\\u003cb\\u003e\\u0026c\\u2028"}}}}'
    )


@pytest.mark.parametrize("spec", [None, {}, {"template": "x"}])
def test_error_for_missing_template_names_the_owner(spec: Any) -> None:
    with pytest.raises(ValueError, match=r"default/web: spec\.template is a map"):
        template_data({"metadata": {"name": "web", "namespace": "default"}, "spec": spec})


# http://www.isthe.com/chongo/tech/comp/fnv/
@pytest.mark.parametrize(("text", "value"), [(b"", 0x811C9DC5), (b"a", 0x050C5D7E), (b"foobar", 0x31F0B262)])
def test_hash_is_fnv_1(text: bytes, value: int) -> None:
    assert fnv1_32(text) == value


def test_each_collision_changes_the_name() -> None:
    data = template_data(owner())
    assert len({data_hash(data, count) for count in (None, 0, 1, 2)}) == 4


def test_long_owner_name_is_truncated() -> None:
    assert revision_name("web", "abc") == "web-abc"
    assert revision_name("w" * 253, "abc") == "w" * 223 + "-abc"


def test_new_revision_is_owned_and_named_by_the_hash_of_its_data() -> None:
    data = template_data(owner())
    made = new_revision(owner(), STATEFULSETS, labels={"app": "web"}, data=data, revision=3, collision_count=0)
    hash = data_hash(data, 0)
    assert made["metadata"]["name"] == f"web-{hash}"
    assert made["metadata"]["labels"] == {"app": "web", HASH_LABEL: hash}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-of-web"
    assert (made["data"], made["revision"]) == (data, 3)


def test_revisions_are_ordered_by_number_creation_and_name() -> None:
    late = "2026-01-01T00:00:01Z"
    revisions = [revision("d", 2), revision("c", 1, created=late), revision("b", 1), revision("a", 1)]
    assert names(sort_revisions(revisions)) == ["a", "b", "c", "d"]


def test_next_number_is_above_all_others() -> None:
    assert next_number([]) == 1
    assert next_number([revision("a", 7), revision("b", 3)]) == 8


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (TEMPLATE, True),
        ({"spec": TEMPLATE["spec"], "metadata": TEMPLATE["metadata"]}, True),
        ({**TEMPLATE, "metadata": {**TEMPLATE["metadata"], "creationTimestamp": None}}, True),  # as until 1.33
        ({**TEMPLATE, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}, True),
        ({**TEMPLATE, "spec": {"containers": [{**CONTAINER, "image": "nginx:2"}]}}, False),
        ({**TEMPLATE, "metadata": {"labels": {"app": "web", "tier": ""}}}, False),
    ],
)
def test_revisions_with_semantically_equal_templates_are_equal(other: Object, same: bool) -> None:
    assert same_data(revision("a", 1), revision("b", 2, template=other)) is same


def test_data_of_other_forms_are_compared_literally() -> None:
    assert same_data({"data": {"a": 1}}, {"data": {"a": 1}})
    assert not same_data({"data": {"a": 1}}, {"data": {"a": 1, "b": None}})
    assert not same_data({"data": {"a": 1}}, revision("a", 1))


def test_equal_revisions_keep_their_order() -> None:
    other = {**TEMPLATE, "spec": {}}
    revisions = [revision("b", 1), revision("x", 2, template=other), revision("a", 3)]
    assert names(equal_revisions(revisions, revision("needle", 0))) == ["b", "a"]


@pytest.mark.parametrize(
    ("limit", "live", "gone"),
    [(2, [], ["a"]), (0, [], ["a", "b", "c"]), (3, [], []), (-1, [], []), (1, ["a"], ["b"]), (0, ["a", "b", "c"], [])],
)
def test_oldest_unused_revisions_are_surplus(limit: int, live: list[str], gone: list[str]) -> None:
    revisions = [revision("c", 3), revision("a", 1), revision("b", 2)]
    assert names(surplus(revisions, limit=limit, live=live)) == gone


def test_template_is_restored_from_a_revision() -> None:
    changed = owner({"metadata": {}, "spec": {}})
    assert with_template_of(revision("a", 1), changed) == owner()
    with pytest.raises(ValueError, match="controllerrevision default/a has no template"):
        with_template_of({**revision("a", 1), "data": {"a": 1}}, changed)


def test_data_is_sorted_in_creations_and_unchanged_in_updates() -> None:
    made = {**revision("a", 1), "data": {"b": "<", "a": 1}}
    assert b'"data":{"a":1,"b":"\\u003c"}' in create_revision(made).body
    sent = update_revision(labelled(made, "hash", "x"))
    assert b'"data":{"b":"\\u003c","a":1}' in sent.body
    assert orjson.loads(sent.body)["metadata"]["labels"] == {"hash": "x"}
    assert orjson.loads(sent.body)["kind"] == "ControllerRevision"
