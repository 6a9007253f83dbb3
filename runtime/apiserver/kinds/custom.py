"""The kinds that a CustomResourceDefinition declares: one ResourceDefinition for each served version.

First cut: schemas are neither checked nor used for pruning or defaults, and versions differ by their apiVersion only.

Source: apiextensions-apiserver pkg/registry/customresource/{strategy,status_strategy}.go,
pkg/registry/customresource/tableconvertor (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import NAME_AND_AGE
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.strategy import Strategy


def definitions_in(custom_resource_definition: Object) -> list[ResourceDefinition]:
    spec = custom_resource_definition["spec"]
    stored_version = next((one["name"] for one in spec["versions"] if one.get("storage")), "")
    return [_definition(spec, version, stored_version) for version in spec["versions"] if version.get("served")]


def _definition(spec: Object, version: Object, stored_version: str) -> ResourceDefinition:
    names, group = spec["names"], spec["group"]
    has_status = "status" in (version.get("subresources") or {})
    is_stored = version.get("storage")
    return ResourceDefinition(
        group=group,
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        namespaced=spec["scope"] == "Namespaced",
        subresources=("status",) if has_status else (),
        to_storage=None if is_stored else _as_version(f"{group}/{stored_version or version['name']}"),
        from_storage=None if is_stored else _as_version(f"{group}/{version['name']}"),
        strategy=Strategy(
            has_generation=True,
            allow_unconditional_update=False,
            has_status=has_status,
            status_update_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
        ),
        printer=NAME_AND_AGE,
        dynamic=True,
    )


def _as_version(api_version: str) -> Callable[[Object], Object]:
    return lambda obj: {**obj, "apiVersion": api_version}
