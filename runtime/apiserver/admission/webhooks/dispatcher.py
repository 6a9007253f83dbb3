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


def have_changed(
    cluster: Cluster, asked: Attributes, plugins: Callable[[Object], Object], body: ResourceDefinition | None = None
) -> Object | None:
    """Call the matching mutating webhooks, and return the resulting object. Raises StatusError.

    Objects are in the API version of the request. Webhooks with reinvocationPolicy IfNeeded are called a second time if
    a later webhook or the built-in plugins have changed the object.

    plugins: returns the object after another run of the built-in mutating plugins; called if a webhook has changed it
    body: definition of a body that is not stored; None for an object of the requested resource
    """
    if is_exempt(asked):
        return asked.obj
    calls = _Mutation(cluster, body)
    asked = calls.once(asked)
    if calls.has_changed and asked.obj is not None:
        before = orjson.dumps(asked.obj)
        asked = asked._replace(obj=plugins(asked.obj))
        calls.begin_again(changed=orjson.dumps(asked.obj) != before)
        asked = calls.once(asked)
    return asked.obj


class _Mutation:
    """Rounds of calls to mutating webhooks for one request.

    The first round calls all matching webhooks, the second those with reinvocationPolicy IfNeeded that ran before a
    change.
    """

    def __init__(self, cluster: Cluster, body: ResourceDefinition | None) -> None:
        self._cluster, self._body, self._round = cluster, body, 0
        # Keys of webhooks with reinvocationPolicy IfNeeded: called since the last change, and to be called again.
        self._called: set[tuple[str, int]] = set()
        self._again: set[tuple[str, int]] = set()
        self.has_changed = False

    def begin_again(self, *, changed: bool) -> None:
        """Begin the second round.

        changed: whether the built-in plugins have changed the object after the first round
        """
        self._round = 1
        if changed:
            self._again |= self._called

    def once(self, asked: Attributes) -> Attributes:
        for index, webhook in enumerate(webhooks(self._cluster, MUTATING)):
            called = _invocation(self._cluster, webhook, asked)
            if called is None or (self._round and webhook.place not in self._again):
                continue
            asked, changed = self._call(called, asked, index)
            if changed:
                self.has_changed = True
                self._again |= self._called
                self._called.clear()
            if webhook.reinvoked_if_needed:
                self._called.add(webhook.place)
        return asked

    def _call(self, called: WebhookInvocation, asked: Attributes, index: int) -> tuple[Attributes, bool]:
        """Call a webhook, and return the attributes with the resulting object, and whether the webhook changed it.

        index: position of the webhook among all, for audit annotations

        Raises StatusError.
        """
        cluster, webhook, call = self._cluster, called.webhook, asked.call
        place = f"round_{self._round}_index_{index}"
        changed = False
        try:
            found = _asked(cluster, asked, called)
            if found is not None:
                answer = found if isinstance(found, Answer) else cluster.outside((found.post,))[0]
                result = verdict(webhook.name, "" if isinstance(found, Answer) else found.uid, answer, mutating=True)
                _note(asked, webhook, result)
                if result.patch:
                    asked, changed = self._patched(called, asked, result.patch)
        except CallingError as err:
            _fail(err, asked, webhook, f"failed-open.{_MUTATION}{place}")
        named = {"configuration": webhook.configuration, "webhook": webhook.name, "mutated": changed}
        call.annotate(f"{_MUTATION}{place}", orjson.dumps(named).decode())
        return asked, changed

    def _patched(self, called: WebhookInvocation, asked: Attributes, patch: list[Any]) -> tuple[Attributes, bool]:
        if asked.obj is None:
            raise status_errors.internal(
                f"admission webhook {quoted(called.webhook.name)} attempted to modify the object, which is not "
                "supported for this operation"
            )
        shown = _converted(asked, called, asked.obj)
        try:
            patched = apply_json_patch(shown, patch)
            check_draft(patched)
            self._settle(called.definition if asked.is_whole else self._body, patched)
        except (UnfitError, ValueError) as err:
            raise status_errors.internal(str(err)) from err
        changed = patched != shown
        return asked._replace(obj=_converted_back(asked, called, patched)), changed

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


