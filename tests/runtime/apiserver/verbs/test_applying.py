"""What holds of server-side apply, whatever is applied."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.runtime.apiserver.schema.field_sets import united
from tests.runtime.apiserver.conftest import Answer, Api

NAMES = st.sampled_from("abc")
VALUES = st.sampled_from("12")
CONTAINERS = st.lists(NAMES, min_size=1, max_size=3, unique=True)


@st.composite
def deployments(draw: st.DrawFn) -> dict[str, Any]:
    """What a manager may say of a Deployment; enough to create it."""
    containers = [
        {
            "name": name,
            "image": draw(VALUES),
            **({"env": [{"name": draw(NAMES), "value": draw(VALUES)}]} if draw(st.booleans()) else {}),
        }
        for name in draw(CONTAINERS)
    ]
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}},
    }
    if draw(st.booleans()):
        spec["replicas"] = draw(st.integers(0, 2))
    labels = draw(st.dictionaries(NAMES, VALUES, max_size=2))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", **({"labels": labels} if labels else {})},
        "spec": spec,
    }


def apply(api: Api, manager: str, body: Any, **query: str) -> Answer:
    path = api.path("deployments", "d")
    return api.send("PATCH", path, body, type_="application/apply-patch+yaml", fieldManager=manager, **query)


def fields(answer: Answer, manager: str) -> Any:
    entries = answer.meta.get("managedFields", [])
    return next((one["fieldsV1"] for one in entries if one["manager"] == manager), {})


@settings(max_examples=30, deadline=None)
@given(deployments(), deployments())
def test_applying_again_changes_nothing(first: Any, second: Any) -> None:
    api = Api()
    assert apply(api, "me", first).status == 201
    once = apply(api, "me", second)
    api.clock.time += 60
    twice = apply(api, "me", second)
    assert (once.status, twice.obj) == (200, once.obj)


@settings(max_examples=30, deadline=None)
@given(deployments(), deployments())
def test_who_applies_what_it_reads_changes_only_who_manages_it(first: Any, second: Any) -> None:
    api = Api()
    apply(api, "me", first)
    read = apply(api, "other", second, force="true").obj
    body = {**read, "metadata": {name: value for name, value in read["metadata"].items() if name != "managedFields"}}
    after = apply(api, "third", body)
    assert after.status == 200
    assert after.obj["spec"] == read["spec"]
    assert after.meta["generation"] == read["metadata"]["generation"]


@settings(max_examples=30, deadline=None)
@given(deployments(), deployments())
def test_what_two_say_is_all_there_and_managed_by_those_who_say_it(mine: Any, theirs: Any) -> None:
    api = Api()
    apply(api, "me", mine)
    said = fields(api.get("deployments", "d"), "me")
    refused = apply(api, "other", theirs)
    both = apply(api, "other", theirs, force="true")
    others = fields(both, "other")
    kept = fields(both, "me")
    assert united(kept, said) == said  # nothing is managed that was not said
    if refused.status == 200:
        assert kept == said
    # All of it is somebody's, and what the second said has its values.
    assert united(united(kept, others), said) == united(kept, others)
    containers = {one["name"]: one for one in both.obj["spec"]["template"]["spec"]["containers"]}
    for one in theirs["spec"]["template"]["spec"]["containers"]:
        assert containers[one["name"]]["image"] == one["image"]
    assert {one["name"] for one in mine["spec"]["template"]["spec"]["containers"]} <= set(containers)


@settings(max_examples=30, deadline=None)
@given(deployments(), deployments(), deployments())
def test_what_one_leaves_out_stays_as_long_as_another_says_it(first: Any, theirs: Any, then: Any) -> None:
    api = Api()
    apply(api, "me", first)
    before = apply(api, "other", theirs, force="true")
    after = apply(api, "me", then, force="true")
    assert (before.status, after.status) == (200, 200)
    names = {one["name"] for one in after.obj["spec"]["template"]["spec"]["containers"]}
    wanted = {one["name"] for body in (theirs, then) for one in body["spec"]["template"]["spec"]["containers"]}
    assert names == wanted
    said = {**(theirs["metadata"].get("labels") or {}), **(then["metadata"].get("labels") or {})}
    assert (after.meta.get("labels") or {}) == said
