"""Malformed responses of webhooks are rejected with the texts of Go's decoder, as by kube-apiserver 1.36."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kcm.runtime.apiserver.core.questions import ELAPSED, Answer, Post, Question
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.contracts.admission_webhooks import hook
from tests.runtime.apiserver.converters import Object

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
FAILED = 'Internal error occurred: failed calling webhook "h.example.com": '
TO_CALL = f"{FAILED}failed to call webhook: "
FIELD = f"{TO_CALL}json: cannot unmarshal "
UNDECODABLE = f"{FAILED}received undecodable patch in webhook response: "
NO_KIND = f"{TO_CALL}couldn't get version/kind; json parse error: "
OF_METADATA = (
    "Internal error occurred: json: cannot unmarshal string into Go struct field ConfigMap.metadata of type "
    "v1.ObjectMeta"
)
DENIED = 'admission webhook "h.example.com" denied the request'
STRUCT = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def patch(*operations: Any) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def raw_patch(raw: bytes) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(raw).decode()}


def api_with(response: Any) -> Api:
    """Return a server with a webhook.

    response: body, or fields of the response in the AdmissionReview
    """

    def ask(question: Question) -> Answer:
        if not isinstance(question, Post):
            return ELAPSED
        if isinstance(response, bytes):
            return Answer(200, response)
        review = json.loads(question.body)
        review["response"] = {"uid": review["request"]["uid"], "allowed": True, **response}
        return Answer(200, json.dumps(review).encode())

    api = Api(call_webhook=ask)
    configuration = {"metadata": {"name": "h"}, "webhooks": [hook("https://127.0.0.1/x", name="h.example.com")]}
    assert api.send("POST", CONFIGURATIONS, configuration).status == 201
    return api


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"allowed": "yes"}, f"{FIELD}string into Go struct field AdmissionResponse.response.allowed of type bool"),
        ({"allowed": 1}, f"{FIELD}number into Go struct field AdmissionResponse.response.allowed of type bool"),
        ({"uid": 1}, f"{FIELD}number into Go struct field AdmissionResponse.response.uid of type types.UID"),
        (
            {"warnings": "x"},
            f"{FIELD}string into Go struct field AdmissionResponse.response.warnings of type []string",
        ),
        (
            {"warnings": [1]},
            f"{FIELD}number into Go struct field AdmissionResponse.response.warnings of type string",
        ),
        (
            {"auditAnnotations": "x"},
            f"{FIELD}string into Go struct field AdmissionResponse.response.auditAnnotations of type map[string]string",
        ),
        (
            {"auditAnnotations": {"a": 1}},
            f"{FIELD}number into Go struct field AdmissionResponse.response.auditAnnotations of type string",
        ),
        (
            {"patchType": 1, "patch": "W10="},
            f"{FIELD}number into Go struct field AdmissionResponse.response.patchType of type v1.PatchType",
        ),
        (
            {"patchType": "JSONPatch", "patch": 1},
            f"{FIELD}number into Go struct field AdmissionResponse.response.patch of type []uint8",
        ),
        ({"patchType": "JSONPatch", "patch": "!!!"}, f"{TO_CALL}illegal base64 data at input byte 0"),
        (raw_patch(b"{}"), f"{UNDECODABLE}json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        (patch(1), f"{UNDECODABLE}json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
        (patch([]), f"{UNDECODABLE}json: cannot unmarshal array into Go value of type jsonpatch.Operation"),
        (
            {"status": "x"},
            f"{FIELD}string into Go struct field AdmissionResponse.response.status of type v1.Status",
        ),
        (
            {"status": {"code": 2**31}},
            f"{FIELD}number 2147483648 into Go struct field Status.response.status.code of type int32",
        ),
        (
            {"status": {"code": 1.5}},
            f"{FIELD}number 1.5 into Go struct field Status.response.status.code of type int32",
        ),
        ({"status": {"code": True}}, f"{FIELD}bool into Go struct field Status.response.status.code of type int32"),
        (
            {"status": {"reason": 1}},
            f"{FIELD}number into Go struct field Status.response.status.reason of type v1.StatusReason",
        ),
        (
            {"status": {"details": "x"}},
            f"{FIELD}string into Go struct field Status.response.status.details of type v1.StatusDetails",
        ),
        (
            {"status": {"details": {"causes": "x"}}},
            f"{FIELD}string into Go struct field StatusDetails.response.status.details.causes of type []v1.StatusCause",
        ),
        (
            {"status": {"details": {"retryAfterSeconds": "x"}}},
            f"{FIELD}string into Go struct field StatusDetails.response.status.details.retryAfterSeconds of type int32",
        ),
        (b"[]", f"{NO_KIND}json: cannot unmarshal array into Go value of type {STRUCT}"),
        (b"", f"{FAILED}received invalid webhook response: webhook response was absent"),
        (b"null", f"{FAILED}received invalid webhook response: webhook response was absent"),
        (b'{"kind":1}', f"{NO_KIND}json: cannot unmarshal number into Go struct field .kind of type string"),
        (
            b'{"response":"x"}',
            f"{FIELD}string into Go struct field AdmissionReview.response of type v1.AdmissionResponse",
        ),
        (
            b'{"request":"x"}',
            f"{FIELD}string into Go struct field AdmissionReview.request of type v1.AdmissionRequest",
        ),
        (patch({"op": "replace", "path": "/metadata", "value": "x"}), OF_METADATA),
    ],
    ids=range(28),
)
def test_malformed_answer_fails_the_call(answer: Any, message: str) -> None:
    api = api_with(answer)
    refused = api.create("configmaps", {"metadata": {"name": "c"}})
    assert (refused.status, refused.message) == (500, message)


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (None, 400, f"{DENIED} without explanation"),
        ({"code": 399}, 400, f"{DENIED} without explanation"),
        ({"code": -5, "message": "no"}, 400, f"{DENIED}: no"),
        ({"code": 999, "reason": "R"}, 999, f"{DENIED}: R"),
        ({"code": 1000, "message": "no"}, 500, f"{DENIED}: no"),
        ({"message": "no", "details": {"name": "n", "stray": 1}}, 400, f"{DENIED}: no"),
    ],
)
def test_rejection_has_a_valid_http_status(status: Any, code: int, message: str) -> None:
    refused = api_with({"allowed": False, "status": status}).create("configmaps", {"metadata": {"name": "c"}})
    assert (refused.status, refused.message) == (code, message)
    assert "stray" not in refused.obj.get("details", {})


@pytest.mark.parametrize(
    "answer",
    [
        {"allowed": None},
        {"warnings": [None, "a"], "auditAnnotations": {"a": None}},
        {"patchType": "JSONPatch", "patch": list(b"[]")},
        {"patchType": "JSONPatch", "patch": "W1\n0="},
    ],
)
def test_null_and_other_forms_are_decoded_as_in_go(answer: dict[str, Any]) -> None:
    created = api_with(answer).create("configmaps", {"metadata": {"name": "c"}})
    assert created.status == (400 if "allowed" in answer else 201)


@pytest.mark.parametrize("verb", ["create", "update"])
def test_patch_that_removes_the_metadata_is_refused(verb: str) -> None:
    given: dict[str, Any] = {}
    api = api_with(given)
    body: Object = {"metadata": {"name": "c"}}
    if verb == "update":
        body = api.create("configmaps", body).obj
    given |= patch({"op": "remove", "path": "/metadata"})
    refused = api.create("configmaps", body) if verb == "create" else api.put("configmaps", body)
    assert refused.status == 422


def test_patch_with_too_many_operations_is_refused() -> None:
    operation = {"op": "test", "path": "/kind", "value": "ConfigMap"}
    refused = api_with(patch(*[operation] * 50_001)).create("configmaps", {"metadata": {"name": "c"}})
    assert refused.message == f"{UNDECODABLE}50001 operations exceed the limit of 50000"


def test_patch_that_makes_the_object_too_large_is_refused() -> None:
    grow = [{"op": "add", "path": f"/metadata/annotations/a{number}", "value": "x" * 500_000} for number in range(10)]
    answer = patch({"op": "add", "path": "/metadata/annotations", "value": {}}, *grow)
    api = api_with(answer)
    refused = api.create("configmaps", {"metadata": {"name": "c"}})
    assert refused.status in (422, 500)
    assert not api.exists("configmaps", "c")
