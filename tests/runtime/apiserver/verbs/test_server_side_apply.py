"""Properties of server-side apply for arbitrary objects."""

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
    """Draw the fields of a Deployment that a manager applies, sufficient to create it."""
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
    return next((entry["fieldsV1"] for entry in entries if entry["manager"] == manager), {})


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
def test_applying_the_object_that_was_read_changes_only_managed_fields(first: Any, second: Any) -> None:
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
def test_fields_of_two_managers_are_merged_and_recorded_for_both(mine: Any, theirs: Any) -> None:
    api = Api()
    apply(api, "me", mine)
    applied = fields(api.get("deployments", "d"), "me")
    refused = apply(api, "other", theirs)
    both = apply(api, "other", theirs, force="true")
    others = fields(both, "other")
    kept = fields(both, "me")
    assert united(kept, applied) == applied  # only applied fields are managed
    if refused.status == 200:
        assert kept == applied
    # Each field has a manager, and those of the second manager have its values.
    assert united(united(kept, others), applied) == united(kept, others)
    containers = {container["name"]: container for container in both.obj["spec"]["template"]["spec"]["containers"]}
    for container in theirs["spec"]["template"]["spec"]["containers"]:
        assert containers[container["name"]]["image"] == container["image"]
    assert {container["name"] for container in mine["spec"]["template"]["spec"]["containers"]} <= set(containers)


@settings(max_examples=30, deadline=None)
@given(deployments(), deployments(), deployments())
def test_field_dropped_by_one_manager_stays_while_another_applies_it(first: Any, theirs: Any, then: Any) -> None:
    api = Api()
    apply(api, "me", first)
    before = apply(api, "other", theirs, force="true")
    after = apply(api, "me", then, force="true")
    assert (before.status, after.status) == (200, 200)
    names = {container["name"] for container in after.obj["spec"]["template"]["spec"]["containers"]}
    wanted = {
        container["name"] for body in (theirs, then) for container in body["spec"]["template"]["spec"]["containers"]
    }
    assert names == wanted
    labels = {**(theirs["metadata"].get("labels") or {}), **(then["metadata"].get("labels") or {})}
    assert (after.meta.get("labels") or {}) == labels
