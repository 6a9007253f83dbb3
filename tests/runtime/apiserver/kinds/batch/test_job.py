"""Generated selector and table cells of Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.apiserver.kinds.printers import cells


def test_job_selects_its_pods_by_uid(api):
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": {**api.pod()["spec"], "restartPolicy": "Never"}}}}
    created = api.create("jobs", job)
    uid = created.meta["uid"]
    spec = created.obj["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (1, 1, 6)


@pytest.mark.parametrize(
    "status, expected",
    [
        ({}, ["Running", "0/3", ""]),
        ({"startTime": "2026-01-02T02:58:00Z"}, ["Running", "0/3", "2m"]),
        (
            {
                "startTime": "2026-01-02T02:58:00Z",
                "completionTime": "2026-01-02T02:58:30Z",
                "succeeded": 3,
                "conditions": [{"type": "Complete", "status": "True"}],
            },
            ["Complete", "3/3", "30s"],
        ),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, ["Suspended", "0/3", ""]),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, ["Failed", "0/3", ""]),
    ],
)
def test_row_of_a_job_shows_its_progress(status: dict[str, Any], expected: list[str]) -> None:
    assert cells("batch/v1", "Job", spec={"completions": 3}, status=status)[1:4] == expected


@pytest.mark.parametrize(
    "spec, expected", [({"parallelism": 2}, "0/1 of 2"), ({"parallelism": 1}, "0/1"), ({"completions": 0}, "0/0")]
)
def test_completions_column_of_a_job_without_completions(spec: dict[str, Any], expected: str) -> None:
    assert cells("batch/v1", "Job", spec=spec)[2] == expected
