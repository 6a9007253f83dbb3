"""Jobs.

Source: kubernetes pkg/registry/batch/job/strategy.go, pkg/apis/batch/v1/defaults.go,
pkg/apis/batch/validation/validation.go, pkg/printers/internalversion/printers.go (printJob) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object, is_deleting
from protocols.times import human_duration, parse_time
from runtime.apiserver.errors.field_errors import FieldError
from runtime.apiserver.kinds.shared.cells import age_cell, is_true, name_cell, part, selector_cell
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.kinds.shared.numbers import not_negative
from runtime.apiserver.kinds.shared.pod_defaults import default_pod_template
from runtime.apiserver.kinds.shared.selectable_fields import count_at
from runtime.apiserver.kinds.shared.workloads import (
    TEMPLATE,
    TEMPLATE_COLUMNS,
    count,
    template_cells,
    validate_immutable_fields,
    validate_job_template,
)
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import GarbageCollectionPolicy, Strategy

_MAX_INT32 = 2**31 - 1


def set_defaults(job: Object) -> None:
    spec = job.setdefault("spec", {})
    _set_spec_defaults(spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _set_spec_defaults(spec: Object) -> None:
    default_pod_template(spec.setdefault("template", {}))
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)


def generate_selector(job: Object) -> None:
    """A new Job selects its pods by its uid, unless manualSelector is set.

    Source: kubernetes pkg/registry/batch/job/strategy.go, generateSelector.
    """
    spec = job["spec"]
    if spec["manualSelector"]:
        return
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for key, value in (("controller-uid", uid), ("job-name", name)):
        labels[key] = labels[f"batch.kubernetes.io/{key}"] = value
    spec.setdefault("selector", {}).setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid
    if not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def validate(job: Object) -> list[FieldError]:
    spec = job["spec"]
    numbers = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    errors = not_negative(spec, "spec", numbers)
    return errors + validate_job_template(spec["template"], TEMPLATE)


def validate_update(new: Object, old: Object) -> list[FieldError]:
    return validate_immutable_fields(new, old, "selector") + validate_immutable_fields(new, old, "completionMode")


def cells(obj: Object, now: float) -> list[Any]:
    return [
        name_cell(obj),
        _status(obj),
        _completions(obj),
        _duration(obj, now),
        age_cell(obj, now),
        *template_cells(obj),
        selector_cell(part(obj, "spec").get("selector")),
    ]


def _status(obj: Object) -> str:
    status = part(obj, "status")
    if is_true(status, "Complete"):
        return "Complete"
    if is_true(status, "Failed"):
        return "Failed"
    if is_deleting(obj):
        return "Terminating"
    for type_ in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(status, type_):
            return type_
    return "Running"


def _completions(obj: Object) -> str:
    succeeded, spec = count(obj, "status", "succeeded"), part(obj, "spec")
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(obj: Object, now: float) -> str:
    status = part(obj, "status")
    try:
        started = parse_time(status["startTime"])
        ended = parse_time(status["completionTime"]) if status.get("completionTime") else now
    except (KeyError, ValueError):
        return ""
    return human_duration(ended - started)


RESOURCE = ResourceDefinition(
    group="batch",
    version="v1",
    plural="jobs",
    kind="Job",
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        prepare_for_create=generate_selector,
        validate=validate,
        validate_update=validate_update,
        has_status=True,
        default_garbage_collection_policy=GarbageCollectionPolicy.ORPHAN_DEPENDENTS,
        selectable_fields={"status.successful": count_at("status.succeeded")},
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Status"),
            Column("Completions"),
            Column("Duration"),
            AGE,
            *TEMPLATE_COLUMNS,
        ),
        cells=cells,
    ),
)
