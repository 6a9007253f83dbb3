"""The report of a failing run contains everything that is needed to find the cause."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest
from msgspec import structs

from kcm.actors.command.journal import command as journal_command
from kcm.actors.reconciliation import Reconciliation, RequeueAfter, Watch, itself
from kcm.actors.reconciliation import create as create_pod
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.checks import check, differences
from kcm.actors.simulation.campaign.command import main
from kcm.actors.simulation.campaign.failure_reports import minimized, must_hold, recorded, report
from kcm.actors.simulation.campaign.runs import run
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.campaign.settings import SETTINGS, setting_named
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.scenario import Action
from kcm.actors.simulation.trials.workloads.actions import workload
from kcm.protocols.objects import name_of
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS
from kcm.runtime.faults.vocabulary import FaultKind, parse_faults
from kcm.runtime.scheduling.clock import Clock
from tests.faults.flawed_controller import Flaws, flawed_setting
from tests.support.census import CONFIGMAPS

NO_RETRY = (34, *range(50))  # seeds; the first one finds the missing retry, as in test_planted_bugs.py


def test_failure_report_contains_seed_shrunk_faults_messages_and_replay() -> None:
    setting = flawed_setting(Flaws(no_retry=True))
    failed = next(result for result in (check(seed, setting=setting) for seed in NO_RETRY) if result.violations)
    shown = minimized(failed, setting=setting)
    assert 1 <= len(shown.faults) <= len(failed.faults)
    text = report(shown)
    assert f"seed {failed.seed} of workloads violates:" in text
    assert "VIOLATION" in text
    line = text.splitlines()[-2]
    assert line.strip().startswith(f"python -m kcm.simulate --seed {failed.seed} --actions ")
    assert parse_faults(line.split('"')[3]) == shown.faults
    assert text.splitlines()[-1] == f"{line} --journal FILE"


def test_the_command_runs_seeds_and_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1", "--seeds", "2"]) == 0
    assert "2 runs, " in capsys.readouterr().out


def test_another_setting_is_chosen_by_its_name_and_named_in_the_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--setting", "roles", "--seed", "3"]) == 0
    assert "1 run, " in capsys.readouterr().out
    line = report(run(3, (), setting=SETTINGS["roles"])).splitlines()[-2]
    assert line.strip() == 'python -m kcm.simulate --setting roles --seed 3 --faults ""'


def test_summary_distinguishes_faults_from_strikes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--faults", "partition 5..6; watch-dropped 7..8 resource=pods; process-paused 9..10"]) == 0
    assert re.search(r"1 run, \d+ user actions, 3 faults that struck \d+ times, ", capsys.readouterr().out)


def test_faults_are_named_in_the_error_when_they_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--faults", "earthquake 1..2"])
    assert "earthquake" in capsys.readouterr().err


def test_given_faults_replace_those_of_the_seed() -> None:
    crashed = check(2, parse_faults("process-crashed 5..6 process=manager*"))
    assert dict(crashed.struck) == {FaultKind.PROCESS_CRASHED: 1}
    assert crashed.violations == []


def test_a_test_that_must_hold_fails_with_the_report() -> None:
    setting = flawed_setting(Flaws(no_retry=True))
    seed = next(seed for seed in NO_RETRY if check(seed, setting=setting).violations)
    with pytest.raises(AssertionError, match=f"seed {seed} of workloads violates:(.|\n)*replay:\n  python -m kcm"):
        must_hold(seed, setting=setting)


def test_failure_of_the_run_without_faults_is_reported_as_such() -> None:
    def only_without(cluster: SimulatedCluster) -> list[str]:
        return [] if cluster.injector.faults else ["?"]

    setting = Setting(actions=lambda _: (), settled=1.0, unsettled=only_without)
    (violation,) = check(1, parse_faults("partition 1..2"), setting=setting).violations
    assert violation.text == "after 1 s: ? (in the run of seed 1 without faults)"


def test_delayed_user_action_has_the_full_time_to_settle() -> None:
    """False alarm: a name was in use for minutes, and the delayed user action had no time left to settle."""

    def late(cluster: SimulatedCluster) -> bool:
        return cluster.clock.monotonic() >= 70.0

    def until_a_minute_later(cluster: SimulatedCluster) -> list[str]:
        return [] if cluster.clock.monotonic() >= 130.0 else ["?"]

    setting = Setting(
        actions=lambda _: [Action(1.0, "held up", late)], faults=20.0, settled=80.0, unsettled=until_a_minute_later
    )
    assert check(1, (), setting=setting).violations == []
    (violation,) = check(1, (), setting=structs.replace(setting, settled=55.0)).violations
    assert violation.text == "after 55 s: ?"


def test_a_setting_of_another_package_is_named_by_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("kcm_strangers")
    module.SETTING, module.NUMBER = Setting(name="kcm_strangers:SETTING"), 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kcm_strangers", module)
    assert setting_named("kcm_strangers:SETTING").name == "kcm_strangers:SETTING"
    for name, error in (
        ("kcm_strangers:OTHER", "has no attribute 'OTHER'"),
        ("kcm_strangers:NUMBER", "is not a Setting but 3"),
        ("no_such_module:SETTING", "No module named 'no_such_module'"),
        ("weekloads", f"expected {', '.join(SETTINGS)}, or module:ATTRIBUTE"),
    ):
        with pytest.raises(ValueError, match=error):
            setting_named(name)


def test_user_actions_are_shrunk_and_selected_in_the_replay() -> None:

    def unsettled(cluster: SimulatedCluster) -> list[str]:
        return [
            f"{name_of(deployment)} is there" for deployment in cluster.list(DEPLOYMENTS) if name_of(deployment) == "b"
        ]

    made = [create(at, DEPLOYMENTS, workload(DEPLOYMENTS, name, 1, "v1")) for at, name in enumerate("abc", start=1)]
    setting = Setting(name="tests:SETTING", actions=lambda _: made, unsettled=unsettled, settled=20.0)
    found = check(5, setting=setting)
    shown = minimized(found, setting=setting)
    assert (shown.faults, shown.chosen) == ((), (1,))
    text = report(shown)
    assert "  1     2.00 s  create Deployment b" in text
    assert 'python -m kcm.simulate --setting tests:SETTING --seed 5 --actions "1" --faults ""' in text


def test_an_end_without_a_value_is_another_than_none_at_all() -> None:
    assert list(differences({"a": None, "b": 1}, {"b": 2})) == [
        "a: absent, without faults None",
        "b: 2, without faults 1",
    ]


def test_report_contains_only_messages_about_concerned_objects() -> None:
    def unsettled(cluster: SimulatedCluster) -> list[str]:
        return ["set is not as it should be"] * bool(cluster.list(REPLICASETS))

    made = [create(1.0, REPLICASETS, workload(REPLICASETS, name, 1, "v1")) for name in ("set", "other")]
    setting = Setting(actions=lambda _: made, unsettled=unsettled, settled=20.0)
    text = report(recorded(check(5, (), setting=setting), setting=setting))
    lines = text.partition("latest messages about the objects concerned:")[2].partition("replay:")[0].splitlines()
    messages = [line for line in lines if " → " in line]
    assert any("Submit 1000000001 for replicaset default/set: Create v1/pods default/set-" in line for line in messages)
    assert not any("default/other" in line or "Lease" in line for line in messages)
    assert any("ACTION create ReplicaSet other" in line for line in lines)


def test_an_unsettled_that_forgets_something_is_hinted_at() -> None:
    # The function does not wait for pods, so that the run without faults is compared with a run whose watch is late.
    def end(cluster: SimulatedCluster) -> dict[str, int]:
        return {"pods": len(cluster.list(PODS))}

    made = create(1.0, CONFIGMAPS, {"metadata": {"name": "a"}})
    late = ControllerSpec(
        name="late",
        queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself),)),),
        build=lambda context: Late(context.clock),
    )
    setting = Setting(controllers=(late,), actions=lambda _: (made,), elections=lambda _: 0, end_state=end)
    plan = parse_faults("watch-lagging 0..40 seconds=20 resource=configmaps process=manager")
    failed = recorded(check(2, plan, setting=setting), setting=setting)
    assert [violation.invariant for violation in failed.violations] == ["a settled system writes nothing"]
    assert "`unsettled` is incomplete" in report(failed)


class Late:
    """Reconciler that creates a pod two minutes after its start."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._first = clock, clock.monotonic()

    def reconcile(self, _key: str) -> Reconciliation:
        if self._clock.monotonic() < self._first + 120.0:
            return RequeueAfter(120.0)
        yield create_pod(PODS, {"metadata": {"name": "late", "namespace": "default"}, "spec": {"containers": []}})
        return None


def test_a_run_is_written_into_journals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.journal"
    assert main(["--seed", "1", "--journal", str(file)]) == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"run.journal", "run.journal-hollow"}
    capsys.readouterr()
    assert journal_command.main(["show", str(file), "--actor", "controller:*"]) == 0
    assert "Submit" in capsys.readouterr().out


def test_arguments_that_make_no_sense_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, error in (
        (["--seeds", "2", "--journal", "x"], "--journal requires a single seed"),
        (["--actions", "one"], "'one'"),
        (["--wishes", "one"], "'one'"),
        (["--references", "0"], "--references must be 1 or more"),
        (
            ["--setting", "weekloads"],
            f"unknown setting 'weekloads': expected {', '.join(SETTINGS)}, or module:ATTRIBUTE",
        ),
        (["--jobs", "-1"], "--jobs must be 0 or more"),
        (["--failing", "x", "--actions", "1"], "--failing cannot be combined with"),
    ):
        with pytest.raises(SystemExit):
            main(arguments)
        assert error in capsys.readouterr().err
