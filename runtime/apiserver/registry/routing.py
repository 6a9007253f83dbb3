"""From URL paths to resources.

Source: apiserver pkg/endpoints/request/requestinfo.go (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.registry.definitions import Registry, ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import OF_RUNNING_CONTAINERS

MOST_ROUTES, LONGEST_PATH = 4096, 512  # that are kept; characters of each


class Route(NamedTuple):
    """namespace: "" for what is cluster-scoped, or a collection over all namespaces. name: "" for a collection."""

    definition: ResourceDefinition
    namespace: str
    name: str
    subresource: str


def route(registry: Registry, path: str) -> Route:
    """Return what a path leads to.

    Raises StatusError: 404 on a path that no served resource has, 501 on what needs containers that run, 503 on a group
    version of another server.
    """
    found: Route | None = registry.routes.get(path)
    if found is None:
        found = _found(registry, path)
        if len(path) > LONGEST_PATH:
            return found
        if len(registry.routes) >= MOST_ROUTES:
            registry.routes.clear()
        registry.routes[path] = found
    return found


def _found(registry: Registry, path: str) -> Route:
    parts = path.split("/")
    if parts[-1] == "" and len(parts) > 2:
        parts.pop()
    if len(parts) > 3 and parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif len(parts) > 4 and parts[1] == "apis":
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        raise status_errors.no_such_path()
    if (group, version) in registry.elsewhere:
        raise status_errors.served_elsewhere()
    namespace = ""
    # /namespaces/x/status is a subresource of a namespace, /namespaces/x/pods a collection inside one.
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
        if not namespace:
            raise status_errors.no_such_path()
    definition = registry.find(group, version, rest[0])
    if definition is None:
        raise status_errors.no_such_path(_not_served(registry, group, version, rest[0]))
    name = rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:])
    if len(rest) > 2 and rest[2] in OF_RUNNING_CONTAINERS.get(definition.name, ()):
        raise status_errors.nothing_runs(definition.name, rest[2])
    if definition.dynamic and name and subresource and subresource not in definition.subresources:
        raise status_errors.not_found(definition.group, definition.plural, name)
    if (
        (len(rest) > 1 and not name)
        or (subresource and subresource not in definition.subresources)
        or (bool(namespace) and not definition.namespaced)
        or (name and not namespace and definition.namespaced)
    ):
        raise status_errors.no_such_path()
    if name and (problem := _segment_problem(name)):
        raise status_errors.bad_request(f"Name parameter invalid: {quoted(name)}: {problem}")
    return Route(definition, namespace, name, subresource)


def _segment_problem(name: str) -> str:
    """Return why a name cannot be part of a path; "" if it can."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    return next((f"may not contain '{one}'" for one in "/%" if one in name), "")


def _not_served(registry: Registry, group: str, version: str, plural: str) -> str:
    """ "autoscaling/v1 horizontalpodautoscalers is not served here, autoscaling/v2 is"."""
    api_version = f"{group}/{version}" if group else version
    others = sorted({one.api_version for one in registry if (one.group, one.plural) == (group, plural)})
    instead = f", {' and '.join(others)} is" if others else ""
    return f"{api_version} {plural} is not served here{instead}"
