"""Dispatcher of webhooks: mutating webhooks are called one after the other, validating webhooks in parallel.

Source: apiserver pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go, mutating/reinvocationcontext.go,
pkg/admission/plugin/webhook/generic/webhook.go (v1.36). Difference: if several validating webhooks refuse, the error is
that of the first in order; upstream's is the first to arrive.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson

from kcm.protocols.objects import Object, metadata
from kcm.runtime.apiserver.admission.attributes import Attributes
from kcm.runtime.apiserver.admission.expressions import to_request_version, to_version
from kcm.runtime.apiserver.admission.webhooks.conditions import conditions_match
from kcm.runtime.apiserver.admission.webhooks.configured import MUTATING, VALIDATING, Webhook, webhooks
from kcm.runtime.apiserver.admission.webhooks.matching import WebhookInvocation, invocation, is_exempt
from kcm.runtime.apiserver.admission.webhooks.reviews import VERSION, CallingError, ReviewResult, review, verdict
from kcm.runtime.apiserver.core.body_decoder import UnfitError, settle_types
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.questions import Answer, Post
from kcm.runtime.apiserver.core.webhook_addresses import NoAddressError, address
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.schema.patches import apply_json_patch
from kcm.runtime.apiserver.storage.sizes import check_draft

_WITHOUT_EFFECT = ("None", "NoneOnDryRun")
_MUTATION, _VALIDATION = "mutation.webhook.admission.k8s.io/", "validating.webhook.admission.k8s.io/"


def run_mutating_webhooks(
    cluster: Cluster,
    attributes: Attributes,
    plugins: Callable[[Object], Object],
    body: ResourceDefinition | None = None,
) -> Object | None:
    """Call the matching mutating webhooks, and return the resulting object. Raises StatusError.

    Objects are in the API version of the request. Webhooks with reinvocationPolicy IfNeeded are called a second time if
    a later webhook or the built-in plugins have changed the object.

    plugins: returns the object after another run of the built-in mutating plugins; called if a webhook has changed it
    body: definition of a body that is not stored; None for an object of the requested resource
    """
    if is_exempt(attributes):
        return attributes.obj
    calls = _Mutation(cluster, body)
    attributes = calls.run_round(attributes)
    if calls.has_changed and attributes.obj is not None:
        before = orjson.dumps(attributes.obj)
        attributes = attributes._replace(obj=plugins(attributes.obj))
        calls.begin_second_round(changed=orjson.dumps(attributes.obj) != before)
        attributes = calls.run_round(attributes)
    return attributes.obj


class _Mutation:
    """Rounds of calls to mutating webhooks for one request.

    The first round calls all matching webhooks. The second round calls those with reinvocationPolicy IfNeeded, if the
    object has changed since they were called.
    """

    def __init__(self, cluster: Cluster, body: ResourceDefinition | None) -> None:
        self._cluster, self._body, self._round = cluster, body, 0
        # Keys of webhooks with reinvocationPolicy IfNeeded: called since the last change, and to be called again.
        self._called: set[tuple[str, int]] = set()
        self._again: set[tuple[str, int]] = set()
        self.has_changed = False

    def begin_second_round(self, *, changed: bool) -> None:
        """Restrict the next round to webhooks with reinvocationPolicy IfNeeded whose object has changed since.

        changed: whether the built-in plugins have changed the object after the first round
        """
        self._round = 1
        if changed:
            self._again |= self._called

    def run_round(self, attributes: Attributes) -> Attributes:
        for index, webhook in enumerate(webhooks(self._cluster, MUTATING)):
            called = _matching_invocation(self._cluster, webhook, attributes)
            if called is None or (self._round and webhook.place not in self._again):
                continue
            attributes, changed = self._call(called, attributes, index)
            if changed:
                self.has_changed = True
                self._again |= self._called
                self._called.clear()
            if webhook.reinvoked_if_needed:
                self._called.add(webhook.place)
        return attributes

    def _call(self, called: WebhookInvocation, attributes: Attributes, index: int) -> tuple[Attributes, bool]:
        """Call a webhook, and return the attributes with the resulting object, and whether the webhook changed it.

        index: position of the webhook among all, for audit annotations

        Raises StatusError.
        """
        cluster, webhook, call = self._cluster, called.webhook, attributes.call
        place = f"round_{self._round}_index_{index}"
        changed = False
        try:
            found = _prepare(cluster, attributes, called)
            if found is not None:
                answer = found if isinstance(found, Answer) else cluster.outside((found.post,))[0]
                result = verdict(webhook.name, "" if isinstance(found, Answer) else found.uid, answer, mutating=True)
                _record_result(attributes, webhook, result)
                if result.patch:
                    attributes, changed = self._patched(called, attributes, result.patch)
        except CallingError as err:
            _handle_failure(err, attributes, webhook, f"failed-open.{_MUTATION}{place}")
        named = {"configuration": webhook.configuration, "webhook": webhook.name, "mutated": changed}
        call.annotate(f"{_MUTATION}{place}", orjson.dumps(named).decode())
        return attributes, changed

    def _patched(self, called: WebhookInvocation, attributes: Attributes, patch: list[Any]) -> tuple[Attributes, bool]:
        if attributes.obj is None:
            raise status_errors.internal(
                f"admission webhook {quoted(called.webhook.name)} attempted to modify the object, which is not "
                "supported for this operation"
            )
        shown = to_version(attributes, called.definition, attributes.obj)
        try:
            patched = apply_json_patch(shown, patch)
            check_draft(patched)
            self._settle(called.definition if attributes.is_whole else self._body, patched)
        except (UnfitError, ValueError) as err:
            raise status_errors.internal(str(err)) from err
        changed = patched != shown
        return attributes._replace(obj=to_request_version(attributes, called.definition, patched)), changed

    def _settle(self, definition: ResourceDefinition | None, patched: Object) -> None:
        """Check the types of a patched object against its definition, and set its defaults, in place.

        Raises UnfitError if a field has the wrong type, and StatusError.
        """
        if definition is None:
            return
        managers = metadata(patched).get("managedFields")
        settle_types(self._cluster, definition, patched)
        if managers:
            patched["metadata"]["managedFields"] = managers
        if definition.to_storage is None:
            definition.strategy.set_defaults(patched)
            definition.strategy.set_times(patched, None, self._cluster.timestamp())


def run_validating_webhooks(cluster: Cluster, attributes: Attributes) -> None:
    """Call the matching validating webhooks in parallel. Raises the StatusError of the first that refuses or fails."""
    if is_exempt(attributes):
        return
    matching = (_matching_invocation(cluster, webhook, attributes) for webhook in webhooks(cluster, VALIDATING))
    called = [call for call in matching if call is not None]
    prepared: list[_PreparedRequest | Answer | Exception | None] = []
    for call in called:
        try:
            prepared.append(_prepare(cluster, attributes, call))
        except (CallingError, status_errors.StatusError) as err:
            prepared.append(err)
    answers = iter(cluster.outside([request.post for request in prepared if isinstance(request, _PreparedRequest)]))
    for index, (call, found) in enumerate(zip(called, prepared, strict=True)):
        if found is None:
            continue
        answer = next(answers) if isinstance(found, _PreparedRequest) else found
        try:
            if isinstance(answer, Exception):
                raise answer
            uid = found.uid if isinstance(found, _PreparedRequest) else ""
            _record_result(attributes, call.webhook, verdict(call.webhook.name, uid, answer, mutating=False))
        except CallingError as err:
            _handle_failure(err, attributes, call.webhook, f"failed-open.{_VALIDATION}round_0_index_{index}")


class _PreparedRequest:
    """HTTP request to send to a webhook, and the uid of the AdmissionReview in it."""

    def __init__(self, post: Post, uid: str) -> None:
        self.post, self.uid = post, uid


def _matching_invocation(cluster: Cluster, webhook: Webhook, attributes: Attributes) -> WebhookInvocation | None:
    """Return the invocation of a webhook; None if its rules, selectors or conditions do not match the request.

    Raises StatusError.
    """
    called = invocation(cluster, webhook, attributes)
    if called is not None and webhook.conditions:
        obj, old = (
            None if version is None else to_version(attributes, called.definition, version)
            for version in (attributes.obj, attributes.old)
        )
        if not conditions_match(cluster, called, attributes, obj, old):
            return None
    return called


def _prepare(cluster: Cluster, attributes: Attributes, called: WebhookInvocation) -> _PreparedRequest | Answer | None:
    """Return the request to send to a webhook.

    If the address cannot be resolved, returns an error in place of the request. Returns None if the webhook runs on a
    hollow node and the annotation WEBHOOK admits all requests without a call. Raises CallingError and StatusError.
    """
    webhook = called.webhook
    if attributes.call.dry_run or attributes.options.get("dryRun") == ["All"]:
        if not webhook.side_effects:
            raise CallingError("Webhook SideEffects is nil")
        if webhook.side_effects not in _WITHOUT_EFFECT:
            raise status_errors.bad_request(f"admission webhook {quoted(webhook.name)} does not support dry run")
    if VERSION not in webhook.versions:
        text = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
        raise CallingError(f"could not create admission objects: {text}")
    uid = cluster.uid()
    obj, old = (
        None if version is None else to_version(attributes, called.definition, version)
        for version in (attributes.obj, attributes.old)
    )
    timeout = f"?timeout={webhook.seconds:g}s"
    try:
        found = address(cluster, webhook.client)
    except NoAddressError as err:
        if not err.url:
            raise CallingError(f"could not get REST client: failed calling webhook {quoted('')}: {err}") from err
        return Answer(error=f"Post {quoted(err.url + timeout)}: {err}")
    if found.admits:
        return None
    authority = base64.b64decode(webhook.client.get("caBundle") or "")
    body = review(attributes, called, uid, obj, old)
    return _PreparedRequest(Post(found.url + timeout, body, found.at, authority, webhook.seconds), uid)


def _record_result(attributes: Attributes, webhook: Webhook, verdict: ReviewResult) -> None:
    """Add the warnings and audit annotations of a webhook to the request. Raises its refusal (StatusError)."""
    for key, value in verdict.annotations.items():
        attributes.call.annotate(f"{webhook.name}/{key}", value)
    attributes.call.warn_all(verdict.warnings)
    if verdict.refusal is not None:
        raise verdict.refusal


def _handle_failure(error: CallingError, attributes: Attributes, webhook: Webhook, annotation: str) -> None:
    """Handle a failed call: raise StatusError (500), or add an audit annotation if failurePolicy is Ignore."""
    if not webhook.ignores_failures:
        raise status_errors.internal(f"failed calling webhook {quoted(webhook.name)}: {error}") from error
    attributes.call.annotate(annotation, webhook.name)
