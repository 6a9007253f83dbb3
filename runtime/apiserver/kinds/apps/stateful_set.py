"""StatefulSets.

Source: kubernetes pkg/registry/apps/statefulset/strategy.go, pkg/apis/apps/v1/defaults.go,
pkg/apis/apps/validation/validation.go, pkg/printers/internalversion/printers.go (printStatefulSet) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import FieldError
from runtime.apiserver.kinds.shared.cells import age_cell, name_cell
from runtime.apiserver.kinds.shared.names import dns_label
from runtime.apiserver.kinds.shared.numbers import not_negative
from runtime.apiserver.kinds.shared.workloads import (
    CONTAINER_COLUMNS,
    HISTORY_LIMIT,
    ROLLING_UPDATE,
    count,
    spec_with_template,
    template_cells,
    validate_selected_template,
    validate_selector_update,
)
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


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
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def validate(statefulset: Object) -> list[FieldError]:
    spec = statefulset["spec"]
    errors = not_negative(spec, "spec", ("replicas", "minReadySeconds"))
    return errors + validate_selected_template(_as_pods_have_it(spec), owner="StatefulSet", empty="statefulset")


def _as_pods_have_it(spec: Object) -> Object:
    """The spec with a template that has a volume for each claim, and no host's name: its pods have their own."""
    template = spec["template"]
    of_pods = {name: value for name, value in template["spec"].items() if name not in ("hostname", "subdomain")}
    names = [(claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    if names:
        own = [volume for volume in of_pods.get("volumes") or () if volume.get("name") not in names]
        claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        of_pods["volumes"] = claimed + own
    return {**spec, "template": {**template, "spec": of_pods}}


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
        validate=validate,
        validate_update=validate_selector_update,
        has_status=True,
        empty_status={"replicas": 0, "availableReplicas": 0},
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
