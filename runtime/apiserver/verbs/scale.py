"""The scale subresource: how many replicas a workload has, as a Scale of autoscaling/v1.

Source: kubernetes pkg/registry/apps/replicaset/storage/storage.go, ScaleREST (v1.36).
"""

from __future__ import annotations

from protocols.objects import Object, decode_object, encode_object
from runtime.apiserver.core import metadata
from runtime.apiserver.core.cluster import Call, Cluster
from runtime.apiserver.core.decoding import decode_body
from runtime.apiserver.errors import status_errors
from runtime.apiserver.errors.field_errors import invalid
from runtime.apiserver.kinds.autoscaling import scale as scale_kind
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.verbs.patch import apply, decode_patch, settle_patched
from runtime.apiserver.verbs.update import replace
from runtime.client.api import Response

_SCALES = scale_kind.RESOURCE


def get_scale(cluster: Cluster, call: Call) -> Response:
    record = cluster.record(call.definition, call.key)
    return Response(status=200, body=encode_object(scale_of(call.definition, decode_object(record.raw))))


def update_scale(cluster: Cluster, call: Call) -> Response:
    scale = decode_body(cluster, _SCALES, call.request.body)
    metadata.check_name(call.route, scale)
    return _store(cluster, call, scale)


def patch_scale(cluster: Cluster, call: Call) -> Response:
    patch_type, body = decode_patch(call)
    record = cluster.record(call.definition, call.key)
    patched = apply(_SCALES, scale_of(call.definition, decode_object(record.raw)), body, patch_type)
    return _store(cluster, call, settle_patched(cluster, _SCALES, patched))


def scale_of(definition: ResourceDefinition, workload: Object) -> Object:
    meta, spec, status = workload["metadata"], workload.get("spec") or {}, workload.get("status") or {}
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: meta[field] for field in shown if field in meta},
        "spec": {},
        "status": {"replicas": status.get("replicas", 0)},
    }
    if spec.get("replicas"):
        scale["spec"]["replicas"] = spec["replicas"]
    scale["status"]["selector"] = str(definition.strategy.scale_selector(workload))
    return scale


def _store(cluster: Cluster, call: Call, scale: Object) -> Response:
    definition, name = call.definition, call.route.name
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        wrong = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise status_errors.invalid("autoscaling", "Scale", name, [wrong])
    record = cluster.record(definition, call.key)
    old, new = decode_object(record.raw), decode_object(record.raw)
    uid = scale["metadata"].get("uid")
    if uid and uid != old["metadata"]["uid"]:
        because = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
        raise status_errors.conflict(definition.group, f"{definition.plural}/scale", name, because)
    new["spec"]["replicas"] = replicas
    new["metadata"]["resourceVersion"] = scale["metadata"].get("resourceVersion") or ""
    stored = replace(cluster, call, record, old, new)
    return Response(status=200, body=encode_object(scale_of(definition, decode_object(stored))))
