"""The subresource `scale` of whatever an autoscaler scales: a built-in workload, or any custom resource that has one.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go (scaleForResourceMappings, and the update in
reconcileAutoscaler); client-go scale/client.go. Differences: a size that somebody else set since it was read is not
written over, there it is, as the update of a newer version; an update whose response was lost counts if the scale then
says what was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.actors.controllers.shared.served_kinds import ServedKinds
from kcm.actors.controllers.shared.server_texts import said_by_client_go
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.fields import check_scale
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.metrics_apis import no_match
from kcm.actors.reconciliation import Step, perform
from kcm.protocols.messages.commands import Get, Update
from kcm.protocols.messages.outcomes import CommandError, Conflict, Done, Failure, Refused, Unknown
from kcm.protocols.objects import Key, Object, decode_object, encode_object, make_key, resource_version_of
from kcm.protocols.resources import Resource

TRIES = 5  # of an update that meets a newer version


class ScaleError(Exception):
    """why: what the error of the reconciliation says first. spec: the autoscaler itself is wrong."""

    def __init__(self, text: str, *, why: str = "", spec: bool = False) -> None:
        super().__init__(text)
        self.why, self.spec = why, spec


class LostError(ScaleError):
    """There was no response: it may have been written, and it may be yet."""


class Scale(NamedTuple):
    """resource, key: of what is scaled. body: as it was read. wanted, reported: replicas, of its spec and status.

    selector: of its pods, in the form of a query; "" if it says none.
    """

    resource: Resource
    key: Key
    body: Object
    wanted: int
    reported: int
    selector: str

    @property
    def version(self) -> str:
        return resource_version_of(self.body)


class Scales:
    def __init__(self, *, served: ServedKinds) -> None:
        self._served = served

    def read(self, namespace: str, reference: Mapping[str, Any]) -> Step[Scale]:
        """reference: spec.scaleTargetRef. Raises ScaleError; Retry before it is known what is served."""
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        try:
            group = _group_of(reference.get("apiVersion") or "")
        except ValueError as err:
            raise ScaleError(str(err), why="invalid API version in scale target reference", spec=True) from err
        served = self._served.of_group(group, kind)
        if not served:
            why = "unable to determine resource for scale target reference"
            raise ScaleError(no_match(group, kind), why=why)
        first = ""
        for one in served:
            try:
                return (yield from _read(one.resource, make_key(namespace, name)))
            except ScaleError as err:
                first = first or str(err)
        raise ScaleError(first, why=f"failed to query scale subresource for {kind}/{namespace}/{name}")

    def write(self, scale: Scale, replicas: int) -> Step[None]:
        """Raises ScaleError; LostError if the response was lost, and the target is still as it was."""
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
                raise (LostError if isinstance(outcome, Unknown) else ScaleError)(text) from err
            if isinstance(outcome, Unknown):
                if latest.wanted == replicas:
                    return
                raise LostError(text)
            if not isinstance(outcome, Conflict) or latest.wanted != scale.wanted:
                raise ScaleError(text)
            scale = latest
        raise ScaleError(text)


def _read(resource: Resource, key: Key) -> Step[Scale]:
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
    return Scale(
        resource, key, body, spec.get("replicas") or 0, status.get("replicas") or 0, status.get("selector") or ""
    )


def _text(failure: Failure, verb: str, resource: Resource, key: Key) -> str:
    return said_by_client_go(failure, f"{verb} {resource.plural} {key.rpartition('/')[2]}")


def _group_of(api_version: str) -> str:
    """Raises ValueError on what names no version of a group."""
    if api_version.count("/") > 1:
        raise ValueError(f"unexpected GroupVersion string: {api_version}")
    return api_version.rpartition("/")[0]
