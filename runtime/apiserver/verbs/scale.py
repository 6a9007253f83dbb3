"""Scale subresource of built-in and custom kinds: the number of a workload's replicas, as autoscaling/v1 Scale.

Source: kubernetes pkg/registry/apps/replicaset/storage/storage.go, ScaleREST (v1.36).
"""

from __future__ import annotations

from kcm.protocols.messages.commands import PatchType
from kcm.protocols.objects import Object, decode_object, encode_object
from kcm.runtime.apiserver.admission import chain
from kcm.runtime.apiserver.core import metadata
from kcm.runtime.apiserver.core.body_decoder import decode_body
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest, read_stored
from kcm.runtime.apiserver.core.server_side_apply import apply as server_side_apply
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import invalid, quoted
from kcm.runtime.apiserver.kinds.autoscaling import scale as scale_kind
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.storage.state import StoredObject
from kcm.runtime.apiserver.verbs.custom_scale import custom_scale_of, has_replicas, set_replicas
from kcm.runtime.apiserver.verbs.options import check_update_options
from kcm.runtime.apiserver.verbs.patch import apply, decode_patch, settle_patched
from kcm.runtime.apiserver.verbs.update import replace
from kcm.runtime.client.api import Response

_SCALES = scale_kind.RESOURCE


def get_scale(cluster: Cluster, call: RoutedRequest) -> Response:
    record = cluster.record(call.definition, call.key)
    workload = read_stored(call.definition, record.raw)
    paths = call.definition.strategy.scale_paths
    if paths is not None and not has_replicas(paths, workload):
        raise status_errors.internal(f"the spec replicas field {quoted(paths.replicas)} does not exist")
    return Response(status=200, body=encode_object(scale_of(call.definition, workload)))


def update_scale(cluster: Cluster, call: RoutedRequest) -> Response:
    check_update_options(call.query)
    scale = decode_body(cluster, _SCALES, call.request.body)
    metadata.check_name(call.route, scale)
    return _store(cluster, call, scale)


def patch_scale(cluster: Cluster, call: RoutedRequest) -> Response:
    patch_type, body = decode_patch(call)
    record = cluster.record(call.definition, call.key)
    if patch_type == PatchType.APPLY:
        return _apply(cluster, call, record, body)
    workload, paths = read_stored(call.definition, record.raw), call.definition.strategy.scale_paths
    patched = apply(_SCALES, scale_of(call.definition, workload), body, patch_type)
    scale = settle_patched(cluster, _SCALES, patched)
    if paths is not None and not has_replicas(paths, workload) and "replicas" not in (scale.get("spec") or {}):
        raise status_errors.bad_request(f"the spec replicas field {quoted(paths.replicas)} cannot be empty")
    return _store(cluster, call, scale)


def scale_of(definition: ResourceDefinition, workload: Object) -> Object:
    if definition.strategy.scale_paths is not None:
        return custom_scale_of(definition.strategy.scale_paths, workload)
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


def _apply(cluster: Cluster, call: RoutedRequest, record: StoredObject, body: Object) -> Response:
    """Carry out a server-side apply of a Scale, as an apply of the workload's replicas."""
    definition = call.definition
    wanted = settle_patched(cluster, _SCALES, apply(_SCALES, {}, body, PatchType.MERGE))
    metadata.check_name(call.route, wanted)
    replicas = (wanted.get("spec") or {}).get("replicas")
    scaled: Object = {}
    if replicas is not None:
        set_replicas(definition.strategy.scale_paths, scaled, replicas)
    applied = {"apiVersion": definition.api_version, "kind": definition.kind, **scaled}
    old = read_stored(definition, record.raw)
    new = settle_patched(cluster, definition, server_side_apply(cluster, call, old, applied))
    stored = replace(cluster, call, record, old, new, applied=True)
    return Response(status=200, body=encode_object(scale_of(definition, decode_object(stored))))


def _store(cluster: Cluster, call: RoutedRequest, scale: Object) -> Response:
    definition, name = call.definition, call.route.name
    record = cluster.record(definition, call.key)
    old, new = read_stored(definition, record.raw), read_stored(definition, record.raw)
    scale = chain.admit_body(cluster, call, _SCALES, scale, lambda: scale_of(definition, old))
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    paths = definition.strategy.scale_paths
    if replicas < 0 and paths is None:
        wrong = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise status_errors.invalid("autoscaling", "Scale", name, [wrong])
    uid = scale["metadata"].get("uid")
    if uid and uid != old["metadata"]["uid"]:
        because = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
        raise status_errors.conflict(definition.group, f"{definition.plural}/scale", name, because)
    set_replicas(paths, new, replicas)
    given = scale["metadata"].get("resourceVersion") or ""
    if given or paths is None:  # without a resourceVersion, a custom object is updated unconditionally
        new["metadata"]["resourceVersion"] = given
    stored = replace(cluster, call, record, old, new)
    return Response(status=200, body=encode_object(scale_of(definition, decode_object(stored))))
