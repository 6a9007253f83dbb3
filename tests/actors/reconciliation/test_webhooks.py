"""Declarations of webhooks: defaults, names, and errors for invalid arguments."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.reconciliation import ControllerSpec
from kcm.actors.reconciliation.webhooks import AdmissionRequest, Denied, conversion_paths, convert, mutate, validate
from kcm.protocols.resources import DEPLOYMENTS, NODES, PODS, Resource

V1, V2, V3 = (
    Resource(group="example.com", version=version, plural="widgets", kind="Widget") for version in ("v1", "v2", "v3")
)


def nothing(_request: Any) -> None:
    return None


def same(obj: Any) -> Any:
    return obj


@pytest.mark.parametrize(
    ("declared", "name", "path"),
    [
        (validate(V1, nothing), "validate.widgets.example.com", "/validate/validate.widgets.example.com"),
        (mutate(V1, nothing), "mutate.widgets.example.com", "/mutate/mutate.widgets.example.com"),
        (validate(PODS, nothing), "validate.pods.core", "/validate/validate.pods.core"),
        (mutate(DEPLOYMENTS, nothing), "mutate.deployments.apps", "/mutate/mutate.deployments.apps"),
        (validate(V1, nothing, subresource="status"), "validate.status.widgets.example.com", None),
        (validate(V1, nothing, subresource="*"), "validate.widgets.example.com", None),
        (validate(V1, nothing, name="size.widgets.example.com"), "size.widgets.example.com", None),
    ],
)
def test_a_webhook_is_named_after_its_resource(declared: Any, name: str, path: str | None) -> None:
    assert declared.name == name
    assert path is None or declared.path == path


def test_defaults_are_safe() -> None:
    checked, changed = validate(V1, nothing), mutate(V1, nothing)
    for webhook in (checked, changed):
        assert webhook.failure_policy == "Fail"
        assert webhook.side_effects == "None"
        assert webhook.match_policy == "Equivalent"
        assert webhook.timeout_seconds == 5
        assert webhook.operations == ("CREATE", "UPDATE")
    assert (checked.reinvocation_policy, changed.reinvocation_policy) == ("Never", "IfNeeded")


async def later(_request: Any) -> None: ...


def generator(_request: Any) -> Any:
    yield


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"operations": ("PATCH",)}, "one of CREATE, UPDATE, DELETE, CONNECT, not 'PATCH'"),
        ({"operations": "CREATE"}, "operations: expected a tuple"),
        ({"operations": ()}, "operations of validate.widgets.example.com"),
        ({"operations": ("CREATE", "CREATE")}, "different ones"),
        ({"name": "check"}, "at least three labels"),
        ({"name": "Check.example.com"}, "at least three labels"),
        ({"labels": "a in b"}, "labels of validate.widgets.example.com: "),
        ({"labels": "size>3"}, "no selector with < and >"),
        ({"namespace_labels": "a b"}, "namespace_labels of "),
        ({"failure_policy": "Maybe"}, "failure_policy of .* is one of Fail, Ignore"),
        ({"side_effects": "Some"}, "side_effects of .* is one of None, NoneOnDryRun"),
        ({"match_policy": "Close"}, "match_policy of "),
        ({"timeout_seconds": 0}, "at least 1"),
        ({"timeout_seconds": 31}, "at most 30, not 31"),
        ({"timeout_seconds": 2.5}, "takes an integer"),
        ({"match_conditions": {"a": ""}}, "match condition 'a' of .* is empty"),
        ({"match_conditions": {f"c{number}": "true" for number in range(65)}}, "more than 64"),
    ],
)
def test_an_invalid_argument_is_refused_with_its_name(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        validate(V1, nothing, **arguments)


@pytest.mark.parametrize("function", [later, generator, "check", None])
def test_only_a_plain_function_is_accepted(function: Any) -> None:
    with pytest.raises(TypeError, match=r"function of validate\.widgets\.example\.com"):
        validate(V1, function)
    with pytest.raises(TypeError, match="conversion from"):
        convert(V1, V2, function)


def test_a_mutating_webhook_of_deletions_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot change an object that is deleted"):
        mutate(V1, nothing, operations=("DELETE",))


def test_conversions_of_a_hub_give_a_path_for_each_pair() -> None:
    up, down = convert(V1, V2, same), convert(V2, V1, same)
    third, back = convert(V3, V2, same), convert(V2, V3, same)
    assert conversion_paths((up, down, third, back)) == {
        ("v1", "v2"): (up,),
        ("v1", "v3"): (up, back),
        ("v2", "v1"): (down,),
        ("v2", "v3"): (back,),
        ("v3", "v1"): (third, down),
        ("v3", "v2"): (third,),
    }
    direct = convert(V1, V3, same)
    assert conversion_paths((up, down, third, back, direct))["v1", "v3"] == (direct,)


@pytest.mark.parametrize(
    ("conversions", "error"),
    [
        ((convert(V1, V2, same),), "no conversion of widgets.example.com from v2 to v1"),
        (
            (convert(V1, V2, same), convert(V2, V1, same), convert(V1, V2, same)),
            "two conversions of widgets.example.com from v1 to v2",
        ),
    ],
)
def test_a_spec_with_versions_that_cannot_be_converted_is_refused(conversions: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        ControllerSpec(name="widgets", build=same, conversion=conversions)


def test_conversions_are_between_versions_of_one_resource() -> None:
    with pytest.raises(ValueError, match="between versions of one resource"):
        convert(V1, NODES, same)
    with pytest.raises(ValueError, match="same version"):
        convert(V1, V1, same)


def test_two_webhooks_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two webhooks of widgets are named validate\.widgets\.example\.com"):
        ControllerSpec(name="widgets", build=same, admission=(validate(V1, nothing), validate(V2, nothing)))
    with pytest.raises(TypeError, match=r"admission of widgets\[0\] takes validate"):
        ControllerSpec(name="widgets", build=same, admission=(nothing,))  # type: ignore[arg-type]


def test_a_denial_with_fields_is_invalid() -> None:
    assert (Denied("no").reason, Denied("no").code) == ("Forbidden", 403)
    with_fields = Denied("no", fields={"spec.size": "too large"})
    assert (with_fields.reason, with_fields.code) == ("Invalid", 422)
    with pytest.raises(ValueError, match="from 400 to 599, not 200"):
        Denied("no", code=200)


def test_warnings_and_annotations_are_bounded() -> None:
    request = AdmissionRequest(new={}, operation="CREATE", resource=V1)
    request.warn("mind the gap")
    request.annotate("decision", "yes")
    assert (request.warnings, request.annotations) == (["mind the gap"], {"decision": "yes"})
    with pytest.raises(ValueError, match="at most 64 warnings"):
        request.warn("x" * 5000)
    for key in ("example.com/decision", "", "a b"):
        with pytest.raises(ValueError, match="audit annotation is a name"):
            request.annotate(key, "yes")
