"""Responses to reviews, which the API server's own code validates."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kcm.actors.engine.webhooks.responses import admission_responder, conversion_responder, converted
from kcm.actors.reconciliation.webhooks import (
    AdmissionRequest,
    Denied,
    conversion_paths,
    convert,
    mutate,
    validate,
)
from kcm.protocols.models import ObjectMeta
from kcm.protocols.resources import Resource
from kcm.runtime.apiserver.admission.webhooks.reviews import ReviewResult, verdict
from kcm.runtime.apiserver.core.questions import Answer
from kcm.runtime.apiserver.schema.patches import apply_json_patch
from kcm.runtime.logs.standard_log import standard_log
from kcm.runtime.serving.webhook_pages import Respond, WebhookResponse

LOG = standard_log("test")
MAPS = Resource(group="example.com", version="v1", plural="widgets", kind="Widget")


@dataclass
class Spec:
    size: int = 1
    parts: list[str] = field(default_factory=list)


@dataclass
class Widget:
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: Spec = field(default_factory=Spec)


TYPED = Resource(group="example.com", version="v1", plural="widgets", kind="Widget", model=Widget)


def widget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "shop"},
        "spec": spec,
    }


def request(**changes: Any) -> dict[str, Any]:
    return {
        "uid": "u1",
        "kind": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "operation": "CREATE",
        "namespace": "shop",
        "name": "w",
        "userInfo": {"username": "jane", "groups": ["dev"], "extra": {"scopes": ["a"]}},
        "object": widget(size=1),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions"},
        **changes,
    }


def review(**changes: Any) -> bytes:
    whole = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request(**changes)}
    return json.dumps(whole).encode()


def judged(response: WebhookResponse, *, mutating: bool = False) -> ReviewResult:
    return verdict("hook", "u1", Answer(response.status, response.body), mutating=mutating)


def responder(function: Any, resource: Any = MAPS, **more: Any) -> Respond:
    return admission_responder(validate(resource, function, **more), None, LOG)


def changer(function: Any, resource: Any = MAPS) -> Respond:
    return admission_responder(mutate(resource, function), None, LOG)


def test_a_function_receives_the_whole_request() -> None:
    seen: list[AdmissionRequest[Any]] = []
    body = review(
        operation="UPDATE",
        subResource="status",
        oldObject=widget(size=0),
        dryRun=True,
    )
    assert judged(responder(seen.append, subresource="status")(body)).refusal is None
    (given,) = seen
    assert given.new == {"metadata": {"name": "w", "namespace": "shop"}, "spec": {"size": 1}}
    assert given.old["spec"] == {"size": 0}
    assert (given.operation, given.subresource, given.namespace, given.name) == ("UPDATE", "status", "shop", "w")
    assert (given.uid, given.dry_run, given.options) == ("u1", True, {"kind": "CreateOptions"})
    assert (given.user.name, given.user.groups, given.user.extra) == ("jane", ("dev",), {"scopes": ("a",)})


def test_a_function_receives_the_model_of_its_resource() -> None:
    seen: list[AdmissionRequest[Widget]] = []
    responder(seen.append, TYPED)(review(object=widget(size=3, parts=["a"]), oldObject=widget(size=2)))
    assert isinstance(seen[0].new, Widget)
    assert (seen[0].new.spec, seen[0].new.metadata.name) == (Spec(3, ["a"]), "w")
    assert seen[0].old is not None
    assert seen[0].old.spec.size == 2


def test_a_deleted_object_is_the_new_object() -> None:
    seen: list[AdmissionRequest[Any]] = []
    respond = responder(seen.append, operations=("DELETE",))
    assert judged(respond(review(operation="DELETE", object=None, oldObject=widget(size=5)))).refusal is None
    assert seen[0].new["spec"] == {"size": 5}
    assert seen[0].old["spec"] == {"size": 5}


def deny(denied: Denied) -> Respond:
    def function(request: AdmissionRequest[Any]) -> None:
        request.warn("mind the gap")
        request.annotate("rule", "size")
        raise denied

    return responder(function)


def test_a_denial_has_the_message_warnings_and_annotations() -> None:
    result = judged(deny(Denied("too large"))(review()))
    assert result.refusal is not None
    assert (result.refusal.code, result.refusal.reason) == (403, "Forbidden")
    assert str(result.refusal) == 'admission webhook "hook" denied the request: too large'
    assert (result.warnings, result.annotations) == (("mind the gap",), {"rule": "size"})


def test_a_denial_with_fields_names_them_as_causes() -> None:
    response = deny(Denied("invalid widget", fields={"spec.size": "must be at most 9"}))(review())
    assert response.result == "denied"
    status = json.loads(response.body)["response"]["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"] == "invalid widget: spec.size: must be at most 9"
    assert status["details"] == {
        "name": "w",
        "group": "example.com",
        "kind": "Widget",
        "causes": [{"reason": "FieldValueInvalid", "message": "must be at most 9", "field": "spec.size"}],
    }


def in_place(request: AdmissionRequest[Any]) -> Any:
    request.new["spec"]["size"] = 9
    return request.new


def as_new_object(request: AdmissionRequest[Any]) -> Any:
    return {**request.new, "spec": {"size": 9}}


@pytest.mark.parametrize("function", [in_place, as_new_object])
def test_a_returned_object_becomes_a_patch(function: Any) -> None:
    response = changer(function)(review(object=widget(size=1)))
    result = judged(response, mutating=True)
    assert result.patch == [{"op": "replace", "path": "/spec/size", "value": 9}]
    assert apply_json_patch(widget(size=1), result.patch) == widget(size=9)


def test_a_changed_model_keeps_fields_that_it_does_not_define() -> None:
    def grow(request: AdmissionRequest[Widget]) -> Widget:
        return replace(request.new, spec=replace(request.new.spec, size=9))

    result = judged(changer(grow, TYPED)(review(object=widget(more={"x": 1}))), mutating=True)
    assert result.patch == [{"op": "add", "path": "/spec/size", "value": 9}]


@pytest.mark.parametrize("function", [lambda _request: None, lambda request: request.new])
@pytest.mark.parametrize("resource", [MAPS, TYPED])
def test_an_unchanged_object_has_no_patch(function: Any, resource: Any) -> None:
    response = changer(function, resource)(review(object=widget(more=1)))
    assert judged(response, mutating=True).patch == []
    assert json.loads(response.body)["response"] == {"uid": "u1", "allowed": True}


def changed_and_forgotten(request: AdmissionRequest[Any]) -> None:
    request.new["spec"]["size"] = 9


def raises(_request: AdmissionRequest[Any]) -> None:
    raise KeyError("size")


@pytest.mark.parametrize(
    ("respond", "error"),
    [
        (changer(changed_and_forgotten), "TypeError: the function has changed request.new and returned None"),
        (changer(lambda _request: "text"), "TypeError: an object is a map or a model, not 'text'"),
        (responder(lambda _request: True), "TypeError: a validating function returns None or raises Denied"),
        (responder(raises), "KeyError: 'size'"),
    ],
)
def test_an_error_of_the_function_is_a_500_with_a_status(
    respond: Respond, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = respond(review())
    status = json.loads(response.body)
    assert (response.status, response.result) == (500, "error")
    assert (status["kind"], status["code"]) == ("Status", 500)
    assert error in status["message"]
    assert status["message"].startswith("the function of webhook ")
    assert "webhook failed" in caplog.text


def test_an_object_that_does_not_fit_the_model_is_invalid() -> None:
    result = judged(responder(lambda _request: None, TYPED)(review(object=widget(size="big"))))
    assert result.refusal is not None
    assert result.refusal.code == 422
    assert "not a valid Widget: Expected `int`, got `str` - at `$.spec.size`" in str(result.refusal)


def test_an_object_that_does_not_fit_the_model_can_still_be_repaired_and_deleted() -> None:
    seen: list[AdmissionRequest[Widget]] = []
    respond = responder(seen.append, TYPED, operations=("UPDATE", "DELETE"))
    old = widget(size="big")
    assert judged(respond(review(operation="UPDATE", oldObject=old))).refusal is None
    assert seen[0].old is None
    result = judged(respond(review(operation="DELETE", object=None, oldObject=old)))
    assert (result.refusal, len(seen)) == (None, 1)
    assert "has not checked the object" in result.warnings[0]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "not JSON"),
        (b"[]", "expected AdmissionReview"),
        (b'{"kind": "ConversionReview"}', "expected AdmissionReview of admission.k8s.io/v1"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}', "no request with a uid"),
        (review(object=None), "request.object of an AdmissionReview is missing"),
        (review(object="text"), "request.object of an AdmissionReview is not of type dict"),
        (review(dryRun="yes"), "request.dryRun of an AdmissionReview is not of type bool"),
        (review(operation="DELETE"), "request.oldObject of an AdmissionReview is missing"),
    ],
)
def test_an_invalid_review_is_a_bad_request(body: bytes, error: str) -> None:
    response = responder(lambda _request: None)(body)
    assert response.status == 400
    assert error in json.loads(response.body)["message"]


# Conversion.

V1, V2, V3 = (
    Resource(group="example.com", version=version, plural="widgets", kind="Widget") for version in ("v1", "v2", "v3")
)


def up(obj: Any) -> Any:
    return {**obj, "spec": {"length": obj["spec"]["size"]}}


def down(obj: Any) -> Any:
    return {**obj, "spec": {"size": obj["spec"]["length"]}}


def label(obj: Any) -> Any:
    return {**obj, "metadata": {"labels": {"converted": "yes"}, "name": "other"}}


CONVERSIONS = (convert(V1, V2, up), convert(V2, V1, down), convert(V2, V3, label), convert(V3, V2, lambda obj: obj))


def conversion_review(wanted: str, *objects: Any) -> bytes:
    asked = {"uid": "u1", "desiredAPIVersion": wanted, "objects": list(objects)}
    whole = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": asked}
    return json.dumps(whole).encode()


def test_objects_are_converted_in_order_and_keep_their_metadata() -> None:
    respond = conversion_responder(CONVERSIONS, LOG)
    other = {**widget(length=2), "apiVersion": "example.com/v2"}
    response = json.loads(respond(conversion_review("example.com/v3", widget(size=1), other)).body)["response"]
    assert (response["uid"], response["result"]) == ("u1", {"status": "Success"})
    meta = {"name": "w", "namespace": "shop", "labels": {"converted": "yes"}}
    assert response["convertedObjects"] == [
        {"apiVersion": "example.com/v3", "kind": "Widget", "metadata": meta, "spec": {"length": 1}},
        {"apiVersion": "example.com/v3", "kind": "Widget", "metadata": meta, "spec": {"length": 2}},
    ]


def test_typed_conversions_receive_and_return_models() -> None:
    @dataclass
    class Other:
        metadata: ObjectMeta = field(default_factory=ObjectMeta)
        spec: dict[str, int] = field(default_factory=dict)

    second = Resource(group="example.com", version="v2", plural="widgets", kind="Widget", model=Other)
    paths = conversion_paths(
        (
            convert(TYPED, second, lambda obj: Other(obj.metadata, {"length": obj.spec.size})),
            convert(second, TYPED, lambda obj: Widget(obj.metadata, Spec(obj.spec["length"]))),
        )
    )
    there = converted(paths, TYPED, widget(size=4), "example.com/v2")
    assert there == {**widget(length=4), "apiVersion": "example.com/v2"}
    assert converted(paths, TYPED, there, "example.com/v1") == widget(size=4, parts=[])


@pytest.mark.parametrize(
    ("wanted", "obj", "error"),
    [
        ("example.com/v2", widget(), "widgets.example.com 'shop/w': KeyError: 'size'"),
        ("example.com/v9", widget(size=1), "no conversion from version 'v1' to 'v9'"),
        ("other.com/v1", widget(size=1), "to 'other.com/v1'"),
        ("example.com/v2", {**widget(size=1), "kind": "Gadget"}, "no conversion of 'Gadget'"),
        ("example.com/v2", "text", "an object is a map"),
    ],
)
def test_a_failed_conversion_names_the_object(wanted: str, obj: Any, error: str) -> None:
    respond = conversion_responder(CONVERSIONS, LOG)
    found = respond(conversion_review(wanted, {**widget(size=1), "apiVersion": wanted}, obj))
    response = json.loads(found.body)["response"]
    assert response["result"]["status"] == "Failure"
    assert error in response["result"]["message"]
    assert (response["convertedObjects"], found.result) == ([], "error")


@pytest.mark.parametrize("body", [b"{", review(), conversion_review("example.com/v1")[:-20] + b"}"])
def test_an_invalid_conversion_review_is_a_bad_request(body: bytes) -> None:
    assert conversion_responder(CONVERSIONS, LOG)(body).status == 400
