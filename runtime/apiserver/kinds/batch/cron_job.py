"""CronJobs.

Source: kubernetes pkg/registry/batch/cronjob/strategy.go, pkg/apis/batch/v1/defaults.go,
pkg/apis/batch/validation/validation.go, pkg/printers/internalversion/printers.go (printCronJob) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import FieldError, not_supported, required
from runtime.apiserver.kinds.shared.cells import (
    NONE,
    UNSET,
    age_cell,
    container_cells,
    items,
    name_cell,
    part,
    selector_cell,
    since,
)
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.kinds.shared.numbers import not_negative
from runtime.apiserver.kinds.shared.pod_defaults import default_pod_template
from runtime.apiserver.kinds.shared.workloads import TEMPLATE_COLUMNS, validate_job_template
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, boolean, number
from runtime.apiserver.registry.strategy import Strategy


def set_defaults(cron_job: Object) -> None:
    """The job template gets the defaults of pods only; those of Jobs are set when the Job is created."""
    spec = cron_job.setdefault("spec", {})
    template = spec.setdefault("jobTemplate", {}).setdefault("spec", {}).setdefault("template", {})
    default_pod_template(template)
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)


def validate(cron_job: Object) -> list[FieldError]:
    """The syntax of the schedule is not checked; the controller parses it."""
    spec = cron_job["spec"]
    errors = [] if spec.get("schedule") else [required("spec.schedule")]
    errors += not_negative(spec, "spec", ("startingDeadlineSeconds",))
    policies = ("Allow", "Forbid", "Replace")
    if spec["concurrencyPolicy"] not in policies:
        errors.append(not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], policies))
    errors += not_negative(spec, "spec", ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))
    return errors + validate_job_template(spec["jobTemplate"]["spec"]["template"], "spec.jobTemplate.spec.template")


def cells(obj: Object, now: float) -> list[Any]:
    spec, status = part(obj, "spec"), part(obj, "status")
    job = part(spec, "jobTemplate", "spec")
    suspend, last = spec.get("suspend"), status.get("lastScheduleTime")
    return [
        name_cell(obj),
        spec.get("schedule") or "",
        spec.get("timeZone") or NONE,
        UNSET if suspend is None else str(suspend),
        len(items(status, "active")),
        since(last, now) if last else NONE,
        age_cell(obj, now),
        *container_cells(part(job, "template", "spec")),
        selector_cell(job.get("selector")),
    ]


RESOURCE = ResourceDefinition(
    group="batch",
    version="v1",
    plural="cronjobs",
    kind="CronJob",
    short_names=("cj",),
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        validate=validate,
        has_status=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Schedule"),
            Column("Timezone"),
            boolean("Suspend"),
            number("Active"),
            Column("Last Schedule"),
            AGE,
            *TEMPLATE_COLUMNS,
        ),
        cells=cells,
    ),
)
