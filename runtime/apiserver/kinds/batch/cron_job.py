"""CronJobs (batch/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/batch/cronjob/strategy.go, pkg/apis/batch/v1/defaults.go,
pkg/apis/batch/validation/validation.go, pkg/printers/internalversion/printers.go (printCronJob) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object, name_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.batch.job.validation import validate_job_spec
from kcm.runtime.apiserver.kinds.batch.job.warnings import warnings_of_job
from kcm.runtime.apiserver.kinds.batch.shared.cron_schedules import schedule_problem, time_zone_problems
from kcm.runtime.apiserver.kinds.pod_spec.defaults import default_pod_template
from kcm.runtime.apiserver.kinds.pod_spec.workloads import TEMPLATE_COLUMNS
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, boolean, number
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import (
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
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.numbers import not_negative
from kcm.runtime.apiserver.rules.warnings import of_hostname

_LONGEST_NAME = 52


def set_defaults(cron_job: Object) -> None:
    """Set the defaults of a CronJob.

    The Job template gets the defaults of its pod template only; the Jobs created from it get the others.
    """
    spec = cron_job.setdefault("spec", {})
    job = spec.setdefault("jobTemplate", {})
    job.setdefault("metadata", {})
    template = job.setdefault("spec", {}).setdefault("template", {})
    default_pod_template(template)
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)


def validate(cron_job: Object) -> list[FieldError]:
    return _validate_spec(cron_job["spec"], {})


def validate_create(cron_job: Object) -> list[FieldError]:
    """Reject names over 52 characters, as the name of a Job is that of its CronJob and a suffix of 11 characters."""
    name = name_of(cron_job)
    return [invalid("metadata.name", name, "must be no more than 52 characters")] if len(name) > _LONGEST_NAME else []


def validate_update(new: Object, old: Object) -> list[FieldError]:
    return _validate_spec(new["spec"], old["spec"])


def _validate_spec(spec: Object, before: Object) -> list[FieldError]:
    """Validate the spec of a CronJob.

    before: the old spec, to skip the check of an unchanged time zone; empty for a new CronJob
    """
    errors = _validate_schedule(spec, before)
    errors += not_negative(spec, "spec", ("startingDeadlineSeconds",))
    zone = spec.get("timeZone")
    if zone is not None and zone != before.get("timeZone"):
        errors += [invalid("spec.timeZone", zone, text) for text in time_zone_problems(zone)]
    policies = ("Allow", "Forbid", "Replace")
    if spec["concurrencyPolicy"] not in policies:
        errors.append(not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], policies))
    job = spec["jobTemplate"]["spec"]
    errors += validate_job_spec(job, "spec.jobTemplate.spec")
    if job.get("selector") is not None:
        errors.append(invalid("spec.jobTemplate.spec.selector", job["selector"], "`selector` will be auto-generated"))
    if job.get("manualSelector"):
        errors.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    return errors + not_negative(spec, "spec", ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))


def _validate_schedule(spec: Object, before: Object) -> list[FieldError]:
    field, schedule = "spec.schedule", spec.get("schedule") or ""
    if not schedule:
        return [required(field)]
    problem = schedule_problem(schedule)
    errors = [invalid(field, schedule, problem)] if problem else []
    if "TZ" in schedule:
        if "TZ" not in (before.get("schedule") or ""):
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(invalid(field, schedule, detail))
        elif spec.get("timeZone") is not None:
            detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            errors.append(invalid(field, schedule, detail))
    return errors


def warn(new: Object, old: Object | None) -> Iterator[str]:
    spec = new["spec"]
    if old is None:
        yield from of_hostname(new, "Pod names and hostnames")
    if old is None or spec != old["spec"]:
        yield from warnings_of_job(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")
    if old is not None and "TZ" in (spec.get("schedule") or ""):
        yield (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )


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
        warn=warn,
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        validate=validate,
        validate_create=validate_create,
        validate_update=validate_update,
        update_is_judged_whole=True,
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
