"""Seeded runs find the flaws of a small reconciler, and find nothing in the reconciler without flaws."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcm.actors.simulation.campaign.checks import check
from kcm.runtime.faults.vocabulary import Fault
from kcm.runtime.simulation.plan import draw_intermediate_state, draw_plan, draw_stale_state, draw_unobserved_state
from tests.faults.flawed_controller import Flaws, flawed_setting
from tests.faults.recorded_seeds import MOST, must_be_found_by

# Without seed 0: its ReplicaSet is replaced while the list is 20 s old, so that the reconciler creates pods for the
# deleted one, with backoff, until slightly too many calls are made.
SOUND = range(1, 9)

pytestmark = pytest.mark.timeout(60 + MOST)  # also on a busy machine

Draw = Callable[..., tuple[Fault, ...]]


OTHER_DRAWS = (draw_stale_state, draw_unobserved_state, draw_intermediate_state)


@pytest.mark.parametrize("draw", [draw_plan, *(pytest.param(draw, marks=pytest.mark.slow) for draw in OTHER_DRAWS)])
def test_nothing_is_found_in_a_reconciler_without_a_bug(draw: Draw) -> None:
    for seed in SOUND:
        assert check(seed, setting=flawed_setting(Flaws(), draw=draw)).violations == []


# Flaws, the draw function that finds them, and the seed that must find them.
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


@pytest.mark.parametrize(("flaws", "draw", "seed"), PLANTED.values(), ids=PLANTED.keys())
def test_recorded_seed_finds_a_planted_bug(flaws: Flaws, draw: Draw, seed: int) -> None:
    setting = flawed_setting(flaws, draw=draw)
    must_be_found_by(seed, lambda each: bool(check(each, setting=setting).violations))


@pytest.mark.parametrize(("flaws", "draw", "seed"), PATTERNS.values(), ids=PATTERNS.keys())
def test_each_sieve_pattern_finds_its_bug(flaws: Flaws, draw: Draw, seed: int) -> None:
    setting = flawed_setting(flaws, draw=draw)
    must_be_found_by(seed, lambda each: bool(check(each, setting=setting).violations))
    assert check(seed, (), setting=setting).violations == []  # not found without faults
