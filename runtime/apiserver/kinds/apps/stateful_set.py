"""StatefulSets (apps/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/apps/statefulset/strategy.go, pkg/apis/apps/v1/defaults.go,
pkg/apis/apps/validation/validation.go, pkg/printers/internalversion/printers.go (printStatefulSet) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported
from kcm.runtime.apiserver.kinds.pod_spec.claim_specs import wrong_claim_spec
from kcm.runtime.apiserver.kinds.pod_spec.warnings import warnings_of_template
from kcm.runtime.apiserver.kinds.pod_spec.workloads import (
    CONTAINER_COLUMNS,
    HISTORY_LIMIT,
    ROLLING_UPDATE,
    TEMPLATE,
    count,
    spec_with_template,
    template_cells,
    validate_collisions,
    validate_selected_template,
    validate_within_replicas,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Allocating, Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell
from kcm.runtime.apiserver.rules.conditions import fill_times
from kcm.runtime.apiserver.rules.names import dns_label
from kcm.runtime.apiserver.rules.numbers import at_most_all, int_or_percent, not_negative, number_of
from kcm.runtime.apiserver.rules.warnings import of_claim_spec

_MUTABLE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
_REPLICAS = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
_AT_ONCE = "maxUnavailable"
_RETENTIONS = ("Retain", "Delete")


def set_defaults(statefulset: Object) -> None:
    spec = spec_with_template(statefulset)
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = ROLLING_UPDATE
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == ROLLING_UPDATE and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for when in ("whenDeleted", "whenScaled"):
        if not retention.get(when):
            retention[when] = "Retain"
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", HISTORY_LIMIT)
    spec.setdefault("serviceName", "")
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def prepare_for_create(statefulset: Object) -> None:
    (statefulset["spec"]["updateStrategy"].get("rollingUpdate") or {}).pop(_AT_ONCE, None)


def prepare_for_update(_among: Allocating, new: Object, old: Object) -> None:
    """Remove maxUnavailable unless the old object has it, as its feature gate (MaxUnavailableStatefulSet) is off."""
    if _AT_ONCE not in (old["spec"]["updateStrategy"].get("rollingUpdate") or {}):
        prepare_for_create(new)


def validate(statefulset: Object) -> list[FieldError]:
    spec = statefulset["spec"]
    errors: list[FieldError] = []
    if spec["podManagementPolicy"] not in ("OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", spec["podManagementPolicy"], detail))
    errors += _validate_strategy(spec["updateStrategy"], "spec.updateStrategy")
    errors += [
        not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{when}", what, _RETENTIONS)
        for when, what in spec["persistentVolumeClaimRetentionPolicy"].items()
        if what not in _RETENTIONS
    ]
    errors += not_negative(spec, "spec", ("replicas", "minReadySeconds"))
    errors += not_negative(spec.get("ordinals") or {}, "spec.ordinals", ("start",))
    return errors + validate_selected_template(_spec_for_validation(spec), owner="StatefulSet", empty="statefulset")


def _validate_strategy(strategy: Object, field: str) -> list[FieldError]:
    rolling, type_ = strategy.get("rollingUpdate"), strategy["type"]
    shown = rolling and {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get(_AT_ONCE)}
    if type_ == "OnDelete":
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        return [invalid(f"{field}.rollingUpdate", shown, detail)] if rolling is not None else []
    if type_ != ROLLING_UPDATE:
        detail = "must be 'RollingUpdate' or 'OnDelete'"
        return [invalid(field, {"Type": type_, "RollingUpdate": shown}, detail)]
    field += ".rollingUpdate"
    errors = not_negative(rolling or {}, field, ("partition",))
    at_once = (rolling or {}).get(_AT_ONCE)
    if at_once is not None:
        errors += int_or_percent(at_once, f"{field}.{_AT_ONCE}")
        if number_of(at_once) == 0:
            errors.append(invalid(f"{field}.{_AT_ONCE}", at_once, "cannot be 0"))
        errors += at_most_all(at_once, f"{field}.{_AT_ONCE}")
    return errors


def validate_create(statefulset: Object) -> list[FieldError]:
    """Validate volumeClaimTemplates and serviceName of a new StatefulSet. Both are immutable."""
    spec = statefulset["spec"]
    errors: list[FieldError] = []
    for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        errors += wrong_claim_spec(claim["spec"], f"spec.volumeClaimTemplates[{i}].spec")
    if name := spec["serviceName"]:
        errors += [invalid("spec.serviceName", name, text) for text in dns_label(name)]
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    now, then = ({name: value for name, value in obj["spec"].items() if name not in _MUTABLE} for obj in (new, old))
    if now == then:
        return []
    listed = ", ".join(f"'{name}'" for name in _MUTABLE[:-1])
    detail = f"updates to statefulset spec for fields other than {listed} and '{_MUTABLE[-1]}' are forbidden"
    return [forbidden("spec", detail)]


def prepare_for_status_update(new: Object, _old: Object) -> None:
    fill_times(new, "lastTransitionTime")


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    counts = (*_REPLICAS, "observedGeneration", "collisionCount")
    errors = not_negative(status, "status", ("replicas", *counts))
    errors += validate_within_replicas(status, _REPLICAS, shown="status.readyReplicas")
    return errors + validate_collisions(new, old)


def warn(new: Object, old: Object | None) -> Iterator[str]:
    spec = new["spec"]
    if old is None or spec != old["spec"]:
        yield from warnings_of_template(spec["template"], TEMPLATE)
    for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        at = f"spec.volumeClaimTemplates[{i}]"
        yield from of_claim_spec(claim["spec"], at if old is None else f"{at}.Spec")  # upstream's spelling
    if spec["revisionHistoryLimit"] < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
        )


def _spec_for_validation(spec: Object) -> Object:
    """Return the spec with a pod template that can be validated like a pod.

    Each claim template becomes a volume. hostname and subdomain are removed, as the controller sets them in each pod.
    """
    template = spec["template"]
    pod_spec = {name: value for name, value in template["spec"].items() if name not in ("hostname", "subdomain")}
    names = [(claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    if names:
        own = [volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in names]
        claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        pod_spec["volumes"] = claimed + own
    return {**spec, "template": {**template, "spec": pod_spec}}


def cells(obj: Object, now: float) -> list[Any]:
    ready = f"{count(obj, 'status', 'readyReplicas')}/{count(obj, 'spec', 'replicas')}"
    return [name_cell(obj), ready, age_cell(obj, now), *template_cells(obj)]


RESOURCE = ResourceDefinition(
    group="apps",
    version="v1",
    plural="statefulsets",
    kind="StatefulSet",
    short_names=("sts",),
    categories=("all",),
    subresources=("status", "scale"),
    strategy=Strategy(
        validate_name=dns_label,
        has_generation=True,
        set_defaults=set_defaults,
        prepare_for_create=prepare_for_create,
        reallocate=prepare_for_update,
        validate=validate,
        validate_create=validate_create,
        validate_update=validate_update,
        warn=warn,
        has_status=True,
        prepare_for_status_update=prepare_for_status_update,
        empty_status={"replicas": 0, "availableReplicas": 0},
        validate_status_update=validate_status_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Ready"),
            AGE,
            *CONTAINER_COLUMNS,
        ),
        cells=cells,
    ),
)
