"""Defaults, validation and table columns shared by the kinds with a pod template, such as Deployments.

Source: kubernetes pkg/apis/{apps,batch,core}/v1/defaults.go, pkg/apis/apps/validation/validation.go,
pkg/apis/core/validation/validation.go, pkg/printers/internalversion/printers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.pod_spec.defaults import default_pod_template
from kcm.runtime.apiserver.kinds.pod_spec.validation import validate_pod_template
from kcm.runtime.apiserver.kinds.pod_spec.warnings import warnings_of_template
from kcm.runtime.apiserver.registry.printers import AGE, NAME, number, wide
from kcm.runtime.apiserver.rules.cells import age_cell, container_cells, name_cell, part
from kcm.runtime.apiserver.rules.numbers import not_negative
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.selectors import selects, shown_selector, validate_selector
from kcm.runtime.apiserver.rules.warnings import of_hostname

ROLLING_UPDATE = "RollingUpdate"
HISTORY_LIMIT = 10
UNMATCHED = "`selector` does not match template `labels`"
TEMPLATE, SELECTOR = "spec.template", "spec.selector"
CONTAINER_COLUMNS = (wide("Containers"), wide("Images"))
TEMPLATE_COLUMNS = (*CONTAINER_COLUMNS, wide("Selector"))
REPLICA_COLUMNS = (NAME, number("Desired"), number("Current"), number("Ready"), AGE)


def spec_with_template(workload: Object) -> Object:
    spec: Object = workload.setdefault("spec", {})
    default_pod_template(spec.setdefault("template", {}))
    return spec


def validate_selected_template(spec: Object, *, owner: str, empty: str) -> list[FieldError]:
    """Validate the selector and the pod template of a workload.

    Upstream has three variants: a DaemonSet requires no selector, and an invalid selector is reported once; a
    StatefulSet reports an invalid selector without a reason.

    owner: kind in error texts; selects the variant
    empty: kind in the error text for an empty selector
    """
    errors: list[FieldError] = []
    selector, template = spec.get("selector"), spec["template"]
    if selector is not None:
        errors += validate_selector(selector, SELECTOR)
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(invalid(SELECTOR, selector, f"empty selector is invalid for {empty}"))
    elif owner != "DaemonSet":
        errors.append(required(SELECTOR))
    labels = template["metadata"].get("labels")
    selected = selector is not None and selects(selector, labels or {})
    if selector is not None and selected is None and owner != "DaemonSet":
        detail = "" if owner == "StatefulSet" else "invalid label selector"
        errors.append(invalid(SELECTOR, shown_selector(selector), detail))
        return errors + (_validate_outer_spec(template["spec"], owner) if owner == "StatefulSet" else [])
    if selected is False:
        errors.append(invalid(f"{TEMPLATE}.metadata.labels", labels, UNMATCHED))
    return errors + validate_template(template, owner)


def validate_template(template: Object, owner: str) -> list[FieldError]:
    return validate_pod_template(template, TEMPLATE) + _validate_outer_spec(template["spec"], owner)


def _validate_outer_spec(spec: Object, owner: str) -> list[FieldError]:
    """Validate the fields of a pod template that workloads restrict: restartPolicy and activeDeadlineSeconds."""
    errors: list[FieldError] = []
    if spec["restartPolicy"] != "Always":
        errors.append(not_supported(f"{TEMPLATE}.spec.restartPolicy", spec["restartPolicy"], ("Always",)))
    if "activeDeadlineSeconds" in spec:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        errors.append(forbidden(f"{TEMPLATE}.spec.activeDeadlineSeconds", detail))
    return errors


def validate_selector_update(new: Object, old: Object) -> list[FieldError]:
    """Validate that an update of a workload leaves the selector unchanged."""
    return validate_immutable_fields(new, old, "selector")


def validate_immutable_fields(new: Object, old: Object, name: str) -> list[FieldError]:
    now: Any = new["spec"].get(name)
    return [invalid(f"spec.{name}", now, IMMUTABLE)] if now != old["spec"].get(name) else []


def validate_replicas_status(new: Object, _old: Object) -> list[FieldError]:
    """Validate the status of a ReplicaSet or ReplicationController."""
    status = new.get("status") or {}
    counts = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
    errors = not_negative(status, "status", (*counts, "terminatingReplicas"))
    return errors + validate_within_replicas(status, ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"))


def validate_within_replicas(
    status: Object, names: tuple[str, ...], *, shown: str = "readyReplicas"
) -> list[FieldError]:
    """Validate that counts in the status do not exceed replicas, and availableReplicas does not exceed readyReplicas.

    names: counts that are compared with replicas
    shown: name of readyReplicas in upstream's error text
    """
    replicas, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
    errors = [
        invalid(f"status.{name}", status.get(name, 0), "cannot be greater than status.replicas")
        for name in names
        if status.get(name, 0) > replicas
    ]
    if status.get("availableReplicas", 0) > ready:
        available = status.get("availableReplicas", 0)
        errors.append(invalid("status.availableReplicas", available, f"cannot be greater than {shown}"))
    return errors


def validate_collisions(new: Object, old: Object) -> list[FieldError]:
    """Validate that status.collisionCount does not decrease. A removed count is 0."""
    now, then = ((obj.get("status") or {}).get("collisionCount") for obj in (new, old))
    if then is None or (now is not None and now >= then):
        return []
    return [invalid("status.collisionCount", now or 0, "cannot be decremented")]


def warn_of_template(new: Object, old: Object | None) -> Iterator[str]:
    """Yield warnings about a new or changed pod template, and about the name of a new workload."""
    if old is None:
        yield from of_hostname(new, "Pod names and hostnames")
    if old is None or new["spec"] != old["spec"]:
        yield from warnings_of_template(new["spec"]["template"], TEMPLATE)


def replica_cells(obj: Object, now: float) -> list[Any]:
    return [
        name_cell(obj),
        count(obj, "spec", "replicas"),
        count(obj, "status", "replicas"),
        count(obj, "status", "readyReplicas"),
        age_cell(obj, now),
        *template_cells(obj),
    ]


def template_cells(obj: Object) -> list[str]:
    return container_cells(part(obj, "spec", "template", "spec"))


def count(obj: Object, where: str, name: str) -> int:
    return int(part(obj, where).get(name) or 0)
