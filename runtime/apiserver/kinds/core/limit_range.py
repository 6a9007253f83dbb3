"""LimitRanges.

Source: kubernetes pkg/registry/core/limitrange/strategy.go, pkg/apis/core/v1/defaults.go (v1.36).
"""

from __future__ import annotations

from protocols.objects import Object
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.strategy import Strategy


def set_defaults(limits: Object) -> None:
    for item in (limits.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        item["default"] = {**(item.get("max") or {}), **(item.get("default") or {})}
        item["defaultRequest"] = {
            **(item.get("min") or {}),
            **item["default"],
            **(item.get("defaultRequest") or {}),
        }


RESOURCE = ResourceDefinition(
    version="v1",
    plural="limitranges",
    kind="LimitRange",
    short_names=("limits",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        allow_create_on_update=True,
        set_defaults=set_defaults,
    ),
)
