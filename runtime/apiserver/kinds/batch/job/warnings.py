"""Warnings about the spec of Jobs, and of the Job template in CronJobs.

Source: kubernetes pkg/api/job/warnings.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.kinds.pod_spec.warnings import warnings_of_template

_MANY, _MANY_AT_ONCE = 100_000, 10_000


def warnings_of_job(spec: Object, field: str) -> Iterator[str]:
    many = (spec.get("completions") or 0) > _MANY and (spec.get("parallelism") or 0) > _MANY_AT_ONCE
    if spec.get("completionMode") == "Indexed" and many:
        yield (
            f"{field}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
            "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    yield from warnings_of_template(spec["template"], f"{field}.template")
