"""ReplicationControllers (core/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/core/replicationcontroller/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/apis/core/validation/validation.go, pkg/printers/internalversion/printers.go (printReplicationController) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.selectors import LabelSelector, map_selector
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.kinds.pod_spec.defaults import default_pod_template
from kcm.runtime.apiserver.kinds.pod_spec.workloads import (
    REPLICA_COLUMNS,
    SELECTOR,
    TEMPLATE,
    TEMPLATE_COLUMNS,
    UNMATCHED,
    replica_cells,
    validate_replicas_status,
    validate_template,
    warn_of_template,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import Printer
from kcm.runtime.apiserver.registry.strategy import GarbageCollectionPolicy, Strategy
from kcm.runtime.apiserver.rules.cells import label_cell, part
from kcm.runtime.apiserver.rules.conditions import fill_times
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.numbers import not_negative
from kcm.runtime.apiserver.rules.selectable_fields import FIELD_LABEL_NOT_SUPPORTED, count_at


def set_defaults(controller: Object) -> None:
    """Set the defaults of a ReplicationController. Its selector and labels default to the labels of the template."""
    spec = controller.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if "template" not in spec:
        return
    default_pod_template(spec["template"])
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(labels)


def validate(controller: Object) -> list[FieldError]:
    spec = controller["spec"]
    errors = not_negative(spec, "spec", ("minReadySeconds",))
    selector = spec.get("selector") or {}
    if not selector:
        errors.append(required(SELECTOR))
    errors += not_negative(spec, "spec", ("replicas",))
    if "template" not in spec:
        return [*errors, required(TEMPLATE)]
    labels = spec["template"]["metadata"].get("labels") or {}
    if not selector.items() <= labels.items():
        errors.append(invalid(f"{TEMPLATE}.metadata.labels", labels, UNMATCHED))
    return errors + validate_template(spec["template"], "ReplicationController")


def prepare_for_status_update(new: Object, _old: Object) -> None:
    fill_times(new, "lastTransitionTime")


def cells(obj: Object, now: float) -> list[Any]:
    return [*replica_cells(obj, now), label_cell(part(obj, "spec").get("selector"))]


def scale_selector(controller: Object) -> LabelSelector:
    """Return the selector for the subresource scale: the controller's map of labels as a LabelSelector."""
    return map_selector((controller.get("spec") or {}).get("selector") or {})


RESOURCE = ResourceDefinition(
    version="v1",
    plural="replicationcontrollers",
    kind="ReplicationController",
    short_names=("rc",),
    categories=("all",),
    subresources=("status", "scale"),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        validate=validate,
        warn=warn_of_template,
        has_status=True,
        prepare_for_status_update=prepare_for_status_update,
        empty_status={"replicas": 0},
        validate_status_update=validate_replicas_status,
        default_garbage_collection_policy=GarbageCollectionPolicy.ORPHAN_DEPENDENTS,
        selectable_fields={"status.replicas": count_at("status.replicas")},
        unsupported_field=FIELD_LABEL_NOT_SUPPORTED,
        scale_selector=scale_selector,
    ),
    printer=Printer(columns=(*REPLICA_COLUMNS, *TEMPLATE_COLUMNS), cells=cells),
)
