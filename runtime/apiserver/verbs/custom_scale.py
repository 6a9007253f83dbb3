"""Scale subresource of custom objects, at the paths that their CustomResourceDefinition declares.

Source: apiextensions-apiserver pkg/registry/customresource/etcd.go (ScaleREST; v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.apiextensions.go_text import accessor_error
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.registry.strategy import ScalePaths

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def custom_scale_of(paths: ScalePaths, obj: Object) -> Object:
    """Return the Scale of a custom object. Raises StatusError (500) if a value at one of the paths has another type."""
    meta = obj["metadata"]
    replicas, selector = _at(obj, paths.replicas, int), _at(obj, paths.selector, str) if paths.selector else None
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: meta[field] for field in _SHOWN if field in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {
            "replicas": _at(obj, paths.status_replicas, int) or 0,
            **({"selector": selector} if selector else {}),
        },
    }


def has_replicas(paths: ScalePaths, obj: Object) -> bool:
    return _at(obj, paths.replicas, int) is not None


def set_replicas(paths: ScalePaths | None, obj: Object, replicas: int) -> None:
    """Set the number of replicas in an object, in place.

    paths: None for a built-in kind, whose replicas are at .spec.replicas
    """
    *steps, last = _steps(".spec.replicas" if paths is None else paths.replicas)
    for step in steps:
        obj = obj.setdefault(step, {})
    obj[last] = replicas


def _steps(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _at(obj: Object, path: str, type_: type) -> Any:
    """Return the value at a path, None if it is missing. Raises StatusError (500) if it has another type."""
    value: Any = obj
    for step in _steps(path):
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    if type(value) is not type_:
        raise status_errors.without_reason(accessor_error(path, value, type_))
    return value
