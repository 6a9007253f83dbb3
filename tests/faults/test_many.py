"""Campaigns have the same results on any executor, and run failed seeds first the next time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kcm.actors.simulation.campaign.command import main
from kcm.actors.simulation.campaign.kept_seeds import KeptSeedsError
from kcm.actors.simulation.campaign.many import Attempt, Campaign, Tried, run_campaign
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.runtime.process.pool import processes
from tests.faults.odd_seeds import SETTING as FLAWED

SEEDS = range(4)
NOTHING_HAPPENS = Setting(name="nothing", actions=lambda _: (), draw=lambda _seed, **_: (), faults=1.0)


class Lazily(Executor):
    """Executor that runs a call when its result is requested, in reverse order, like workers of different speed."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = OnDemand(self._carry_out)
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def _carry_out(self) -> None:
        while self._waiting:
            future, call = self._waiting.pop()
            try:
                future.set_result(call())
            except Exception as err:
                future.set_exception(err)


class OnDemand(Future[Any]):
    def __init__(self, carry_out: Callable[[], None]) -> None:
        super().__init__()
        self._carry_out = carry_out

    def result(self, timeout: float | None = None) -> Any:
        self._carry_out()
        return super().result(timeout)


class Broken(Executor):
    """Executor whose workers have all died."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(BrokenExecutor("a worker was killed"))
        return future


def shown(result: Tried) -> Tried:
    """Remove the field that differs from run to run."""
    return structs.replace(result, spent=0.0)


@pytest.fixture(scope="module")
def in_sequence() -> list[Tried]:
    found: list[Tried] = []
    run_campaign(FLAWED, SEEDS, seen=found.append)
    assert 0 < sum(bool(result.violations) for result in found) < len(SEEDS)
    return found


@pytest.fixture(params=["threads", "lazily"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with ThreadPoolExecutor(3) if request.param == "threads" else Lazily() as made:
        yield made


def test_parallel_results_and_reports_equal_sequential_ones(executor: Executor, in_sequence: list[Tried]) -> None:
    found: list[Tried] = []
    campaign = run_campaign(FLAWED, SEEDS, executor=executor, seen=found.append)
    assert list(map(shown, found)) == list(map(shown, in_sequence))
    assert [result.seed for result in campaign.failed] == [result.seed for result in in_sequence if result.violations]


def test_the_command_prints_the_same_with_several_processes(capsys: pytest.CaptureFixture[str]) -> None:
    reports = []
    for jobs in ("1", "2"):
        assert main(["--setting", FLAWED.name, "--seeds", "4", "--jobs", jobs]) == 1
        reports.append(re.sub(r"in [\d.]+ s of CPU", "", capsys.readouterr().out))
    assert reports[0] == reports[1]
    assert "violates:" in reports[0]


def test_a_campaign_that_must_hold_fails_with_all_reports(in_sequence: list[Tried]) -> None:
    campaign = Campaign("some")
    campaign.must_hold()
    for result in in_sequence:
        campaign.add(result)
    with pytest.raises(AssertionError) as raised:
        campaign.must_hold()
    assert str(raised.value).count("replay:") == len(campaign.failed)
    assert str(raised.value).endswith(campaign.summary())


def test_setting_without_importable_name_is_refused_before_any_run() -> None:
    changed = structs.replace(USUAL, settled=1.0)
    with pytest.raises(ValueError, match="'workloads' is another setting: name it module:ATTRIBUTE"):
        run_campaign(changed, SEEDS, jobs=2)
    with pytest.raises(ValueError, match="other processes find a setting by its name: unknown setting 'mine'"):
        run_campaign(structs.replace(USUAL, name="mine"), SEEDS, jobs=2)
    with processes(1) as pool, pytest.raises(ValueError, match="is another setting"):
        pool.submit(Attempt(changed, 1)).result()


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"jobs": -1}, "jobs must be 0 or more, not -1"),
        ({"jobs": 2, "executor": Lazily()}, "which limits its parallel runs itself"),
        ({"references": 0}, "references must be 1 or more, not 0"),
        ({"failing": Path("x"), "faults": ()}, "failing cannot be combined"),
    ],
)
def test_invalid_arguments_raise_value_error(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        run_campaign(NOTHING_HAPPENS, SEEDS, **arguments)


class UnsendableError(Exception):
    def __init__(self, *, what: str) -> None:
        super().__init__(what)


def test_exception_of_a_setting_names_the_seed_and_is_text_if_unpicklable() -> None:
    def raising(error: Exception) -> Setting:
        def actions(_scenario: Scenario) -> list[Action]:
            return [Action(0.5, "fail", fail)]

        def fail(_cluster: object) -> bool:
            raise error

        return structs.replace(NOTHING_HAPPENS, actions=actions)

    with pytest.raises(KeyError) as raised:
        run_campaign(raising(KeyError("gone")), SEEDS, executor=Lazily())
    assert (
        "in the run of nothing, seed 3, at " in raised.value.__notes__[0]
    )  # the last one, which this executor runs first
    with pytest.raises(RuntimeError, match=r"UnsendableError: what it was\nin the run of nothing, seed 3"):
        run_campaign(raising(UnsendableError(what="what it was")), SEEDS, executor=Lazily())


def test_broken_executor_names_the_seed_without_result() -> None:
    with pytest.raises(BrokenExecutor) as raised:
        run_campaign(NOTHING_HAPPENS, range(7, 9), executor=Broken())
    assert raised.value.__notes__ == ["seed 7 of nothing has no result, and neither have later seeds"]


# Seeds that failed.


def odd_ones_fail(*, but: tuple[int, ...] = ()) -> Setting:
    """Return a setting in which runs with odd numbers never settle."""

    def unsettled(cluster: Any) -> list[str]:
        return ["odd"] if cluster.odd else []

    def prepare(cluster: Any) -> None:
        pass

    def actions(scenario: Scenario) -> list[Action]:
        def do(cluster: Any) -> bool:
            cluster.odd = scenario.number % 2 == 1 and scenario.number not in but
            return True

        return [Action(0.0, "say what it is", do)]

    return structs.replace(NOTHING_HAPPENS, actions=actions, unsettled=unsettled, prepare=prepare, settled=1.0)


def tried(setting: Setting, seeds: range, failing: Path) -> list[tuple[int, bool]]:
    """Run a campaign, and return (seed, failed) in the order of the runs."""
    found: list[Tried] = []
    run_campaign(setting, seeds, failing=failing, shrink=False, seen=found.append)
    return [(result.seed, bool(result.violations)) for result in found]


def test_seeds_that_failed_are_kept_tried_first_and_leave_once_they_hold(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "failing"
    assert tried(odd_ones_fail(), range(4), file) == [(0, False), (1, True), (2, False), (3, True)]
    assert file.read_text().splitlines()[1:] == [
        "nothing 1 the system settles after the faults",
        "nothing 3 the system settles after the faults",
    ]
    with file.open("a") as lines:
        lines.write("workloads 17 by hand\nnothing 12\n")
    assert tried(odd_ones_fail(but=(1,)), range(2, 5), file) == [
        (1, False),
        (3, True),
        (12, False),
        (2, False),
        (4, False),
    ]
    assert file.read_text().splitlines()[1:] == [
        "nothing 3 the system settles after the faults",
        "workloads 17 by hand",
    ]


def test_unusable_file_of_seeds_is_reported_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "failing"
    file.write_text("nothing 1\nnothing at all\n")
    with pytest.raises(KeptSeedsError, match="failing, line 2: expected a setting and a seed: 'nothing at all'"):
        tried(odd_ones_fail(), range(1), file)
    with pytest.raises(KeptSeedsError, match=r"cannot be read: .*Is a directory"):
        tried(odd_ones_fail(), range(1), tmp_path)
    with pytest.raises(KeptSeedsError, match=r"cannot be written: .*Not a directory|cannot be read: .*Not a directory"):
        tried(odd_ones_fail(), range(1, 2), file / "below")
