"""APIServices that assign a group version to the API server behind a Service (aggregated API servers).

This server forwards no requests to other servers, and hollow pods serve none. So an APIService with a Service is
available only if this server itself serves the group version: as a built-in one, or, while the ready pods of the
Service are hollow, by definitions of its own (metrics.k8s.io). For any other group version the response is 503, and
discovery shows it as stale, as upstream does while an aggregated server is down.

Source: kube-aggregator pkg/controllers/status/remote/remote_available_controller.go, pkg/apiserver/handler_proxy.go
(v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kcm.protocols.objects import Key, Object, decode_object, labels_of, split_key
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.webhook_addresses import SERVICE_NAME, SLICES, is_hollow_endpoint, slices_of
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange

API_SERVICES, SERVICES, NODES = "apiservices.apiregistration.k8s.io", "services", "nodes"
_STORAGES = frozenset((API_SERVICES, SERVICES, SLICES, NODES))
_AVAILABLE = "Available"
GroupVersion = tuple[str, str]  # group and version


class Availability(NamedTuple):
    """Content of the condition Available of an APIService.

    is_hollow: whether the API server is unavailable only because its ready pods are hollow.
    """

    is_available: bool
    reason: str
    message: str
    is_hollow: bool = False


PASSED = Availability(True, "Passed", "all checks passed")


class RemoteApiServices:
    """Reaction (see cluster.py) to changes of APIServices, Services, EndpointSlices and nodes.

    It updates the condition Available of APIServices, and `Registry.elsewhere`. The argument `stand_ins` of the
    constructor contains definitions that this server serves itself while the pods of an APIService are hollow.
    """

    def __init__(self, cluster: Cluster, stand_ins: Iterable[ResourceDefinition] = ()) -> None:
        self._cluster = cluster
        self._services: dict[str, Key] = {}  # APIService → key of its Service
        self._built_in = {
            (definition.group, definition.version) for definition in cluster.registry if not definition.dynamic
        }
        self._stand_ins: dict[GroupVersion, list[ResourceDefinition]] = {}
        for definition in stand_ins:
            self._stand_ins.setdefault((definition.group, definition.version), []).append(definition)

    def react(self, change: StoreChange) -> None:
        if change.storage in _STORAGES:
            for name in self._affected(change):
                self._sync(name)

    def undo(self, change: StoreChange) -> None:
        if change.storage in _STORAGES:
            for name in self._affected(change):
                self._apply(name)

    def reconcile(self) -> None:
        for name in list(self._cluster.state.collection(API_SERVICES).records):
            self._sync(name)

    def _affected(self, change: StoreChange) -> list[str]:
        """Return the names of the APIServices whose condition a change may affect."""
        if change.storage == API_SERVICES:
            return [change.key]
        if not self._services:
            return []
        if change.storage == SERVICES:
            return self._of_service(change.key)
        if change.storage == SLICES:
            service = labels_of(decode_object(change.raw)).get(SERVICE_NAME, "")
            return self._of_service(f"{split_key(change.key)[0]}/{service}")
        # An endpoint is hollow if its node is, so a new or deleted node may affect every APIService.
        is_node = change.storage == NODES and (not change.previous or change.type == DELETED)
        return list(self._services) if is_node else []

    def _of_service(self, service: Key) -> list[str]:
        return [name for name, key in self._services.items() if key == service]

    def _sync(self, name: str) -> None:
        found = self._apply(name)
        if found is None:
            return
        stored, availability = found
        conditions = list((stored.get("status") or {}).get("conditions") or ())
        before = next((condition for condition in conditions if condition.get("type") == _AVAILABLE), None)
        now = _condition(availability, before, self._cluster.timestamp())
        if now != before:
            conditions = [condition for condition in conditions if condition is not before] + [now]
            status = {**(stored.get("status") or {}), "conditions": conditions}
            self._cluster.state.put(API_SERVICES, name, {**stored, "status": status})

    def _apply(self, name: str) -> tuple[Object, Availability] | None:
        """Register or unregister the group version of an APIService.

        Returns (the APIService, its availability); None if it does not exist or has no Service.
        """
        record = self._cluster.state.get(API_SERVICES, name)
        stored = None if record is None else decode_object(record.raw)
        service = None if stored is None else stored["spec"].get("service")
        if stored is None or service is None:
            self._services.pop(name, None)
            self._serve(name, None, elsewhere=None)
            return None
        self._services[name] = f"{service.get('namespace') or ''}/{service.get('name') or ''}"
        place: GroupVersion = (stored["spec"].get("group") or "", stored["spec"].get("version") or "")
        availability = self._availability(stored, place)
        if availability.is_hollow and place in self._stand_ins:
            availability = PASSED
        self._serve(
            name, place if availability.is_available else None, elsewhere=None if availability.is_available else place
        )
        return stored, availability

    def _serve(self, name: str, here: GroupVersion | None, *, elsewhere: GroupVersion | None) -> None:
        """Update the registry for an APIService.

        name: name of the APIService, "<version>.<group>".
        here: group and version to serve with this server's own definitions (stand-ins); None: unregister them.
        elsewhere: group and version to respond with 503 to; None: no group version.
        """
        registry = self._cluster.registry
        registry.serve_elsewhere(name, elsewhere)
        for place, definitions in self._stand_ins.items():
            for definition in definitions if name == f"{place[1]}.{place[0]}" else ():
                is_served = registry.find(*place, definition.plural) is not None
                if place == here and not is_served:
                    registry.add(definition)
                elif place != here and is_served:
                    registry.remove(definition)

    def _availability(self, stored: Object, place: GroupVersion) -> Availability:
        if place in self._built_in:
            return PASSED
        spec = stored["spec"]
        namespace, name = (spec["service"].get(field) or "" for field in ("namespace", "name"))
        port = spec["service"].get("port") or 443
        shown = f'service/{name} in "{namespace}"'
        record = self._cluster.state.get(SERVICES, f"{namespace}/{name}")
        if record is None:
            return Availability(False, "ServiceNotFound", f"{shown} is not present")
        service = decode_object(record.raw)["spec"]
        slices = list(slices_of(self._cluster, namespace, name))
        if service.get("type") == "ClusterIP":
            ports = {port.get("port"): port.get("name") or "" for port in service.get("ports") or ()}
            if port not in ports:
                return Availability(False, "ServicePortError", f"{shown} is not listening on port {port}")
            if not slices:
                return Availability(False, "EndpointsNotFound", f"cannot find endpointslices for {shown}")
            if not any(_has_endpoint(slice_, ports[port]) for slice_ in slices):
                problem = f"endpointslices for {shown} have no addresses with port name {quoted(ports[port])}"
                return Availability(False, "MissingEndpoints", problem)
        path = f"/apis/{spec.get('group')}/{spec['version']}" if spec.get("group") else f"/api/{spec['version']}"
        url = f"https://{name}.{namespace}.svc:{port}{path}"
        ready = [endpoint for slice_ in slices for endpoint in _ready(slice_)]
        is_hollow = bool(ready) and all(is_hollow_endpoint(self._cluster, endpoint) for endpoint in ready)
        if is_hollow:
            why = f"the pods of service {quoted(f'{namespace}/{name}')} are hollow and serve no requests"
        else:
            why = "this server forwards no requests to other servers"
        return Availability(False, "FailedDiscoveryCheck", f"failing or missing response from {url}: {why}", is_hollow)


def _ready(found: Mapping[str, Any]) -> list[Object]:
    return [
        endpoint for endpoint in found.get("endpoints") or () if (endpoint.get("conditions") or {}).get("ready", True)
    ]


def _has_endpoint(found: Mapping[str, Any], port: str) -> bool:
    named = any((port_.get("name") or "") == port and port_.get("port") for port_ in found.get("ports") or ())
    return named and bool(_ready(found))


def _condition(availability: Availability, before: Mapping[str, Any] | None, now: str) -> Object:
    status = "True" if availability.is_available else "False"
    since = before.get("lastTransitionTime") if before is not None and before.get("status") == status else None
    return {
        "type": _AVAILABLE,
        "status": status,
        "lastTransitionTime": since or now,
        "reason": availability.reason,
        "message": availability.message,
    }
