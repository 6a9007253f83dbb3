"""Dispatcher of webhooks: mutating webhooks are called one after the other, validating webhooks in parallel.

Source: apiserver pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go, mutating/reinvocationcontext.go,
pkg/admission/plugin/webhook/generic/webhook.go (v1.36). Differs: of several that refuse, the first in order is named.
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
    """Return the object as mutating webhooks leave it, in the request's version. Raises StatusError.

    plugins: the server's own that change objects; they look again where a webhook has changed something. body: the kind
    of a subresource's body; None where it is that of the resource.
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
    """Calls of mutating webhooks for one request: a first round, and one for reinvocationPolicy IfNeeded."""

    def __init__(self, cluster: Cluster, body: ResourceDefinition | None) -> None:
        self._cluster, self._body, self._round = cluster, body, 0
        self._called: set[tuple[str, int]] = set()  # webhooks with reinvocationPolicy IfNeeded that ran
        self._again: set[tuple[str, int]] = set()
        self.has_changed = False

    def begin_again(self, *, changed: bool) -> None:
        """Begin the second round. changed: whether the server's own plugins changed the object again."""
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
        """Return the attributes with the resulting object, and whether it has changed."""
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
        """Raises UnfitError, StatusError."""
        if definition is None:
            return
        managers = metadata(patched).get("managedFields")
        settle_types(self._cluster, definition, patched)
        if managers:
            patched["metadata"]["managedFields"] = managers
        if definition.to_storage is None:
            definition.strategy.set_defaults(patched)


def have_judged(cluster: Cluster, asked: Attributes) -> None:
    """Call the validating webhooks that match, in parallel. Raises StatusError."""
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
    """Prepared request to a webhook, and the uid of its review."""

    def __init__(self, post: Post, uid: str) -> None:
        self.post, self.uid = post, uid


def _invocation(cluster: Cluster, webhook: Webhook, asked: Attributes) -> WebhookInvocation | None:
    """Raises StatusError."""
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

    A failed result stands for an unresolved address, None for an address that admits without a call. Raises
    CallingError and StatusError.
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
    """Raises StatusError: the webhook's refusal."""
    for key, value in verdict.annotations.items():
        asked.call.annotate(f"{webhook.name}/{key}", value)
    asked.call.warn_all(verdict.warnings)
    if verdict.refusal is not None:
        raise verdict.refusal


def _fail(error: CallingError, asked: Attributes, webhook: Webhook, annotation: str) -> None:
    """Raises StatusError (500), unless the webhook's failures are ignored."""
    if not webhook.ignores_failures:
        raise status_errors.internal(f"failed calling webhook {quoted(webhook.name)}: {error}") from error
    asked.call.annotate(annotation, webhook.name)


def _converted(asked: Attributes, called: WebhookInvocation, obj: Object) -> Object:
    """Convert an object from the request's version to the webhook's."""
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