def have_judged(cluster: Cluster, asked: Attributes) -> None:
    """Call the matching validating webhooks in parallel. Raises the StatusError of the first that refuses or fails."""
    if is_exempt(asked):
        return
    matching = (_invocation(cluster, webhook, asked) for webhook in webhooks(cluster, VALIDATING))
    called = [call for call in matching if call is not None]
    prepared: list[_Asked | Answer | Exception | None] = []
    for call in called:
        try:
            prepared.append(_asked(cluster, asked, call))
        except (CallingError, status_errors.StatusError) as err:
            prepared.append(err)
    answers = iter(cluster.outside([request.post for request in prepared if isinstance(request, _Asked)]))
    for index, (call, found) in enumerate(zip(called, prepared, strict=True)):
        if found is None:
            continue
        answer = next(answers) if isinstance(found, _Asked) else found
        try:
            if isinstance(answer, Exception):
                raise answer
            uid = found.uid if isinstance(found, _Asked) else ""
            _note(asked, call.webhook, verdict(call.webhook.name, uid, answer, mutating=False))
        except CallingError as err:
            _fail(err, asked, call.webhook, f"failed-open.{_VALIDATION}round_0_index_{index}")


class _Asked:
    """Prepared request to a webhook, and the uid of its AdmissionReview."""

    def __init__(self, post: Post, uid: str) -> None:
        self.post, self.uid = post, uid


def _invocation(cluster: Cluster, webhook: Webhook, asked: Attributes) -> WebhookInvocation | None:
    """Return the webhook with the API version to send; None if its rules, selectors or conditions do not match.

    Raises StatusError.
    """
    called = invocation(cluster, webhook, asked)
    if called is not None and webhook.conditions:
        obj, old = (
            None if version is None else _converted(asked, called, version) for version in (asked.obj, asked.old)
        )
        if not conditions_match(cluster, called, asked, obj, old):
            return None
    return called


def _asked(cluster: Cluster, asked: Attributes, called: WebhookInvocation) -> _Asked | Answer | None:
    """Return the request to send to a webhook.

    If the address cannot be resolved, returns an error in place of the request. Returns None if the webhook runs on a
    hollow node and the annotation WEBHOOK admits all requests without a call. Raises CallingError and StatusError.
    """
    webhook = called.webhook
    if asked.call.dry_run or asked.options.get("dryRun") == ["All"]:
        if not webhook.side_effects:
            raise CallingError("Webhook SideEffects is nil")
        if webhook.side_effects not in _WITHOUT_EFFECT:
            raise status_errors.bad_request(f"admission webhook {quoted(webhook.name)} does not support dry run")
    if VERSION not in webhook.versions:
        text = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
        raise CallingError(f"could not create admission objects: {text}")
    uid = cluster.uid()
    obj, old = (None if version is None else _converted(asked, called, version) for version in (asked.obj, asked.old))
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
    body = review(asked, called, uid, obj, old)
    return _Asked(Post(found.url + timeout, body, found.at, authority, webhook.seconds), uid)


def _note(asked: Attributes, webhook: Webhook, verdict: ReviewResult) -> None:
    """Add the warnings and audit annotations of a webhook to the request. Raises its refusal (StatusError)."""
    for key, value in verdict.annotations.items():
        asked.call.annotate(f"{webhook.name}/{key}", value)
    asked.call.warn_all(verdict.warnings)
    if verdict.refusal is not None:
        raise verdict.refusal


def _fail(error: CallingError, asked: Attributes, webhook: Webhook, annotation: str) -> None:
    """Handle a failed call: raise StatusError (500), or add an audit annotation if failurePolicy is Ignore."""
    if not webhook.ignores_failures:
        raise status_errors.internal(f"failed calling webhook {quoted(webhook.name)}: {error}") from error
    asked.call.annotate(annotation, webhook.name)


def _converted(asked: Attributes, called: WebhookInvocation, obj: Object) -> Object:
    """Convert an object from the API version of the request to the version that the webhook receives."""
    if called.definition is asked.definition or not asked.is_whole:
        return obj
    to, back = asked.definition.to_storage, called.definition.from_storage
    stored = obj if to is None else to(obj)
    return stored if back is None else back(stored)


def _converted_back(asked: Attributes, called: WebhookInvocation, obj: Object) -> Object:
    if called.definition is asked.definition or not asked.is_whole:
        return obj
    to, back = called.definition.to_storage, asked.definition.from_storage
    stored = obj if to is None else to(obj)
    return stored if back is None else back(stored)
