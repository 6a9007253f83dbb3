"""Handlers of requests, by verb and subresource."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.registry.definitions import VERBS
from kcm.runtime.apiserver.registry.derived import COMPONENTS, Derived
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.storage.watches import WatchCache
from kcm.runtime.apiserver.verbs.component_statuses import Components, no_components, read_component_statuses
from kcm.runtime.apiserver.verbs.create import create
from kcm.runtime.apiserver.verbs.delete import delete, delete_collection
from kcm.runtime.apiserver.verbs.derived import get_derived, list_derived
from kcm.runtime.apiserver.verbs.eviction import evict
from kcm.runtime.apiserver.verbs.patch import patch
from kcm.runtime.apiserver.verbs.pod_binding import bind, of_the_pod
from kcm.runtime.apiserver.verbs.read import get, list_
from kcm.runtime.apiserver.verbs.scale import get_scale, patch_scale, update_scale
from kcm.runtime.apiserver.verbs.token import create_token
from kcm.runtime.apiserver.verbs.update import update
from kcm.runtime.client.api import Response

Handler = Callable[[Cluster, RoutedRequest], Response]
# Subresources whose requests contain the object itself, so that the handlers of the object serve them.
_OF_THE_OBJECT = ("status", "approval", "resize", "ephemeralcontainers")
_HANDLERS: Mapping[tuple[str, str], Handler] = {
    ("create", ""): create,
    ("get", ""): get,
    ("update", ""): update,
    ("patch", ""): patch,
    ("delete", ""): delete,
    **{("get", subresource): get for subresource in _OF_THE_OBJECT},
    **{("update", subresource): update for subresource in _OF_THE_OBJECT},
    **{("patch", subresource): patch for subresource in _OF_THE_OBJECT},
    ("update", "finalize"): update,
    ("get", "scale"): get_scale,
    ("update", "scale"): update_scale,
    ("patch", "scale"): patch_scale,
    ("create", "binding"): bind,
    ("create", "eviction"): evict,
    ("create", "token"): create_token,
}
_VERBS_OF_COLLECTIONS = ("create", "list", "deletecollection")


class Handlers:
    """Handlers of one server, which dispatch requests by verb and subresource."""

    def __init__(self, cache: WatchCache) -> None:
        self.components: Components = no_components  # source of ComponentStatuses
        self._handlers: dict[tuple[str, str], Handler] = {
            **_HANDLERS,
            ("list", ""): partial(_with_cache, list_, cache),
            ("deletecollection", ""): partial(_with_cache, delete_collection, cache),
        }

    def carry_out(self, cluster: Cluster, info: RequestInfo, call: RoutedRequest) -> Response:
        """Execute a request other than a watch. Raises StatusError, for example for an unsupported verb (405)."""
        found = call.route
        definition, subresource = found.definition, found.subresource
        verb = "list" if info.verb == "watch" else info.verb
        if definition.namespaced and not found.namespace and verb != "list":
            raise status_errors.method_not_allowed()  # only lists may refer to all namespaces
        handler = self._handlers.get((verb, subresource))
        if handler is None or bool(found.name) == (not subresource and verb in _VERBS_OF_COLLECTIONS):
            raise status_errors.method_not_allowed()
        if not subresource:
            if definition.verbs is not VERBS and verb not in definition.verbs:  # only read, or only reviewed
                raise status_errors.method_not_allowed()
            if definition.derived is not None and call.request.method == "GET":
                return self._read_derived(cluster, call, definition.derived)
            if definition.name == "bindings":
                return bind(cluster, of_the_pod(cluster, call))
        return handler(cluster, call)

    def _read_derived(self, cluster: Cluster, call: RoutedRequest, derived: Derived) -> Response:
        if derived is COMPONENTS:
            return read_component_statuses(call, self.components)
        return get_derived(cluster, call, derived) if call.route.name else list_derived(cluster, call, derived)


def _with_cache(
    handler: Callable[[Cluster, WatchCache, RoutedRequest], Response],
    cache: WatchCache,
    cluster: Cluster,
    call: RoutedRequest,
) -> Response:
    return handler(cluster, cache, call)
