"""The scale of an object of a custom kind, whose definition says where its parts are.

Source: apiextensions-apiserver pkg/registry/customresource/etcd.go (ScaleREST; v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.errors import status_errors
from runtime.apiserver.registry.strategy import ScalePaths

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_GO_TYPES = {str: "string", bool: "bool", float: "float64", int: "int64", list: "[]interface {}"}


def custom_scale_of(paths: ScalePaths, obj: Object) -> Object:
    """Raises StatusError (500) where something else is than a Scale shows."""
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
    """In place; paths: None for those of the built-in kinds."""
    *steps, last = _steps(".spec.replicas" if paths is None else paths.replicas)
    for step in steps:
        obj = obj.setdefault(step, {})
    obj[last] = replicas


def _steps(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _at(obj: Object, path: str, type_: type) -> Any:
    """None where there is nothing."""
    value: Any = obj
    for step in _steps(path):
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    if type(value) is not type_:
        found, wanted = _GO_TYPES.get(type(value), "map[string]interface {}"), _GO_TYPES[type_]
        text = f"{path} accessor error: {value} is of the type {found}, expected {wanted}"
        raise status_errors.unexplained(text)
    return value
