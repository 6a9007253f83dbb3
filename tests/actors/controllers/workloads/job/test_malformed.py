"""Malformed Jobs and pods, which a current server rejects: the error names the field, and nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.workloads.job.fields import job_spec
from kcm.protocols.jobs import job_facts
from kcm.protocols.messages.commands import Patch
from tests.actors.controllers.workloads.job.scene import Scene, exited, job, pod

RULES: dict[str, Any] = {"rules": ["x"]}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"parallelism": "2"}, "spec.parallelism is a number from 0 on, got '2'"),
        ({"backoffLimit": -1}, "spec.backoffLimit is a number from 0 on, got -1"),
        ({"completionMode": "Indexed"}, "spec.completions is a number where completionMode is Indexed, got None"),
        ({"suspend": "yes"}, "spec.suspend is true or false, got 'yes'"),
        ({"selector": ["x"]}, "spec.selector is a map, got ['x']"),
        ({"selector": {}}, "spec.selector is empty"),
        ({"template": "x"}, "spec.template is a map, got 'x'"),
        ({"managedBy": 7}, "spec.managedBy is a string, got 7"),
        ({"podFailurePolicy": RULES}, "spec.podFailurePolicy.rules[0] is a map, got 'x'"),
        (
            {"podFailurePolicy": {"rules": [{"onExitCodes": {"values": ["3"]}}]}},
            "spec.podFailurePolicy.rules[0].onExitCodes.values[0] is a number, got '3'",
        ),
        ({"successPolicy": RULES}, "spec.successPolicy.rules[0] is a map, got 'x'"),
        ({"status": {"completedIndexes": 3}}, "status.completedIndexes is a string, got 3"),
        ({"status": {"startTime": "now"}}, "status.startTime is an RFC 3339 time, got 'now'"),
        (
            {"status": {"uncountedTerminatedPods": {"failed": [{}]}}},
            "status.uncountedTerminatedPods.failed[0] is a string, got {}",
        ),
    ],
)
def test_malformed_job_is_not_synced(more: dict[str, Any], text: str) -> None:
    driven = Scene(job(**more), [pod("a", "Succeeded")]).sync(raises=ValueError)
    assert driven.commands == []
    assert str(driven.error) == text


def test_malformed_conditions_are_reported_first() -> None:
    with pytest.raises(ValueError, match=r"status\.conditions\[0\] is a map, got None"):
        job_facts(job(status={"conditions": [None]}))


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"containerStatuses": [{"state": ["x"]}]}, "status.containerStatuses[0].state is a map, got ['x']"),
        (exited("3"), "status.containerStatuses[0].state.terminated.exitCode is a number, got '3'"),  # type: ignore[arg-type]
    ],
)
def test_error_names_the_malformed_field_of_a_pod(status: dict[str, Any], text: str) -> None:
    driven = Scene(job(), [pod("a", "Failed", status=status)]).sync(raises=ValueError)
    assert driven.commands == []
    assert str(driven.error) == f"Pod default/a: {text}"


def test_oversized_index_is_invalid() -> None:
    """Parsing it takes little time."""
    for index in ("9" * 5000, "-1", "one", ""):
        scene = Scene(job(completionMode="Indexed", completions=2), [pod("a", "Running", index=index)])
        assert [patch.key for patch in scene.sync().of(Patch)] == ["default/a"]


@pytest.mark.parametrize(("limits", "limit"), [({}, 6), ({"backoffLimitPerIndex": 1}, 2**31 - 1)])
def test_missing_defaults_are_applied(limits: dict[str, int], limit: int) -> None:
    shown = job(completionMode="Indexed", completions=2, **limits)
    del shown["spec"]["backoffLimit"], shown["spec"]["parallelism"]
    spec = job_spec(shown)
    assert (spec.backoff_limit, spec.parallelism) == (limit, 1)
