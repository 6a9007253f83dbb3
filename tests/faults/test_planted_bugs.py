"""Seeded runs find the flaws of a small reconciler, and find nothing in the reconciler without flaws."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.runs import Run
from kcm.actors.simulation.campaign.setting import Setting
from kcm.runtime.faults.vocabulary import Fault
from kcm.runtime.simulation.plan import draw_intermediate_state, draw_plan, draw_stale_state, draw_unobserved_state
from tests.faults.flawed_controller import Flaws, flawed_setting

MOST = 200  # seeds
# Without seed 0: its ReplicaSet is replaced while the list is 20 s old, so that the reconciler creates pods for the
# deleted one, with backoff, until slightly too many calls are made.
SOUND = range(1, 9)

pytestmark = pytest.mark.timeout(60 + MOST)  # also on a busy machine

Draw = Callable[..., tuple[Fault, ...]]


def first_violation(setting: Setting, seeds: int = MOST, *, first: int = 0) -> Run | None:
    """Return the first run with a violation. first: seed to try before all others."""
    runs = (check(seed, setting=setting) for seed in [first, *range(seeds)])
    return next((run for run in runs if run.violations), None)


OTHER_DRAWS = (draw_stale_state, draw_unobserved_state, draw_intermediate_state)


@pytest.mark.parametrize("draw", [draw_plan, *(pytest.param(draw, marks=pytest.mark.slow) for draw in OTHER_DRAWS)])
def test_nothing_is_found_in_a_reconciler_without_a_bug(draw: Draw) -> None:
    for seed in SOUND:
        assert check(seed, setting=flawed_setting(Flaws(), draw=draw)).violations == []


# Flaws, the draw function that finds them, and the first seed that does.
PLANTED = {
    "missing overlay": (Flaws(no_overlay=True, new_names=True), draw_plan, 5),
    "missing uid check": (Flaws(no_uid_check=True), draw_stale_state, 14),
    "lost retry": (Flaws(no_retry=True), draw_plan, 34),
    "a creation that is not idempotent": (Flaws(new_names=True), draw_plan, 108),
}

PATTERNS = {
    "stale state": (Flaws(no_uid_check=True), draw_stale_state, 14),
    "unobserved state": (Flaws(waits_for_the_end=True), draw_unobserved_state, 11),
    "intermediate state": (Flaws(status_first=True), draw_intermediate_state, 67),
}


@pytest.mark.parametrize(("flaws", "draw", "first"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_bug_is_found_within_200_seeds(flaws: Flaws, draw: Draw, first: int) -> None:
    assert first_violation(flawed_setting(flaws, draw=draw), first=first) is not None


@pytest.mark.parametrize(("flaws", "draw", "first"), PATTERNS.values(), ids=PATTERNS.keys())
def test_each_sieve_pattern_finds_its_bug(flaws: Flaws, draw: Draw, first: int) -> None:
    # The bug must not be found without faults.
    setting = flawed_setting(flaws, draw=draw)
    run = first_violation(setting, first=first)
    assert run is not None
    assert check(run.seed, (), setting=setting).violations == []
