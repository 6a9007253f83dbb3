"""What keeps pods: replication controllers, replica sets, deployments, stateful and daemon sets, jobs and cron jobs."""

from __future__ import annotations

from typing import Any

from protocols.objects import Object, controller_of, is_deleting
from protocols.selectors import label_selector_of
from protocols.times import human_duration, parse_time
from runtime.apiserver.kinds.printing.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Printer,
    age_cell,
    container_cells,
    is_true,
    items,
    label_cell,
    name_cell,
    number,
    part,
    selector_cell,
    since,
    wide,
)

_CONTAINERS = (wide("Containers"), wide("Images"))
_TEMPLATE = (*_CONTAINERS, wide("Selector"))


def _count(obj: Object, where: str, name: str) -> int:
    return int(part(obj, where).get(name) or 0)


def _template_cells(obj: Object) -> list[str]:
    return container_cells(part(obj, "spec", "template", "spec"))


def _replicas(obj: Object, now: float) -> list[Any]:
    return [
        name_cell(obj),
        _count(obj, "spec", "replicas"),
        _count(obj, "status", "replicas"),
        _count(obj, "status", "readyReplicas"),
        age_cell(obj, now),
        *_template_cells(obj),
    ]


def replication_controller_cells(obj: Object, now: float) -> list[Any]:
    return [*_replicas(obj, now), label_cell(part(obj, "spec").get("selector"))]


def replica_set_cells(obj: Object, now: float) -> list[Any]:
    return [*_replicas(obj, now), selector_cell(part(obj, "spec").get("selector"))]


def deployment_cells(obj: Object, now: float) -> list[Any]:
    try:
        selector = str(label_selector_of(part(obj, "spec", "selector")))
    except ValueError:
        selector = "<invalid>"
    return [
        name_cell(obj),
        f"{_count(obj, 'status', 'readyReplicas')}/{_count(obj, 'spec', 'replicas')}",
        _count(obj, "status", "updatedReplicas"),
        _count(obj, "status", "availableReplicas"),
        age_cell(obj, now),
        *_template_cells(obj),
        selector,
    ]


def stateful_set_cells(obj: Object, now: float) -> list[Any]:
    ready = f"{_count(obj, 'status', 'readyReplicas')}/{_count(obj, 'spec', 'replicas')}"
    return [name_cell(obj), ready, age_cell(obj, now), *_template_cells(obj)]


def daemon_set_cells(obj: Object, now: float) -> list[Any]:
    return [
        name_cell(obj),
        _count(obj, "status", "desiredNumberScheduled"),
        _count(obj, "status", "currentNumberScheduled"),
        _count(obj, "status", "numberReady"),
        _count(obj, "status", "updatedNumberScheduled"),
        _count(obj, "status", "numberAvailable"),
        label_cell(part(obj, "spec", "template", "spec", "nodeSelector")),
        age_cell(obj, now),
        *_template_cells(obj),
        selector_cell(part(obj, "spec").get("selector")),
    ]


def job_cells(obj: Object, now: float) -> list[Any]:
    return [
        name_cell(obj),
        _job_status(obj),
        _job_completions(obj),
        _job_duration(obj, now),
        age_cell(obj, now),
        *_template_cells(obj),
        selector_cell(part(obj, "spec").get("selector")),
    ]


def _job_status(obj: Object) -> str:
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


def _job_completions(obj: Object) -> str:
    succeeded, spec = _count(obj, "status", "succeeded"), part(obj, "spec")
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(obj: Object, now: float) -> str:
    status = part(obj, "status")
    try:
        started = parse_time(status["startTime"])
        ended = parse_time(status["completionTime"]) if status.get("completionTime") else now
    except (KeyError, ValueError):
        return ""
    return human_duration(ended - started)


def cron_job_cells(obj: Object, now: float) -> list[Any]:
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


def controller_revision_cells(obj: Object, now: float) -> list[Any]:
    owner = controller_of(obj)
    controller = NONE
    if owner is not None:
        group = owner.api_version.rpartition("/")[0]
        kind = f"{owner.kind}.{group}" if group else owner.kind
        controller = f"{kind.lower()}/{owner.name}"
    return [name_cell(obj), controller, obj.get("revision") or 0, age_cell(obj, now)]


_REPLICAS = (NAME, number("Desired"), number("Current"), number("Ready"), AGE, *_TEMPLATE)

REPLICATION_CONTROLLER = Printer(_REPLICAS, replication_controller_cells)
REPLICA_SET = Printer(_REPLICAS, replica_set_cells)
DEPLOYMENT = Printer(
    (NAME, Column("Ready"), Column("Up-to-date"), Column("Available"), AGE, *_TEMPLATE), deployment_cells
)
STATEFUL_SET = Printer((NAME, Column("Ready"), AGE, *_CONTAINERS), stateful_set_cells)
DAEMON_SET = Printer(
    (
        NAME,
        number("Desired"),
        number("Current"),
        number("Ready"),
        number("Up-to-date"),
        number("Available"),
        Column("Node Selector"),
        AGE,
        *_TEMPLATE,
    ),
    daemon_set_cells,
)
JOB = Printer((NAME, Column("Status"), Column("Completions"), Column("Duration"), AGE, *_TEMPLATE), job_cells)
CRON_JOB = Printer(
    (
        NAME,
        Column("Schedule"),
        Column("Timezone"),
        Column("Suspend", "boolean"),
        number("Active"),
        Column("Last Schedule"),
        AGE,
        *_TEMPLATE,
    ),
    cron_job_cells,
)
CONTROLLER_REVISION = Printer((NAME, Column("Controller"), Column("Revision"), AGE), controller_revision_cells)
