"""CSIDrivers (storage.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/storage/csidriver/strategy.go, pkg/printers/internalversion/printers.go
(printCSIDriver) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, not_supported
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, boolean
from kcm.runtime.apiserver.registry.strategy import Allocating, Strategy
from kcm.runtime.apiserver.rules.cells import NONE, UNSET, age_cell, items, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE

_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_MODES = ("Persistent", "Ephemeral")
_SHORTEST_TOKEN, _LONGEST_TOKEN, _SHORTEST_PERIOD = 600, 1 << 32, 10  # seconds


def set_defaults(driver: Object) -> None:
    spec = driver["spec"]
    spec.pop("preventPodSchedulingIfMissing", None)  # behind the feature gate VolumeLimitScaling, which is off
    for name, value in _DEFAULTS.items():
        spec.setdefault(name, value)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def increment_generation(_among: Allocating, new: Object, old: Object) -> None:
    """Increment metadata.generation if the spec of a CSIDriver changes. A new CSIDriver has no generation."""
    if new["spec"] != old["spec"]:
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def validate(driver: Object) -> list[FieldError]:
    spec = driver["spec"]
    errors: list[FieldError] = []
    tokens, period = spec.get("tokenRequests") or (), spec.get("nodeAllocatableUpdatePeriodSeconds")
    audiences: set[str] = set()
    for i, token in enumerate(tokens):
        at, audience, seconds = f"spec.tokenRequests[{i}]", token.get("audience") or "", token.get("expirationSeconds")
        if audience in audiences:
            errors.append(duplicate(f"{at}.audience", audience))
            continue
        audiences.add(audience)
        if seconds is not None and seconds < _SHORTEST_TOKEN:
            detail = "may not specify a duration less than 10 minutes"
            errors.append(invalid(f"{at}.expirationSeconds", seconds, detail))
        if seconds is not None and seconds > _LONGEST_TOKEN:
            detail = "may not specify a duration larger than 2^32 seconds"
            errors.append(invalid(f"{at}.expirationSeconds", seconds, detail))
    policy = spec["fsGroupPolicy"]
    if policy not in _GROUP_POLICIES:
        errors.append(not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES))
    errors += [
        not_supported("spec.volumeLifecycleModes", mode, _MODES)
        for mode in spec["volumeLifecycleModes"]
        if mode not in _MODES
    ]
    if period is not None and period < _SHORTEST_PERIOD:
        detail = f"must be greater than or equal to {_SHORTEST_PERIOD} seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail))
    if spec.get("serviceAccountTokenInSecrets") and not tokens:
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid("spec.serviceAccountTokenInSecrets", True, detail))
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a CSIDriver. The error texts spell attachRequired as upstream does, "attachedRequired"."""
    fields = (("attachedRequired", "attachRequired"), ("volumeLifecycleModes", "volumeLifecycleModes"))
    return [
        invalid(f"spec.{shown}", new["spec"].get(field), IMMUTABLE)
        for shown, field in fields
        if new["spec"].get(field) != old["spec"].get(field)
    ]


def warn(driver: Object, old: Object | None) -> Iterator[str]:
    """Yield a warning about token requests whose tokens the driver may log."""
    requests = driver["spec"].get("tokenRequests")
    is_other = old is None or requests != old["spec"].get("tokenRequests")
    if requests and is_other and "serviceAccountTokenInSecrets" not in driver["spec"]:
        yield (
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent "
            "possible logging of tokens in volume attributes"
        )


def cells(driver: Object, now: float) -> list[Any]:
    spec = part(driver, "spec")
    tokens = spec.get("tokenRequests")
    return [
        name_cell(driver),
        spec.get("attachRequired") is not False,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        UNSET if tokens is None else ",".join(token.get("audience") or "" for token in tokens),
        bool(spec.get("requiresRepublish")),
        ",".join(items(spec, "volumeLifecycleModes")) or NONE,
        age_cell(driver, now),
    ]


RESOURCE = ResourceDefinition(
    group="storage.k8s.io",
    version="v1",
    plural="csidrivers",
    kind="CSIDriver",
    namespaced=False,
    strategy=Strategy(
        warn=warn,
        set_defaults=set_defaults,
        validate=validate,
        validate_update=validate_update,
        reallocate=increment_generation,
        validate_name=dns_subdomain,
        allow_unconditional_update=False,
        return_deleted_object=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            boolean("AttachRequired"),
            boolean("PodInfoOnMount"),
            boolean("StorageCapacity"),
            Column("TokenRequests"),
            boolean("RequiresRepublish"),
            Column("Modes"),
            AGE,
        ),
        cells=cells,
    ),
)
