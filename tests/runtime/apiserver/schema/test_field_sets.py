"""Sets of fields, in the form of FieldsV1."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.apiserver.schema.field_sets import common, differing, field_set, minus, paths, united, without_fields

POD = "io.k8s.api.core.v1.Pod"
WEB: Any = {
    "metadata": {"labels": {"app": "web"}, "finalizers": ["a/b"]},
    "spec": {
        "nodeSelector": {"x": "y"},
        "containers": [{"name": "web", "image": "nginx", "args": ["-v"], "ports": [{"containerPort": 80}]}],
        "tolerations": [{"key": "a"}],
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
    },
}


def test_an_object_is_looked_into_as_its_type_says() -> None:
    assert field_set(WEB, POD) == FIELDS
    of_no_known_type = {"spec": {"a": {"b": 1}, "c": [{"name": "d"}]}}
    assert field_set(of_no_known_type, None) == {"f:spec": {"f:a": {"f:b": {}}, "f:c": {}}}


def test_sets_are_subtracted_met_and_united() -> None:
    one = {"f:a": {"f:b": {}, "f:c": {}}, "f:d": {}}
    other = {"f:a": {"f:b": {}}, "f:e": {}}
    assert minus(one, other) == {"f:a": {"f:c": {}}, "f:d": {}}
    assert minus(one, one) == {}
    assert common(one, other) == {"f:a": {"f:b": {}}}
    assert united(one, other) == {"f:a": {"f:b": {}, "f:c": {}}, "f:d": {}, "f:e": {}}


def test_of_these_fields_those_are_found_that_differ() -> None:
    other = {**WEB, "spec": {**WEB["spec"], "containers": [{**WEB["spec"]["containers"][0], "image": "v2"}]}}
    (only,) = paths(differing(FIELDS, WEB, other))
    assert only == '.spec.containers[name="web"].image'
    assert differing(FIELDS, WEB, WEB) == {}
    assert ".spec.nodeSelector" in list(paths(differing(FIELDS, WEB, {})))


@pytest.mark.parametrize(
    ("value", "fields", "rest"),
    [
        ({"a": 1, "b": 2}, {"f:a": {}}, {"b": 2}),
        ({"a": {"b": 1}}, {"f:a": {"f:b": {}}}, None),
        ({"a": {"b": 1}, "c": 1}, {"f:a": {"f:b": {}}}, {"c": 1}),
        (
            {"l": [{"n": "x", "v": 1}, {"n": "y"}]},
            {"f:l": {'k:{"n":"x"}': {"f:v": {}}}},
            {"l": [{"n": "x"}, {"n": "y"}]},
        ),
        ({"l": [{"n": "x", "v": 1}, {"n": "y"}]}, {"f:l": {'k:{"n":"x"}': {".": {}}}}, {"l": [{"n": "y"}]}),
        ({"l": ["x", "y"]}, {"f:l": {'v:"x"': {}}}, {"l": ["y"]}),
        ({"l": ["x"]}, {"f:l": {'v:"z"': {}}}, {"l": ["x"]}),
    ],
)
def test_fields_are_taken_out(value: Any, fields: Any, rest: Any) -> None:
    assert without_fields(value, fields) == rest
