"""A failing run says all that it takes to find out why."""

from __future__ import annotations

import argparse
import re
import sys
import types

import pytest

from actors.simulation import SimulatedCluster
from actors.simulation.campaign.checking import check
from actors.simulation.campaign.command import main, setting_named
from actors.simulation.campaign.explaining import must_hold, report, small
from actors.simulation.campaign.node_setting import NODES_TOO
from actors.simulation.campaign.runs import run
from actors.simulation.campaign.setting import Setting
from runtime.faults.vocabulary import FaultKind, parse_faults
from tests.faults.planted import Flaws, planted


def test_a_failure_is_reported_with_its_seed_few_faults_the_trace_and_how_to_replay_it() -> None:
    setting = planted(Flaws(no_retry=True))
    failed = next(one for one in (check(seed, setting=setting) for seed in range(50)) if one.violations)
    shown = small(failed, setting=setting)
    assert 1 <= len(shown.faults) <= len(failed.faults)
    text = report(shown)
    assert f"seed {failed.seed} of workloads violates:" in text
    assert "VIOLATION" in text
    line = text.splitlines()[-2]
    assert line.strip().startswith(f"python -m kcm.simulate --seed {failed.seed} --wishes ")
    assert parse_faults(line.split('"')[3]) == shown.faults
    assert text.splitlines()[-1] == f"{line} --journal FILE"


def test_the_command_runs_seeds_and_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1", "--seeds", "2"]) == 0
    assert "2 runs, " in capsys.readouterr().out


def test_another_setting_is_chosen_by_its_name_and_named_in_the_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--setting", "nodes", "--seed", "3"]) == 0
    assert "1 run, " in capsys.readouterr().out
    line = report(run(3, (), setting=NODES_TOO)).splitlines()[-2]
    assert line.strip() == 'python -m kcm.simulate --setting nodes --seed 3 --faults ""'


def test_the_sum_tells_faults_from_how_often_they_struck(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--faults", "partition 5..6; watch-dropped 7..8 resource=pods; process-paused 9..10"]) == 0
    assert re.search(r"1 run, \d+ wishes of users, 3 faults that struck \d+ times, ", capsys.readouterr().out)


def test_faults_are_named_in_the_error_when_they_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--faults", "earthquake 1..2"])
    assert "earthquake" in capsys.readouterr().err


def test_given_faults_replace_those_of_the_seed() -> None:
    crashed = check(2, parse_faults("process-crashed 5..6 process=manager*"))
    assert dict(crashed.struck) == {FaultKind.PROCESS_CRASHED: 1}
    assert crashed.violations == []


def test_a_test_that_must_hold_fails_with_the_report() -> None:
    setting = planted(Flaws(no_retry=True))
    seed = next(seed for seed in range(50) if check(seed, setting=setting).violations)
    with pytest.raises(AssertionError, match=f"seed {seed} of workloads violates:(.|\n)*replay:\n  python -m kcm"):
        must_hold(seed, setting=setting)


def test_a_run_whose_like_fails_without_faults_says_so() -> None:
    def only_without(cluster: SimulatedCluster) -> list[str]:
        return [] if cluster.injector.faults else ["?"]

    setting = Setting(actions=lambda _: (), settled=1.0, unsettled=only_without)
    (violation,) = check(1, parse_faults("partition 1..2"), setting=setting).violations
    assert violation.text == "after 1 s: ? (in the run of seed 1 without faults)"


def test_a_setting_of_another_package_is_named_by_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("kcm_strangers")
    module.SETTING, module.NUMBER = Setting(name="kcm_strangers:SETTING"), 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kcm_strangers", module)
    assert setting_named("kcm_strangers:SETTING").name == "kcm_strangers:SETTING"
    for name, error in (
        ("kcm_strangers:OTHER", "has no attribute 'OTHER'"),
        ("kcm_strangers:NUMBER", "is no Setting but 3"),
        ("no_such_module:SETTING", "No module named 'no_such_module'"),
        ("weekloads", "is none of workloads, nodes, nor module:ATTRIBUTE"),
    ):
        with pytest.raises(argparse.ArgumentTypeError, match=error):
            setting_named(name)
