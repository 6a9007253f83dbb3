"""AdmissionReviews: requests to webhooks and the evaluation of their responses.

Source: apiserver pkg/admission/plugin/webhook/request/admissionreview.go, errors/statuserror.go, apimachinery
pkg/api/errors/errors.go, NewGenericServerResponse (v1.36). Only v1 of AdmissionReview is supported.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.attributes import Attributes
from kcm.runtime.apiserver.admission.expressions import request_of
from kcm.runtime.apiserver.admission.webhooks.matching import WebhookInvocation
from kcm.runtime.apiserver.core.go_structs import STATUS, boolean, list_of, octets, struct_of, text, texts_by_name
from kcm.runtime.apiserver.core.questions import Answer
from kcm.runtime.apiserver.core.webhook_answers import UnansweredError, review_in
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.schema.scalars import json_type

VERSION = "v1"
MOST_OPERATIONS = 50_000  # limit for a webhook's patch; upstream has none
_RESPONSE = struct_of(
    "v1",
    "AdmissionResponse",
    {
        "uid": text("types.UID"),
        "allowed": boolean,
        "status": STATUS,
        "patch": octets,
        "patchType": text("v1.PatchType"),
        "auditAnnotations": texts_by_name,
        "warnings": list_of(text(), "string"),
    },
)
_DECODED = struct_of(
    "v1",
    "AdmissionReview",
    {
        "kind": text(),
        "apiVersion": text(),
        "request": struct_of("v1", "AdmissionRequest", {}),
        "response": _RESPONSE,
    },
)
_REVIEW = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}


class CallingError(Exception):
    """Failed call of a webhook, or an invalid response."""


class ReviewResult(NamedTuple):
    """Valid response of a webhook."""

    refusal: StatusError | None  # None: the request is allowed
    patch: list[Any]  # operations of a JSON patch
    warnings: tuple[str, ...]
    annotations: dict[str, str]  # audit annotations


def review(
    attributes: Attributes, called: WebhookInvocation, uid: str, obj: Object | None, old: Object | None
) -> bytes:
    """Return the encoded AdmissionReview to send. obj and old are in the API version that the webhook receives."""
    seen = request_of(attributes, called.definition, called.kind)
    request = {"uid": uid, **seen, "object": obj, "oldObject": old}
    return orjson.dumps({**_REVIEW, "request": request})


def verdict(name: str, uid: str, answer: Answer, *, mutating: bool) -> ReviewResult:
    """Validate and decode the response of a webhook.

    name: name of the webhook
    uid: the uid that the server has sent, and that the response must repeat
    answer: HTTP response of the webhook's server, or the reason why the call failed
    mutating: whether the response may contain a patch

    Raises CallingError.
    """
    response = _response(uid, answer)
    patch, patch_type = response.get("patch"), response.get("patchType")
    operations: list[Any] = []
    if not mutating and patch:
        raise CallingError(_invalid("validating webhook may not return response.patch"))
    if not mutating and patch_type is not None:
        raise CallingError(_invalid("validating webhook may not return response.patchType"))
    if patch and patch_type is None:
        raise CallingError(_invalid("webhook returned response.patch but not response.patchType"))
    if not patch and patch_type is not None:
        raise CallingError(_invalid("webhook returned response.patchType but not response.patch"))
    if patch_type == "":
        raise CallingError(_invalid('webhook returned invalid response.patchType of ""'))
    allowed = response.get("allowed") is True
    if allowed and patch:
        operations = _operations(patch, patch_type or "")
    return ReviewResult(
        None if allowed else _refusal(name, response.get("status")),
        operations,
        tuple(warning for warning in response.get("warnings") or () if warning),
        response.get("auditAnnotations") or {},
    )


def _response(uid: str, answer: Answer) -> dict[str, Any]:
    """Return the `response` of an AdmissionReview. Raises CallingError if the call failed or the review is invalid."""
    try:
        whole = review_in(answer, _DECODED)
    except UnansweredError as err:
        raise CallingError(f"failed to call webhook: {err}") from err
    if whole.get("kind") == _REVIEW["kind"] and whole.get("apiVersion") == "admission.k8s.io/v1beta1":
        why = "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
        raise CallingError(f"failed to call webhook: {why}")
    response = whole.get("response")
    if not isinstance(response, dict):
        raise CallingError(_invalid("webhook response was absent"))
    if response.get("uid") != uid:
        raise CallingError(_invalid(f"expected response.uid={quoted(uid)}, got {quoted(response.get('uid') or '')}"))
    given = {field: whole.get(field) or "" for field in _REVIEW}
    if given != _REVIEW:
        raise CallingError(
            _invalid(f"expected webhook response of {_group_version_kind(_REVIEW)}, got {_group_version_kind(given)}")
        )
    return response


def _group_version_kind(whole: dict[str, str]) -> str:
    group, _, version = whole["apiVersion"].rpartition("/")
    return f"{group}/{version}, Kind={whole['kind']}"


def _operations(patch: bytes, patch_type: str) -> list[Any]:
    """Decode a JSON patch, with upstream's error texts. Raises CallingError if it is invalid."""
    try:
        operations = orjson.loads(patch)
        if not isinstance(operations, list):
            raise ValueError(f"json: cannot unmarshal {json_type(operations)} into Go value of type jsonpatch.Patch")
        for operation in operations:
            if not isinstance(operation, dict):
                found = json_type(operation)
                raise ValueError(f"json: cannot unmarshal {found} into Go value of type jsonpatch.Operation")
        if len(operations) > MOST_OPERATIONS:
            raise ValueError(f"{len(operations)} operations exceed the limit of {MOST_OPERATIONS}")
    except ValueError as err:
        raise CallingError(f"received undecodable patch in webhook response: {err}") from err
    if operations and patch_type != "JSONPatch":
        raise CallingError(f"unsupported patch type {quoted(patch_type)}")
    return operations


def _refusal(name: str, status: dict[str, Any] | None) -> StatusError:
    status = status or {}
    denied = f"admission webhook {quoted(name)} denied the request"
    why = status.get("message") or status.get("reason") or ""
    code = max(status.get("code", 0), 400)
    if code > 999:  # Not an HTTP status: kube-apiserver fails to write it, and closes the connection.
        code = 500
    return StatusError(
        code,
        status.get("reason") or "",
        f"{denied}: {why}" if why else f"{denied} without explanation",
        status.get("details"),
    )


def _invalid(why: str) -> str:
    return f"received invalid webhook response: {why}"
