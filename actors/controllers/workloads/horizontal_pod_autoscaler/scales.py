"""Client of the subresource `scale`, which reads and sets the number of replicas of any kind of workload.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (scaleForResourceMappings, and the update in
reconcileAutoscaler); client-go scale/client.go. Differences:
- If another client has changed the replicas since the scale was read, the update fails; upstream overwrites them.
- An update with unknown outcome counts as successful if the scale has the requested replicas afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.actors.controllers.shared.server_texts import client_go_message
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.fields import TargetReference, check_scale
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics_apis import no_match
from kcm.actors.reconciliation import Step, perform
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Get, Update
from kcm.protocols.messages.outcomes import Conflict, Done, Failure, Refused, Unknown
from kcm.protocols.objects import Key, Object, decode_object, encode_object, make_key, resource_version_of
from kcm.protocols.resources import Resource

TRIES = 5  # maximum number of attempts of an update that meets conflicts


class ScaleError(Exception):
    """Raised if the scale of a target cannot be read or updated."""

    def __init__(self, text: str, *, prefix: str = "", spec: bool = False) -> None:
        """Initialize the error.

        text: text for the event and the condition
        prefix: put before the text in the error of the evaluation
        spec: whether the cause is an invalid spec of the HorizontalPodAutoscaler
        """
        super().__init__(text)
        self.prefix, self.spec = prefix, spec


class UnknownOutcomeError(ScaleError):
    """Raised if the outcome of an update of the scale is unknown: the server may still carry it out."""


class TargetScale(NamedTuple):
    """Scale of a target as it was read from the API server."""

    resource: Resource  # of the target
    key: Key  # of the target
    body: Object  # the Scale object
    wanted: int  # spec.replicas
    reported: int  # status.replicas
    selector: str  # status.selector: label selector of the target's pods as a string; "" if it is missing

    @property
    def version(self) -> str:
        return resource_version_of(self.body)


class ScaleClient:
    def __init__(self, *, served: ServedKinds) -> None:
        self._served = served

    def read(self, namespace: str, reference: TargetReference) -> Step[TargetScale]:
        """Read the scale of the referenced target.

        If several resources have the kind, the first with a scale is used. Raises ScaleError if no scale can be read,
        and Retry before discovery is complete.
        """
        kind, name = reference.kind, reference.name
        try:
            group = _group_of(reference.api_version)
        except ValueError as err:
            raise ScaleError(str(err), prefix="invalid API version in scale target reference", spec=True) from err
        served = self._served.of_group(group, kind)
        if not served:
            prefix = "unable to determine resource for scale target reference"
            raise ScaleError(no_match(group, kind), prefix=prefix)
        first = ""
        for candidate in served:
            try:
                return (yield from _read(candidate.resource, make_key(namespace, name)))
            except ScaleError as err:
                first = first or str(err)
        raise ScaleError(first, prefix=f"failed to query scale subresource for {kind}/{namespace}/{name}")

    def write(self, scale: TargetScale, replicas: int) -> Step[None]:
        """Set spec.replicas of a scale. A conflict is retried if the replicas are still those that were read.

        Raises ScaleError if the update fails, and UnknownOutcomeError if its outcome is unknown and the scale does not
        have the requested replicas yet.
        """
        for _ in range(TRIES):
            body = {**scale.body, "spec": {**(scale.body.get("spec") or {}), "replicas": replicas}}
            put = Update(scale.resource.id, scale.key, encode_object(body), "scale")
            outcome = yield from perform(put)
            if isinstance(outcome, Done):
                return
            if isinstance(outcome, Refused):
                raise CommandError(put, outcome)
            text = _text(outcome, "put", scale.resource, scale.key)
            try:
                latest = yield from _read(scale.resource, scale.key)
            except ScaleError as err:
                raise (UnknownOutcomeError if isinstance(outcome, Unknown) else ScaleError)(text) from err
            if isinstance(outcome, Unknown):
                if latest.wanted == replicas:
                    return
                raise UnknownOutcomeError(text)
            if not isinstance(outcome, Conflict) or latest.wanted != scale.wanted:
                raise ScaleError(text)
            scale = latest
        raise ScaleError(text)


def _read(resource: Resource, key: Key) -> Step[TargetScale]:
    get = Get(resource.id, key, "scale")
    outcome = yield from perform(get)
    if isinstance(outcome, Refused):
        raise CommandError(get, outcome)
    if not isinstance(outcome, Done):
        raise ScaleError(_text(outcome, "get", resource, key))
    body = decode_object(outcome.body)
    try:
        check_scale(body)
    except ValueError as err:
        raise ScaleError(f"the scale of {resource.plural} {key}: {err}") from err
    spec, status = body.get("spec") or {}, body.get("status") or {}
    return TargetScale(
        resource, key, body, spec.get("replicas") or 0, status.get("replicas") or 0, status.get("selector") or ""
    )


def _text(failure: Failure, verb: str, resource: Resource, key: Key) -> str:
    return client_go_message(failure, f"{verb} {resource.plural} {key.rpartition('/')[2]}")


def _group_of(api_version: str) -> str:
    """Return the API group of an apiVersion; "" for the core group. Raises ValueError if it is malformed."""
    if api_version.count("/") > 1:
        raise ValueError(f"unexpected GroupVersion string: {api_version}")
    return api_version.rpartition("/")[0]
