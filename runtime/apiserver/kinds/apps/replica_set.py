"""ReplicaSets (apps/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/apps/replicaset/strategy.go, pkg/apis/apps/v1/defaults.go,
pkg/apis/apps/validation/validation.go, pkg/printers/internalversion/printers.go (printReplicaSet) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.kinds.pod_spec.workloads import (
    REPLICA_COLUMNS,
    TEMPLATE_COLUMNS,
    replica_cells,
    spec_with_template,
    validate_replicas_status,
    validate_selected_template,
    validate_selector_update,
    warn_of_template,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import part, selector_cell
from kcm.runtime.apiserver.rules.conditions import fill_times
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.numbers import not_negative
from kcm.runtime.apiserver.rules.selectable_fields import count_at


def set_defaults(replicaset: Object) -> None:
    spec = spec_with_template(replicaset)
    spec.setdefault("replicas", 1)


def validate(replicaset: Object) -> list[FieldError]:
    spec = replicaset["spec"]
    errors = not_negative(spec, "spec", ("replicas", "minReadySeconds"))
    return errors + validate_selected_template(spec, owner="ReplicaSet", empty="deployment")


def prepare_for_status_update(new: Object, _old: Object) -> None:
    fill_times(new, "lastTransitionTime")


def cells(obj: Object, now: float) -> list[Any]:
    return [*replica_cells(obj, now), selector_cell(part(obj, "spec").get("selector"))]


RESOURCE = ResourceDefinition(
    group="apps",
    version="v1",
    plural="replicasets",
    kind="ReplicaSet",
    short_names=("rs",),
    categories=("all",),
    subresources=("status", "scale"),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        validate=validate,
        validate_update=validate_selector_update,
        warn=warn_of_template,
        has_status=True,
        prepare_for_status_update=prepare_for_status_update,
        empty_status={"replicas": 0},
        validate_status_update=validate_replicas_status,
        selectable_fields={"status.replicas": count_at("status.replicas")},
    ),
    printer=Printer(columns=(*REPLICA_COLUMNS, *TEMPLATE_COLUMNS), cells=cells),
)
