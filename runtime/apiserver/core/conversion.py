"""Conversion of custom objects between the versions of their kind, with or without a webhook.

Source: apiextensions-apiserver pkg/apiserver/conversion/{converter,webhook_converter,nop_converter}.go (v1.36).
Differs from upstream: the uid of a ConversionReview is derived from its contents. When a suspended request is handled
again (suspended_requests.py), it then sends an equal review, and the response is already known.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

import orjson

from kcm.protocols.errors import aggregate
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.apiextensions.custom_kinds import Convert
from kcm.runtime.apiserver.apiextensions.go_text import go_type
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.go_structs import STATUS, anything, list_of, struct_of, text
from kcm.runtime.apiserver.core.questions import Answer, Post
from kcm.runtime.apiserver.core.suspended_requests import OutsideAccess
from kcm.runtime.apiserver.core.webhook_addresses import NoAddressError, address
from kcm.runtime.apiserver.core.webhook_answers import UnansweredError, review_in
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.rules.object_meta import validate_annotations, validate_labels

LONGEST = 30.0  # seconds that a webhook may take
_GROUP = "apiextensions.k8s.io"
_REVIEW_VERSIONS = ("v1", "v1beta1")
_SCHEME = "k8s.io/apiserver/pkg/util/webhook/client.go:71"
_UIDS = UUID("2b1c5b0c-7b0a-4c59-9a9b-0c8f0d1a1b52")


_DECODED = struct_of(
    "v1",
    "ConversionReview",
    {
        "kind": text(),
        "apiVersion": text(),
        "request": struct_of("v1", "ConversionRequest", {}),
        "response": struct_of(
            "v1",
            "ConversionResponse",
            {"uid": text("types.UID"), "convertedObjects": list_of(anything, "runtime.RawExtension"), "result": STATUS},
        ),
    },
)


class ConversionError(Exception):
    """Invalid response of a conversion webhook.

    In the message to the client, "conversion webhook for <version>, Kind=<kind> " precedes the text of this error.
    """


def converter_of(definition: Object, cluster: Cluster, outside_access: OutsideAccess) -> Convert:
    """Return the function that converts custom objects between the versions of their kind.

    definition: the CustomResourceDefinition.
    outside_access: provides the responses of the conversion webhook.
    """
    spec = definition["spec"]
    known = {f"{spec['group']}/{version['name']}" for version in spec["versions"]}
    conversion = spec.get("conversion") or {}
    webhook = conversion.get("webhook") or {} if conversion.get("strategy") == "Webhook" else None

    def convert(objects: Sequence[Object], api_version: str) -> list[Object]:
        others = [obj for obj in objects if obj["apiVersion"] != api_version]
        if not others:
            return list(objects)
        for obj in others:
            if obj["apiVersion"] not in known:
                text = f"request to convert CR from an invalid group/version: {obj['apiVersion']}"
                raise status_errors.without_reason(text)
        if webhook is None or _converts_without_call(cluster, webhook):
            converted = iter([{**obj, "apiVersion": api_version} for obj in others])
        else:
            converted = iter(_convert_by_webhook(cluster, outside_access, webhook, others, api_version))
        return [obj if obj["apiVersion"] == api_version else next(converted) for obj in objects]

    return convert


def _converts_without_call(cluster: Cluster, webhook: Mapping[str, Any]) -> bool:
    """Report whether objects are converted without the webhook: its pods are hollow, and annotated with "admit"."""
    try:
        return address(cluster, webhook.get("clientConfig") or {}).admits
    except NoAddressError:
        return False


def _convert_by_webhook(
    cluster: Cluster, outside_access: OutsideAccess, webhook: Mapping[str, Any], objects: list[Object], api_version: str
) -> list[Object]:
    """Convert objects with the webhook. Raises StatusError (500), and Unanswered while its response is not known."""
    versions = webhook.get("conversionReviewVersions") or ()
    version = next((candidate for candidate in versions if candidate in _REVIEW_VERSIONS), None)
    if version is None:
        raise status_errors.without_reason("no supported conversion review versions")
    review = _Review(version, api_version, objects)
    first = objects[0]
    try:
        return review.converted(_call(cluster, outside_access, webhook.get("clientConfig") or {}, review))
    except ConversionError as err:
        described = f"{first['apiVersion']}, Kind={first['kind']}"
        raise status_errors.without_reason(f"conversion webhook for {described} {err}") from err


def _call(cluster: Cluster, outside_access: OutsideAccess, client: Mapping[str, Any], review: _Review) -> Answer:
    """Send a review to the webhook and return its response. Raises Unanswered while the response is not known.

    client: the webhook's WebhookClientConfig.
    """
    try:
        found = address(cluster, client)
    except NoAddressError as err:
        return Answer(error=f"Post {quoted(f'{err.url}?timeout={LONGEST:g}s')}: {err}" if err.url else str(err))
    authority = base64.b64decode(client.get("caBundle") or "").strip()
    question = Post(f"{found.url}?timeout={LONGEST:g}s", review.body, found.at, authority, LONGEST)
    return outside_access.outside((question,))[0]


class _Review:
    """ConversionReview to send to a webhook, and the validation of the response.

    version: version of the review itself. api_version: desired version of the objects, which none of them has.
    """

    def __init__(self, version: str, api_version: str, objects: list[Object]) -> None:
        self._version, self._wanted, self._objects = version, api_version, objects
        request = {"desiredAPIVersion": api_version, "objects": objects}
        self._uid = str(uuid5(_UIDS, orjson.dumps(request, option=orjson.OPT_SORT_KEYS).decode()))
        self._head = {"kind": "ConversionReview", "apiVersion": f"{_GROUP}/{version}"}
        self.body = orjson.dumps({**self._head, "request": {"uid": self._uid, **request}})

    def converted(self, answer: Answer) -> list[Object]:
        """Return the converted objects in the webhook's response. Raises ConversionError, StatusError (500)."""
        try:
            found = self._response(review_in(answer, _DECODED)).get("convertedObjects") or []
        except UnansweredError as err:
            raise ConversionError(f"failed: {err}") from err
        if len(found) != len(self._objects):
            raise ConversionError(f"returned {len(found)} objects, expected {len(self._objects)}")
        pairs = zip(self._objects, found, strict=True)
        return [_checked(before, after, self._wanted, index) for index, (before, after) in enumerate(pairs)]

    def _response(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """Return the field `response` of the webhook's review. Raises UnansweredError if the review is invalid."""
        given = {field: whole.get(field) or "" for field in self._head}
        strict = self._version == "v1"
        if all(given.values()) and given != self._head:
            raise UnansweredError(_wrong_kind_error(given, self._version))
        if strict and given != self._head:
            raise UnansweredError(f"expected webhook response of {_described(self._head)}, got {_described(given)}")
        response = whole.get("response")
        if not isinstance(response, dict):
            raise UnansweredError("no response provided")
        if strict and response.get("uid") != self._uid:
            raise UnansweredError(f"expected response.uid={quoted(self._uid)}, got {quoted(response.get('uid') or '')}")
        result = response.get("result") or {}
        if result.get("status") != "Success":
            text = f"response.result.status was '{result.get('status') or ''}', not 'Success'"
            raise UnansweredError(result.get("message") or text)
        return response


def _wrong_kind_error(given: Mapping[str, str], wanted: str) -> str:
    """Return the error of Go's client for a response that is not a ConversionReview of the wanted version.

    given: kind and apiVersion of the response.
    """
    version = given["apiVersion"].removeprefix(f"{_GROUP}/")
    if given["kind"] == "ConversionReview" and version in _REVIEW_VERSIONS:
        return f"converting ({version}.ConversionReview) to ({wanted}.ConversionReview): unknown conversion"
    kind, api_version = quoted(given["kind"]), quoted(given["apiVersion"])
    return f"no kind {kind} is registered for version {api_version} in scheme {quoted(_SCHEME)}"


def _described(head: Mapping[str, str]) -> str:
    group, _, version = head["apiVersion"].rpartition("/")
    return f"{group}/{version}, Kind={head['kind']}"


def _checked(before: Object, after: Any, wanted: str, index: int) -> Object:
    """Return a converted object with its original metadata, except for labels and annotations, which may change.

    Raises ConversionError if the webhook has changed the kind, identity or metadata, or has returned another version;
    StatusError (500) if the object has no kind.
    """
    if not isinstance(after, dict) or not after.get("kind"):
        text = orjson.dumps(after).decode()
        raise StatusError(500, "", f"Object 'Kind' is missing in '{text}'")
    if after.get("apiVersion") != wanted:
        got = after.get("apiVersion") or ""
        why = f"invalid groupVersion (expected {wanted}, received {got})"
        raise ConversionError(f"returned invalid object at index {index}: {why}")
    if after["kind"] != before["kind"]:
        why = f"invalid kind (expected {before['kind']}, received {after['kind']})"
        raise ConversionError(f"returned invalid object at index {index}: {why}")
    given = after.get("metadata")
    of_given: Mapping[str, Any] = given if isinstance(given, dict) else {}
    for field, called in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        was, now = before["metadata"].get(field) or "", of_given.get(field) or ""
        if was != now:
            raise ConversionError(f"returned invalid object: must have the same {called}: {was} != {now}")
    try:
        return {**after, "metadata": _metadata(before["metadata"], after)}
    except ValueError as err:
        raise ConversionError(f"returned invalid metadata: {err}") from err


def _metadata(before: Object, after: Object) -> Object:
    """Return the metadata `before` with the labels and annotations of the object `after`. Raises ValueError."""
    if "metadata" not in after:
        raise ValueError("missing metadata in converted object")
    given = after["metadata"]
    if not isinstance(given, dict):
        raise ValueError(f"invalid metadata of type {go_type(given)} in converted object")
    kept = dict(before)
    for field, validate, path in (
        ("labels", validate_labels, "metadata.labels"),
        ("annotations", validate_annotations, "metadata.annotation"),
    ):
        value = given.get(field)
        if value is None:
            kept.pop(field, None)
            continue
        if not isinstance(value, dict):
            raise ValueError(f"invalid metadata.{field} of type {go_type(value)} in converted object")
        for key, inner in value.items():
            if not isinstance(inner, str):
                raise ValueError(
                    f"metadata.{field}[{key}] must be a string, but is {go_type(inner)} in converted object"
                )
        if value != (before.get(field) or {}):
            errors = validate(value, path)
            if errors:
                raise ValueError(aggregate(map(str, errors)))
        kept[field] = value
    return kept
