"""Fields of Jobs that several controllers read.

Source: kubernetes v1.36 pkg/controller/job/util/utils.go.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.protocols.conditions import is_true
from kcm.protocols.field_types import TEXT, CompiledShape, check
from kcm.protocols.objects import Object, metadata

FINISHED = ("Complete", "Failed")  # conditions
CONDITIONS = [{"type": TEXT, "status": TEXT, "reason": TEXT, "message": TEXT}]  # types of status.conditions
_WITH_CONDITIONS = CompiledShape({"status": {"conditions": CONDITIONS}})


class JobFacts(NamedTuple):
    """Facts stored for each version of a Job; watches compare them to decide which changes enqueue a key."""

    generation: int  # incremented by changes of the spec, and by the deletion
    finished: bool


def job_facts(job: Object) -> JobFacts:
    """Derive the facts. Raises ValueError if the conditions are malformed."""
    return JobFacts(metadata(job).get("generation") or 0, is_finished(job))


def is_finished(job: Object) -> bool:
    """Report whether the Job is Complete or Failed. Raises ValueError if the conditions are malformed."""
    check(job, _WITH_CONDITIONS)
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(is_true(conditions, finished) for finished in FINISHED)
