"""Finds the resource that serves a request.

Source: apiserver pkg/endpoints/installer.go, which registers these paths with go-restful (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.definitions import Registry, ResourceDefinition
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.subresources import OF_RUNNING_CONTAINERS

MOST_ROUTES = 4096  # maximum number of cached routes
LONGEST_PATH = 512  # maximum number of characters in the path of a cached route


class ResourceRoute(NamedTuple):
    """The resource, and its object or collection, that a request addresses.

    Unlike in RequestInfo, `namespace` is "" for cluster-scoped resources, and `name` is "" for a collection, even if a
    field selector requires a name.
    """

    definition: ResourceDefinition
    namespace: str
    name: str
    subresource: str


class NeedsContainerError(StatusError):
    """Error (501) of a request that needs a running container, such as pods/exec. route: what the request addresses."""

    def __init__(self, route: ResourceRoute) -> None:
        subject = f"{route.definition.name}/{route.subresource}"
        super().__init__(
            501, "NotImplemented", f"{subject} is not supported: the pods of this cluster run no containers", {}
        )
        self.route = route


FindRoute = Callable[[RequestInfo], ResourceRoute | None]
"""Finds the resource that serves a request; None if no resource serves it."""


def route(registry: Registry, info: RequestInfo) -> ResourceRoute:
    """Return the resource that serves a request.

    Raises StatusError: 404 if nothing is served at the path, 501 if the request needs running containers
    (NeedsContainerError), 503 if another server serves the group version, 400 if the name cannot be part of a path.
    """
    found: ResourceRoute | None = registry.routes.get(info.path)
    if found is None:
        found = _find(registry, info)
        if len(info.path) > LONGEST_PATH:
            return found
        if len(registry.routes) >= MOST_ROUTES:
            registry.routes.clear()
        registry.routes[info.path] = found
    return found


def _find(registry: Registry, info: RequestInfo) -> ResourceRoute:
    if not info.is_resource_request or not info.path.startswith(f"/{info.api_prefix}/"):
        raise status_errors.no_such_path()
    if info.api_prefix == "apis" and not info.group:
        raise status_errors.no_such_path()
    if (info.group, info.version) in registry.elsewhere:
        raise status_errors.served_elsewhere()
    if info.has_verb_prefix:
        raise status_errors.no_such_path(_not_served(registry, info._replace(resource=info.verb)))
    if info.in_namespace and not info.namespace:
        raise status_errors.no_such_path()
    definition = registry.find(info.group, info.version, info.resource)
    if definition is None:
        raise status_errors.no_such_path(_not_served(registry, info))
    namespace = info.namespace if info.in_namespace else ""
    if info.subresource in OF_RUNNING_CONTAINERS.get(definition.name, ()):
        raise NeedsContainerError(ResourceRoute(definition, namespace, info.name, info.subresource))
    _check_object_path(definition, info)
    # The name in the path, not info.name, which may come from a field selector.
    return ResourceRoute(definition, namespace, info.parts[1] if len(info.parts) > 1 else "", info.subresource)


def _check_object_path(definition: ResourceDefinition, info: RequestInfo) -> None:
    """Raise StatusError if the resource has no object or subresource at this path."""
    _, *in_resource = info.parts
    if not in_resource:
        if info.in_namespace and not definition.namespaced:
            raise status_errors.no_such_path()
        return
    name, *rest = in_resource
    has_subresource = not rest or (len(rest) == 1 and rest[0] in definition.subresources)
    if definition.dynamic and name and not has_subresource:
        raise status_errors.not_found(definition.group, definition.plural, name)
    if not name or not has_subresource or info.in_namespace != definition.namespaced:
        raise status_errors.no_such_path()
    if problem := _segment_problem(name):
        raise status_errors.bad_request(f"Name parameter invalid: {quoted(name)}: {problem}")


def _segment_problem(name: str) -> str:
    """Return why a name cannot be a segment of a path; "" if it can (upstream's IsPathSegmentName)."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    return next((f"may not contain '{character}'" for character in "/%" if character in name), "")


def _not_served(registry: Registry, info: RequestInfo) -> str:
    """Return a hint like "autoscaling/v1 horizontalpodautoscalers is not served here, autoscaling/v2 is"."""
    api_version = f"{info.group}/{info.version}" if info.group else info.version
    same = (info.group, info.resource)
    others = sorted({served.api_version for served in registry if (served.group, served.plural) == same})
    instead = f", {' and '.join(others)} is" if others else ""
    return f"{api_version} {info.resource} is not served here{instead}"
