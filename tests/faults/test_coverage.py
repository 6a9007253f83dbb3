"""Coverage of a campaign: faults that struck at each step of each controller, and faults that never did."""

from __future__ import annotations

import pytest

from kcm.actors.simulation.campaign.command import main
from kcm.actors.simulation.campaign.coverage import NOTHING_IN_FLIGHT, Coverage
from kcm.actors.simulation.campaign.domain_settings import NODES_SETTING
from kcm.actors.simulation.campaign.runs import run
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.workloads.actions import workload
from kcm.protocols.resources import REPLICASETS
from kcm.runtime.faults.vocabulary import FaultKind, parse_faults

REPLICASET, SET = "replicaset-controller", workload(REPLICASETS, "set", 2, "v1")
ONE_LOST = "command-lost 0.. resource=pods object=default/* most=1 process=manager"
ONE_SET = Setting(actions=lambda _: (create(1.0, REPLICASETS, SET),), elections=lambda _: 0)


def coverage_of(plan: str, setting: Setting = ONE_SET, seed: int = 1) -> Coverage:
    return run(seed, parse_faults(plan), setting=setting).coverage


@pytest.mark.parametrize(
    "plan, kind, step",
    [
        (ONE_LOST, "command-lost", "create pods"),
        ("outcome-lost 0.. resource=pods object=default/* most=1 process=manager", "outcome-lost", "create pods"),
        ("message-delayed 1..1.01 actor=dispatcher most=1 seconds=1", "message-delayed", "create pods"),
        ("actor-broken 1..1.01 actor=controller:replicaset* most=1", "actor-broken", "create pods"),
        ("actor-broken 0..0.5 actor=controller:replicaset* most=1", "actor-broken", "send Attach"),
        ("actor-crashed 1..1.01 actor=controller:replicaset* most=1", "actor-crashed", "handle WatchEvents"),
        (
            "command-delayed 1..2 seconds=3 most=2; process-crashed 3..4 process=manager",
            "process-crashed",
            "create pods",
        ),
        ("command-delayed 1..2 seconds=3 most=2; server-away 3..4", "server-away", "create pods"),
        ("reconciler-blocked 1..9 seconds=1 most=1", "reconciler-blocked", "begin a reconciliation"),
    ],
)
def test_a_strike_is_counted_at_the_controllers_step(plan: str, kind: str, step: str) -> None:
    coverage = coverage_of(plan)
    where = (REPLICASET, step)
    assert coverage.struck[FaultKind(kind), where] >= 1, list(coverage.lines())


def test_faults_at_no_step_are_counted() -> None:
    coverage = coverage_of("process-crashed 30..31 process=manager; clock-jumped 20..25 seconds=5")
    assert coverage.struck == {
        (FaultKind.PROCESS_CRASHED, ("", NOTHING_IN_FLIGHT)): 1,
        (FaultKind.CLOCK_JUMPED, ("", "")): 1,
    }
    assert list(coverage.lines())[-3:-1] == ["  at no step: clock-jumped 1", "  nothing in flight: process-crashed 1"]


def test_a_fault_of_a_call_is_counted_at_the_call() -> None:
    coverage = coverage_of("call-lost 0..60 most=3 resource=routes", NODES_SETTING, seed=3)
    steps = {step for kind, step in coverage.struck if kind is FaultKind.CALL_LOST}
    assert steps == {("node-route-controller", "call ListRoutes")}
    assert FaultKind.CALL_LOST not in coverage.missed(*steps)


def test_controllers_with_a_shared_client_have_separate_steps() -> None:
    coverage = coverage_of("command-delayed 0..60 seconds=0.1 resource=nodes process=manager*", NODES_SETTING, seed=3)
    struck = {step for _, step in coverage.struck if step[0] != "shared-informers"}
    assert struck >= {("node-ipam-controller", "patch nodes"), ("node-lifecycle-controller", "update nodes/status")}
    assert struck <= coverage.taken.keys()


def test_planned_faults_that_never_struck_are_named() -> None:
    coverage = coverage_of(
        "command-lost 0.. resource=pods object=default/* most=1 process=manager; watch-stalled 90..91"
    )
    assert FaultKind.COMMAND_LOST in coverage.missed((REPLICASET, "update replicasets/status"))
    assert FaultKind.COMMAND_LOST not in coverage.missed((REPLICASET, "create pods"))
    lines = list(coverage.lines())
    assert any(line.startswith("  create pods, ") and line.endswith(" times: command-lost 1") for line in lines)
    assert "planned, but never struck: watch-stalled" in lines
    assert lines[-1].startswith("never planned: actor-crashed, actor-broken, ")
    assert coverage.summary().startswith("coverage: 1 of 2 planned kinds of faults struck, 1 of ")


def test_coverages_of_runs_add_up() -> None:
    both, lost = Coverage(), coverage_of(ONE_LOST)
    both.add(lost)
    both.add(lost)
    assert both.struck == {pair: 2 * count for pair, count in lost.struck.items()}
    assert both.taken == {step: 2 * count for step, count in lost.taken.items()}
    assert both.planned == lost.planned


def test_command_prints_the_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1", "--coverage"]) == 0
    shown = capsys.readouterr().out
    assert f"{REPLICASET}:\n  " in shown
    assert "\ncoverage: " in shown
    assert main(["--seed", "1"]) == 0
    assert "coverage" not in capsys.readouterr().out, USUAL.name
