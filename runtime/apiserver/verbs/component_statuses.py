"""GET of ComponentStatuses, which are computed when they are read.

Upstream probes fixed ports of its machine, which may belong to programs of other clusters. Here a scheduler or a
controller manager counts as healthy while it watches as its own user or holds its Lease, and etcd-0 represents the
store.

Source: kubernetes pkg/registry/core/componentstatus/rest.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import orjson

from kcm.protocols.objects import Object, decode_object, encode_object
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.storage.selection import parse_selection
from kcm.runtime.apiserver.verbs.read import ListResponse
from kcm.runtime.client.api import Response

Components = Callable[[], Iterable[tuple[str, str]]]
"""Returns the name of each component, and why it is unhealthy ("" if it is healthy)."""


def no_components() -> Iterable[tuple[str, str]]:
    return ()


def read_component_statuses(call: RoutedRequest, components: Components) -> Response:
    """Get one ComponentStatus if the path has a name, otherwise list all of them.

    components: returns name and problem of each component; the problem of a healthy component is ""
    """
    return _get(call, components) if call.route.name else _list(call, components)


def _get(call: RoutedRequest, components: Components) -> Response:
    name = call.route.name
    for component, problem in components():
        if component == name:
            head = {"kind": call.definition.kind, "apiVersion": call.definition.api_version}
            return Response(status=200, body=encode_object({**head, **_status(component, problem)}))
    raise status_errors.not_found("", "componentstatus", name)


def _list(call: RoutedRequest, components: Components) -> Response:
    definition = call.definition
    selection = parse_selection(definition, call.query)
    found = [_status(name, problem) for name, problem in components()]
    items = [
        encode_object(component) for component in found if selection.matches(component["metadata"]["name"], component)
    ]
    head = {"kind": definition.list_kind, "apiVersion": definition.api_version, "metadata": dict[str, str]()}
    body = b"".join((orjson.dumps(head)[:-1], b',"items":[', b",".join(items), b"]}"))
    return ListResponse(status=200, body=body, head=head, items=items)


def lease_problem(cluster: Cluster, name: str) -> str:
    """Return why a Lease in kube-system is not held; "" if it is held.

    name: name of the Lease
    """
    record = cluster.state.get("leases.coordination.k8s.io", f"kube-system/{name}")
    if record is None:
        return f"lease kube-system/{name} not found"
    spec = decode_object(record.raw).get("spec") or {}
    renewed = spec.get("renewTime")
    if not renewed or not spec.get("holderIdentity"):
        return f"lease kube-system/{name} has no holder"
    age = cluster.clock.now() - parse_time(renewed)
    return "" if age <= (spec.get("leaseDurationSeconds") or 0) else f"lease kube-system/{name} has expired"


def _status(name: str, problem: str) -> Object:
    condition = {"type": "Healthy", "status": "False" if problem else "True", "message": problem or "ok"}
    return {"metadata": {"name": name}, "conditions": [condition]}
