"""Fault plans in files, and their error messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.runtime.faults.plan_file import NOT_LIVE, FaultPlan, PlanError, read_plan
from kcm.runtime.faults.vocabulary import Fault, FaultKind

EXAMPLE = Path(__file__).parents[3] / "examples" / "zone-outage.yml"


def read(directory: Path, text: str) -> FaultPlan:
    path = directory / "plan.yml"
    path.write_text(text)
    return read_plan(path)


def test_a_plan_is_read_in_either_form(tmp_path: Path) -> None:
    plan = read(
        tmp_path,
        """
        seed: 7
        faults:
          - {kind: zone-silent, start: 30s, until: 2m30s, object: zone-a}
          - {kind: command-answered, rate: 0.2, status: 429, seconds: 1.5, resource: pods, most: 3}
          - watch-lagging 60..90 resource=pods seconds=5
        """,
    )
    assert plan == FaultPlan(
        seed=7,
        faults=(
            Fault(kind=FaultKind.ZONE_SILENT, start=30.0, until=150.0, object="zone-a"),
            Fault(kind=FaultKind.COMMAND_ANSWERED, rate=0.2, status=429, seconds=1.5, resource="pods", most=3),
            Fault(kind=FaultKind.WATCH_LAGGING, start=60.0, until=90.0, resource="pods", seconds=5.0),
        ),
    )


def test_the_example_is_a_plan() -> None:
    assert [fault.kind for fault in read_plan(EXAMPLE).faults] == [
        FaultKind.ZONE_SILENT,
        FaultKind.ACTOR_CRASHED,
        FaultKind.COMMAND_ANSWERED,
    ]


@pytest.mark.parametrize(
    "text, error",
    [
        ("", "expected a mapping with `faults`"),
        ("- zone-silent", "expected a mapping with `faults`"),
        ("faults: []", "faults: expected a list with at least one fault"),
        ("faults: zone-silent", "faults: expected a list with at least one fault"),
        ("fault: []", "'fault' is no setting; known are seed, faults"),
        ("seed: x\nfaults: [zone-silent]", "seed: expected a whole number, got 'x'"),
        ("faults: [3]", "faults[0]: expected a mapping or a line of text, got 3"),
        ("faults: [zone-silent, {start: 1}]", "faults[1]: kind is missing"),
        ("faults: [{kind: zone-silence}]", "faults[0]: there is no kind 'zone-silence'; one of actor-crashed, "),
        ("faults: [{kind: [a]}]", "faults[0]: there is no kind ['a']; one of "),
        ("faults: [{kind: partition, untill: 3}]", "faults[0]: 'untill' is no setting; known are kind, start, until, "),
        ("faults: [{kind: partition, until: soon}]", "until: expected seconds, or a duration like 1m30s, got 'soon'"),
        ("faults: [{kind: partition, until: true}]", "until: expected seconds, or a duration like 1m30s, got True"),
        ("faults: [{kind: partition, start: 9, until: 3}]", "its window ends before it starts: 9.0..3.0"),
        ("faults: [{kind: command-lost, rate: 2}]", "faults[0]: command-lost: rate is from 0 to 1, got 2"),
        ("faults: [{kind: command-lost, rate: often}]", "rate: expected a number from 0 to 1, got 'often'"),
        ("faults: [{kind: command-lost, most: 1.5}]", "most: expected a whole number, got 1.5"),
        ("faults: [{kind: command-lost, resource: 5}]", "resource: expected a pattern in quotes, got 5"),
        ("faults: [{kind: command-answered}]", "command-answered: status is from 400 to 599, got 0"),
        ("faults: [zone-silent 3..1]", "fault 'zone-silent 3..1': zone-silent: its window ends before it starts"),
        ("faults: [process-crashed]", "process-crashed is for the simulator: kill the process by hand"),
        ("faults: [", ":1:10: not YAML: "),
    ],
)
def test_an_error_names_the_fault_and_what_is_wrong(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(PlanError) as raised:
        read(tmp_path, text)
    assert str(raised.value).startswith(str(tmp_path / "plan.yml"))
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"cannot read .*none.yml: No such file or directory"):
        read_plan(tmp_path / "none.yml")


def test_every_kind_is_live_or_has_a_reason_why_not(tmp_path: Path) -> None:
    for kind in FaultKind:
        text = f"faults: ['{kind} 1..2 status=500']"
        if kind in NOT_LIVE:
            with pytest.raises(PlanError, match=f"{kind} is for the simulator"):
                read(tmp_path, text)
        else:
            assert read(tmp_path, text).faults[0].kind is kind
