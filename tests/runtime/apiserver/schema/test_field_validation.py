import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.schema.field_validation import STRICT, WARN, FieldValidator, duplicate_fields
from kcm.runtime.schema.api_types import ApiTypes, built_in_types


@pytest.fixture(scope="module")
def types() -> ApiTypes:
    return built_in_types()


def web_deployment(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"any": "thing"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 1}}}]}},
            **spec,
        },
    }


def check(types: ApiTypes, body: bytes, *, directive: str = STRICT, patch: bool = False) -> list[str]:
    return FieldValidator(types).check(
        body, group="apps", version="v1", kind="Deployment", directive=directive, patch=patch
    )


def test_an_object_of_known_fields_passes(types: ApiTypes) -> None:
    body = web_deployment(replicas=3, strategy={"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}, paused=None)
    assert check(types, json.dumps(body).encode()) == []


@pytest.mark.parametrize(
    "spec, field",
    [
        ({"replicaz": 3}, "spec.replicaz"),
        ({"Replicas": 3}, "spec.Replicas"),
        ({"strategy": {"rollingUpdate": {"x": 1}}}, "spec.strategy.rollingUpdate.x"),
        ({"template": {"spec": {"containers": [{}, {"imag": "x"}]}}}, "spec.template.spec.containers[1].imag"),
        ({"$patch": "replace"}, "spec.$patch"),
    ],
)
def test_unknown_field_is_reported_with_its_path(types: ApiTypes, spec: dict[str, Any], field: str) -> None:
    body = json.dumps(web_deployment(**spec)).encode()
    with pytest.raises(StatusError) as refused:
        check(types, body)
    assert refused.value.code == 400
    assert refused.value.message == (
        f'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "{field}"'
    )
    assert check(types, body, directive=WARN) == [f'unknown field "{field}"']


def test_all_unknown_and_duplicate_fields_are_named_at_once(types: ApiTypes) -> None:
    body = b'{"metadata": {"name": "a", "name": "b"}, "spek": {}, "spec": {"x": 1}}'
    assert check(types, body, directive=WARN) == [
        'duplicate field "metadata.name"',
        'unknown field "spek"',
        'unknown field "spec.x"',
    ]


def test_patch_may_contain_directives_and_has_its_own_error_text(types: ApiTypes) -> None:
    assert check(types, b'{"spec":{"$retainKeys":["x"],"$setElementOrder/y":[]}}', patch=True) == []
    with pytest.raises(StatusError) as refused:
        check(types, b'{"spec":{"x":1}}', patch=True)
    assert refused.value.code == 422
    assert refused.value.message == (
        ' "" is invalid: patch: Invalid value: "{\\"spec\\":{\\"x\\":1}}": '
        'strict decoding error: unknown field "spec.x"'
    )


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null", b'{"spec": [], "metadata": 1}'])
def test_values_of_wrong_types_are_ignored(types: ApiTypes, body: bytes) -> None:
    assert check(types, body) == []


def test_kinds_that_upstream_does_not_define_are_not_checked(types: ApiTypes) -> None:
    validator = FieldValidator(types)
    assert validator.check(b'{"x":1}', group="example.com", version="v1", kind="Widget", directive=STRICT) == []


@pytest.mark.parametrize(
    "body, paths",
    [
        (b'{"a": 1, "a": 2}', ["a"]),
        (b'{"a": {"b": [{"c": 1}, {"c": 1, "c": 2, "c": 3}]}}', ["a.b[1].c"]),
        (b'[{"a": {"x": 1}, "a": {"x": 1}}]', ["[0].a"]),
    ],
)
def test_duplicates_are_found_at_any_depth(body: bytes, paths: list[str]) -> None:
    assert duplicate_fields(body) == paths


def test_deeply_nested_document_is_checked_without_error() -> None:
    assert duplicate_fields(b'{"a":' * 5000 + b"1" + b"}" * 5000) == []
    assert duplicate_fields(b'{"a":' * 500 + b"1" + b"}" * 500) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(document=JSON)
@settings(max_examples=60)
def test_serialized_document_has_no_duplicates(document: Any) -> None:
    assert duplicate_fields(json.dumps(document).encode()) == []


def test_unknown_and_duplicate_fields_are_reported_in_document_order(types: ApiTypes) -> None:
    body = b"""{"apiVersion": "apps/v1", "kind": "Deployment", "spec": {
        "x": 1, "replicas": 1, "replicas": 2, "template": {"metadata": {"labels": {"a": "b", "a": "c"}, "y": 2}}, "x": 3
    }}"""
    assert check(types, body, directive=WARN) == [
        'unknown field "spec.x"',
        'duplicate field "spec.replicas"',
        'duplicate field "spec.template.metadata.labels.a"',
        'unknown field "spec.template.metadata.y"',
    ]
