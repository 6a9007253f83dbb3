"""Responses to AdmissionReviews and ConversionReviews: the functions of authors are called here.

Source of the forms: kubernetes v1.36 staging/src/k8s.io/api/admission/v1/types.go, apiextensions-apiserver
pkg/apis/apiextensions/v1/types.go.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from kcm.actors.engine.webhooks.patches import carried_over, json_patch
from kcm.actors.reconciliation.webhooks import (
    CONNECT,
    DELETE,
    AdmissionRequest,
    AdmissionWebhook,
    Denied,
    UserInfo,
    VersionConversion,
    conversion_paths,
)
from kcm.protocols.models import as_object, codec_of, why
from kcm.protocols.objects import Object, decode_object, encode_object, make_key, metadata
from kcm.protocols.resources import Resource
from kcm.runtime.serving.webhook_pages import ALLOWED, CONVERTED, DENIED, ERROR, Respond, WebhookResponse, failure
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

ADMISSION_REVIEW = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
CONVERSION_REVIEW = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"}
LONGEST_ERROR = 1000  # characters of an exception's text that a client receives


class MalformedReviewError(ValueError):
    """The body is not a valid review. The text is for the client."""


class UnreadableObjectError(Exception):
    """The object does not fit the model of its resource."""


# Admission.


def admission_responder(webhook: AdmissionWebhook, tables: Tables | None, log: FilteringBoundLogger) -> Respond:
    """Return the function that responds to the AdmissionReviews of a webhook."""

    def respond(body: bytes) -> WebhookResponse:
        try:
            raw = _request_in(body, ADMISSION_REVIEW)
            decision = _decide(webhook, raw, tables)
        except MalformedReviewError as err:
            log.warning("webhook received an invalid review", webhook=webhook.name, error=str(err))
            return failure(400, str(err))
        except Exception as err:
            shown = _shown(err)
            log.exception("webhook failed", webhook=webhook.name, error=shown)
            return failure(500, f"the function of webhook {webhook.name} failed: {shown}")
        allowed = bool(decision["allowed"])
        log.debug("webhook responded", webhook=webhook.name, uid=decision["uid"], allowed=allowed)
        return WebhookResponse(
            200, orjson.dumps({**ADMISSION_REVIEW, "response": decision}), ALLOWED if allowed else DENIED
        )

    return respond


def _decide(webhook: AdmissionWebhook, raw: Mapping[str, Any], tables: Tables | None) -> Object:
    """Call the function of a webhook, and return the AdmissionResponse. Raises what the function raises.

    raw: the AdmissionRequest as the API server sent it.
    """
    decision: Object = {"uid": raw["uid"], "allowed": True}
    resource, operation = webhook.resource, raw["operation"]
    whole = raw["oldObject" if operation == DELETE else "object"]
    is_typed = resource.model is not None and operation != CONNECT and raw["subResource"] in ("", "status")
    try:
        new = _read(resource, whole, is_typed=is_typed)
    except UnreadableObjectError as err:
        if operation == DELETE:  # otherwise the object could never be deleted
            return {**decision, "warnings": [f"{webhook.name} has not checked the object: {err}"]}
        return {**decision, "allowed": False, "status": _denial(Denied(str(err), reason="Invalid", code=422), raw)}
    request = AdmissionRequest(
        new=new,
        old=_old(resource, raw, is_typed=is_typed),
        operation=operation,
        resource=resource,
        subresource=raw["subResource"],
        namespace=raw["namespace"],
        name=raw["name"],
        uid=raw["uid"],
        dry_run=raw["dryRun"],
        user=_user(raw["userInfo"]),
        options=raw["options"] or {},
        tables=tables,
    )
    before = _without_kind(as_object(_read(resource, whole, is_typed=is_typed))) if webhook.mutating else {}
    try:
        returned = webhook.function(request)
        if webhook.mutating:
            decision |= _patch(whole, before, request.new, returned)
        elif returned is not None:
            raise TypeError(f"a validating function returns None or raises Denied, and returned {returned!r:.80}")
    except Denied as denied:
        decision |= {"allowed": False, "status": _denial(denied, raw)}
    if request.warnings:
        decision["warnings"] = list(request.warnings)
    if request.annotations:
        decision["auditAnnotations"] = dict(request.annotations)
    return decision


def _patch(whole: Object, before: Object, new: Any, returned: Any) -> Object:
    """Return the fields `patch` and `patchType` of the response; empty if nothing changes.

    whole: the object as the API server sent it.
    before: the object as the function received it, as a map.
    new: the same after the function may have changed it in place.
    returned: what the function returned.
    """
    if returned is None:
        if _without_kind(as_object(new)) != before:
            raise TypeError("the function has changed request.new and returned None: it must return the new object")
        return {}
    after = _without_kind(as_object(returned))
    present = _without_kind(whole)
    operations = json_patch(present, carried_over(present, before, after))
    if not operations:
        return {}
    return {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}


def _read(resource: Resource[Any], whole: Object, *, is_typed: bool) -> Any:
    """Return a new copy of an object in the form that reconcilers receive. Raises UnreadableObjectError."""
    raw = encode_object(_without_kind(whole))
    if not is_typed or resource.model is None:
        return decode_object(raw)
    try:
        return codec_of(resource.model).read(raw)
    except Exception as err:  # the model's own errors
        raise UnreadableObjectError(f"not a valid {resource.kind}: {why(err)}") from err


def _old(resource: Resource[Any], raw: Mapping[str, Any], *, is_typed: bool) -> Any:
    """Return the previous object; None without one, and for one that does not fit the model."""
    if raw["oldObject"] is None:
        return None
    try:
        return _read(resource, raw["oldObject"], is_typed=is_typed)
    except UnreadableObjectError:  # stored before the model required a field; the update may repair it
        return None


def _without_kind(obj: Mapping[str, Any]) -> Object:
    """Return the object without kind and apiVersion, as objects of tables are."""
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}


def _user(given: Mapping[str, Any]) -> UserInfo:
    extra = given.get("extra") or {}
    return UserInfo(
        name=given.get("username") or "",
        uid=given.get("uid") or "",
        groups=tuple(given.get("groups") or ()),
        extra={key: tuple(values or ()) for key, values in extra.items()},
    )


def _denial(denied: Denied, raw: Mapping[str, Any]) -> Object:
    """Return the Status for a denied request."""
    status: Object = {
        "status": "Failure",
        "message": denied.message,
        "reason": denied.reason,
        "code": denied.code,
    }
    if denied.fields:
        problems = ", ".join(f"{path}: {text}" for path, text in denied.fields.items())
        kind = raw["kind"]
        causes = [
            {"reason": "FieldValueInvalid", "message": text, "field": path} for path, text in denied.fields.items()
        ]
        status["message"] = f"{denied.message}: {problems}"
        details = {"name": raw["name"], "group": kind.get("group"), "kind": kind.get("kind"), "causes": causes}
        status["details"] = {name: value for name, value in details.items() if value}
    return status


def _request_in(body: bytes, review: Mapping[str, str]) -> dict[str, Any]:
    """Return the checked `request` of a review. Raises MalformedReviewError. review: its kind and apiVersion."""
    try:
        whole = orjson.loads(body)
    except ValueError as err:
        raise MalformedReviewError(f"the body is not JSON: {err}") from err
    head = {name: whole.get(name) for name in review} if isinstance(whole, dict) else {}
    if head != review:
        raise MalformedReviewError(f"expected {review['kind']} of {review['apiVersion']}, got {head!r:.200}")
    request = whole.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str) or not request["uid"]:
        raise MalformedReviewError(f"{review['kind']} has no request with a uid")
    return _admission_fields(request) if review is ADMISSION_REVIEW else request


def _admission_fields(request: dict[str, Any]) -> dict[str, Any]:
    """Return an AdmissionRequest with the types and defaults of its fields checked. Raises MalformedReviewError."""
    found: dict[str, Any] = {"uid": request["uid"]}
    texts = ("operation", "namespace", "name", "subResource")
    maps = ("object", "oldObject", "options", "userInfo", "kind")
    for names, kind, empty in ((texts, str, ""), (maps, dict, None), (("dryRun",), bool, False)):
        for name in names:
            value = request.get(name)
            if value is not None and not isinstance(value, kind):
                raise MalformedReviewError(f"request.{name} of an AdmissionReview is not of type {kind.__name__}")
            found[name] = empty if value is None else value
    found["userInfo"], found["kind"] = found["userInfo"] or {}, found["kind"] or {}
    field = "oldObject" if found["operation"] == DELETE else "object"
    if found[field] is None:
        raise MalformedReviewError(f"request.{field} of an AdmissionReview is missing")
    return found


def _shown(err: BaseException) -> str:
    """Return the type and the text of an exception, bounded."""
    return f"{type(err).__name__}: {err}".rstrip(": ")[:LONGEST_ERROR]


# Conversion.


def conversion_responder(conversions: Iterable[VersionConversion], log: FilteringBoundLogger) -> Respond:
    """Return the function that responds to the ConversionReviews of one resource.

    Raises ValueError if a pair of versions has no conversion.
    """
    declared = tuple(conversions)
    paths, resource = conversion_paths(declared), declared[0].source

    def respond(body: bytes) -> WebhookResponse:
        try:
            raw = _request_in(body, CONVERSION_REVIEW)
            wanted, objects = raw.get("desiredAPIVersion"), raw.get("objects")
            if not isinstance(wanted, str) or not isinstance(objects, list):
                raise MalformedReviewError(
                    "request of a ConversionReview has no desiredAPIVersion, or no list of objects"
                )
        except MalformedReviewError as err:
            log.warning("webhook received an invalid review", webhook=resource.name, error=str(err))
            return failure(400, str(err))
        response: Object = {"uid": raw["uid"], "result": {"status": "Success"}, "convertedObjects": []}
        for obj in objects:
            try:
                response["convertedObjects"].append(converted(paths, resource, obj, wanted))
            except Exception as err:
                message = f"{resource.name} {_key(obj)!r}: {_shown(err)}"
                log.exception("conversion failed", webhook=resource.name, key=_key(obj), error=_shown(err))
                response |= {"result": {"status": "Failure", "message": message}, "convertedObjects": []}
                break
        succeeded = response["result"]["status"] == "Success"
        return WebhookResponse(
            200, orjson.dumps({**CONVERSION_REVIEW, "response": response}), CONVERTED if succeeded else ERROR
        )

    return respond


def converted(
    paths: Mapping[tuple[str, str], tuple[VersionConversion, ...]],
    resource: Resource[Any],
    obj: Any,
    api_version: str,
) -> Object:
    """Convert an object to another API version. Raises ValueError, and what the functions raise.

    paths: as conversion_paths() returns them.
    """
    if not isinstance(obj, dict):
        raise ValueError(f"an object is a map, not {obj!r:.80}")
    group, _, version = api_version.rpartition("/")
    source_group, _, source = str(obj.get("apiVersion")).rpartition("/")
    if source_group != resource.group or group != resource.group or obj.get("kind") != resource.kind:
        raise ValueError(f"no conversion of {obj.get('kind')!r} from {obj.get('apiVersion')!r} to {api_version!r}")
    if source == version:
        return obj
    path = paths.get((source, version))
    if path is None:
        raise ValueError(f"no conversion from version {source!r} to {version!r}")
    current: Object = obj
    for step in path:
        typed = step.source.model is not None
        current = _without_kind(as_object(step.function(_read(step.source, current, is_typed=typed))))
    meta = metadata(obj)
    given = metadata(current) if "metadata" in current else meta
    kept = {name: value for name, value in meta.items() if name not in ("labels", "annotations")}
    kept |= {name: given[name] for name in ("labels", "annotations") if given.get(name) is not None}
    return {**current, "apiVersion": api_version, "kind": obj["kind"], "metadata": kept}


def _key(obj: Any) -> str:
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    named = meta if isinstance(meta, dict) else {}
    return make_key(str(named.get("namespace") or ""), str(named.get("name") or ""))
