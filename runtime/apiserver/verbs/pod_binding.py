"""POST to pods/binding and to bindings, for schedulers.

Source: kubernetes pkg/registry/core/pod/storage/storage.go, BindingREST (v1.36).
"""

from __future__ import annotations

from typing import Any

import orjson
from msgspec.structs import replace

from kcm.protocols.objects import Object, decode_object
from kcm.runtime.apiserver.admission import chain
from kcm.runtime.apiserver.core.body_decoder import decode_body
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import not_supported, required
from kcm.runtime.apiserver.kinds.core import binding as binding_kind
from kcm.runtime.apiserver.registry.routing import ResourceRoute
from kcm.runtime.client.api import Response


def bind(cluster: Cluster, call: RoutedRequest) -> Response:
    """Assign a pod to a node."""
    binding = decode_body(cluster, binding_kind.RESOURCE, call.request.body)
    if (binding["metadata"].get("name") or call.route.name) != call.route.name:
        raise status_errors.bad_request("name in URL does not match name in Binding object")
    binding = chain.admit_body(cluster, call, binding_kind.RESOURCE, binding)
    target = binding.get("target") or {}
    if target.get("kind") not in (None, "", "Node"):
        wrong = not_supported("target.kind", target["kind"], ("Node", "<empty>"))
        raise status_errors.invalid("", "Binding", call.route.name, [wrong])
    if not target.get("name"):
        raise status_errors.invalid("", "Binding", call.route.name, [required("target.name")])
    record = cluster.record(call.definition, call.key)
    pod = decode_object(record.raw)
    _check_bindable(call, pod, binding["metadata"])
    spec, meta = pod["spec"], pod["metadata"]
    spec["nodeName"] = target["name"]
    for part in ("annotations", "labels"):
        if binding["metadata"].get(part):
            meta[part] = {**(meta.get(part) or {}), **binding["metadata"][part]}
    _mark_scheduled(pod.setdefault("status", {}), cluster.timestamp())
    if not call.dry_run:
        cluster.state.put(call.definition.storage, call.key, pod)
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(status=201, body=orjson.dumps(status))


def of_the_pod(cluster: Cluster, call: RoutedRequest) -> RoutedRequest:
    """Convert a request to bindings into a request to pods/binding of the pod in the body. Raises StatusError (400)."""
    definition = cluster.registry.find("", "v1", "pods")
    binding = decode_body(cluster, binding_kind.RESOURCE, call.request.body)
    name = binding["metadata"].get("name")
    if not name or definition is None:
        raise status_errors.bad_request("name is required")
    return replace(call, route=ResourceRoute(definition, call.route.namespace, name, "binding"))


def _check_bindable(call: RoutedRequest, pod: Object, expected: Object) -> None:
    name, meta = call.route.name, pod["metadata"]
    because = ""
    for field in ("uid", "resourceVersion"):
        if expected.get(field) and expected[field] != meta[field]:
            because = f"Precondition failed: {field} in precondition: {expected[field]}, in object meta: {meta[field]}"
    if "deletionTimestamp" in meta:
        because = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        because = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        because = f"pod {name} has non-empty .spec.schedulingGates"
    if because:
        raise status_errors.conflict("", "pods/binding", name, because)


def _mark_scheduled(status: Object, now: str) -> None:
    status.pop("nominatedNodeName", None)
    conditions: list[dict[str, Any]] = status.setdefault("conditions", [])
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    status["conditions"] = [condition for condition in conditions if condition.get("type") != "PodScheduled"] + [
        scheduled
    ]
