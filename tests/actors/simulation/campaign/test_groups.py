"""Seeds that fail alike are grouped, and a campaign may stop early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kcm.actors.simulation.campaign.command import main
from kcm.actors.simulation.campaign.coverage import Coverage
from kcm.actors.simulation.campaign.groups import Groups, pattern_of
from kcm.actors.simulation.campaign.many import Campaign, run_campaign
from kcm.actors.simulation.campaign.runs import SETTLES
from kcm.actors.simulation.campaign.seed_results import Tried
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.invariants.observer import Violation
from kcm.actors.simulation.trials.scenario import Action, Scenario
from tests.faults.odd_seeds import SETTING as FLAWED


def failed(seed: int, invariant: str, text: str) -> Tried:
    violation = Violation(1.0, invariant, text)
    return Tried(
        seed=seed,
        actions=0,
        faults=0,
        struck=Counter(),
        coverage=Coverage(),
        checks=1,
        seconds=1.0,
        violations=(violation,),
        report=f"report of {seed}",
        spent=0.0,
        replay=f"python -m kcm.simulate --seed {seed}",
    )


@pytest.mark.parametrize(
    ("invariant", "text", "other"),
    [
        (
            SETTLES,
            "after 550 s: StatefulSet db: its pods are ['db-0', 'db-2'], not ['db-0']; claim data-0-db-0 is not bound",
            "after 9 s: claim data-1-db-1-0 is not bound; StatefulSet db-1: its pods are ['db-1-1'], not ['db-1-0']",
        ),
        (SETTLES, "after 9 s: set is not there", "after 9 s: set0 is not there; setxxxxxxxxx is not there"),
        (
            "no hot loop",
            "c asked for /api/v1/pods/web-bcdfg 121 times",
            "c asked for /api/v1/pods/web-1-x2z9k 140 times",
        ),
        (
            "raises",
            "reconciliation of websites default/blog-1: KeyError: 7",
            "reconciliation of websites default/blog: KeyError: 12",
        ),
    ],
    ids=["numbers, names and order", "forms of a name", "generated names", "keys"],
)
def test_failures_that_differ_in_numbers_and_drawn_names_are_alike(invariant: str, text: str, other: str) -> None:
    assert pattern_of(Violation(1.0, invariant, text)) == pattern_of(Violation(2.0, invariant, other))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("after 9 s: StatefulSet db is not there", "after 9 s: DaemonSet db is not there"),
        ("after 9 s: a is there", "after 9 s: a is there; b is there"),
        ("after 9 s: kube-root-ca.crt is there", "after 9 s: team-a is there"),
    ],
)
def test_failures_that_differ_in_words_are_not_alike(text: str, other: str) -> None:
    assert pattern_of(Violation(1.0, SETTLES, text)) != pattern_of(Violation(1.0, SETTLES, other))


def test_api_version_belongs_to_the_pattern() -> None:
    assert pattern_of(Violation(1.0, "i", "GET /apis/apps/v1beta1/deployments/web-3 3 times")) == (
        "i: GET /apis/apps/v1beta1/deployments/web # times"
    )


def test_only_the_first_of_several_equal_failures_has_a_whole_report() -> None:
    groups = Groups()
    assert groups.add(failed(3, "i", "web-1 is bad")) == "report of 3"
    assert groups.add(failed(4, "other", "web-1 is bad")) == "report of 4"
    assert groups.add(failed(9, "i", "web-77 is bad")) == (
        "seed 9 fails as seed 3 does:\n  at 1.000 s, i: web-77 is bad\nreplay:\n  python -m kcm.simulate --seed 9"
    )
    assert list(groups.lines()) == [
        "2 failed: i: web is bad (seeds 3 9)",
        "1 failed: other: web is bad (seed 4)",
    ]


def test_campaign_that_must_hold_raises_one_report_for_equal_failures() -> None:
    campaign = Campaign("some", failed=[failed(seed, "i", f"web-{seed} is bad") for seed in range(3)])
    with pytest.raises(AssertionError) as raised:
        campaign.must_hold()
    text = str(raised.value)
    assert "report of 0" in text
    assert "report of 1" not in text
    assert "seed 2 fails as seed 0 does" in text
    assert "3 failed: i: web is bad (seeds 0 1 2)" in text


def test_seeds_of_a_long_group_are_cut_short() -> None:
    groups = Groups()
    for seed in range(12):
        groups.add(failed(seed, "i", "bad"))
    assert list(groups.lines()) == ["12 failed: i: bad (seeds 0 1 2 3 4 5 6 7 8 9 and 2 more)"]


NEVER = Setting(
    name="never", actions=lambda _: (), draw=lambda _seed, **_: (), faults=1.0, settled=1.0, unsettled=lambda _: ["odd"]
)


@pytest.mark.parametrize(("stop_after", "tried"), [(1, 1), (2, 2), (9, 5), (None, 5)])
def test_campaign_stops_after_the_given_number_of_failed_seeds(stop_after: int | None, tried: int) -> None:
    campaign = run_campaign(NEVER, range(5), shrink=False, stop_after=stop_after)
    assert (campaign.runs, len(campaign.failed), campaign.stopped) == (tried, tried, tried < 5)
    assert ("the campaign was stopped" in campaign.summary()) is campaign.stopped


def test_stop_after_0_is_refused() -> None:
    with pytest.raises(ValueError, match="stop_after must be 1 or more, not 0"):
        run_campaign(NEVER, range(5), stop_after=0)


def test_command_prints_one_report_for_equal_failures_and_stops(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--setting", FLAWED.name, "--seeds", "40", "--no-shrink", "--stop-after", "2"]
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert out.count("user actions:") == 1
    assert "fails as seed" in out
    assert "2 failed: " in out
    assert "2 failed, and the campaign was stopped" in out


@pytest.mark.parametrize("where", ["actions", "plan", "do"])
def test_exception_of_an_authors_function_names_the_seed(where: str) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise KeyError("gone")

    def actions(_scenario: Scenario) -> list[Action]:
        return [Action(0.5, "fail", fail)]

    broken: dict[str, Callable[..., Any]] = {"actions": fail} if where == "actions" else {"draw": fail}
    setting = replace(NEVER, **({"actions": actions} if where == "do" else broken))
    with pytest.raises(KeyError) as raised:
        run_campaign(setting, [17])
    at = "0.500" if where == "do" else "0.000"
    assert raised.value.__notes__ == [f"in the run of never, seed 17, at {at} s"]
