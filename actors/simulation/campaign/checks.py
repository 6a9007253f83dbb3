"""Checks of a run: it violates no invariant, and ends in the same state as the run without faults."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kcm.actors.simulation.campaign.recorder import Recording
from kcm.actors.simulation.campaign.runs import Run, run
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.invariants.observer import Violation
from kcm.runtime.faults.vocabulary import Fault

SAME_END = "the end state is the same as without faults"
ABSENT = "absent"
KEPT = 64  # number of cached runs without faults


@functools.lru_cache(maxsize=KEPT)
def run_without_faults(number: int, setting: Setting, actions: tuple[int, ...] | None, *, brief: bool = True) -> Run:
    """Return the run of a scenario without faults, which is cached.

    number: number of the scenario.
    actions: numbers of the user actions that are carried out; None for all.
    brief: see `run`.
    """
    return run(number, (), setting=setting, actions=actions, brief=brief)


def check(
    seed: int,
    faults: Sequence[Fault] | None = None,
    *,
    setting: Setting = USUAL,
    actions: Collection[int] | None = None,
    compared: bool = True,
    recording: Recording | None = None,
) -> Run:
    """Run one seed with its faults, and check the run.

    actions, recording: see `run`.
    compared: also compare the end state with that of the same scenario without faults.
    """
    result = run(seed, faults, setting=setting, actions=actions, recording=recording)
    if compared and not result.violations:
        result.checked[SAME_END] += 1
        result.violations += _differing_end_state(result, setting)
    return result


def _differing_end_state(result: Run, setting: Setting) -> Iterable[Violation]:
    number, actions = setting.number(result.seed), result.chosen
    reference = run_without_faults(number, setting, actions)
    if not reference.violations and result.end != reference.end:
        # The run may have been stopped too early by an incomplete `unsettled`: compare with the whole run.
        reference = run_without_faults(number, setting, actions, brief=False)
    if reference.violations:
        for violation in reference.violations:
            yield Violation(
                violation.at,
                violation.invariant,
                f"{violation.text} (in the run of seed {reference.seed} without faults)",
            )
    elif result.end != reference.end:
        yield Violation(result.seconds, SAME_END, "; ".join(differences(reference.end, result.end)))


def differences(expected: dict[str, Any], found: dict[str, Any]) -> Iterable[str]:
    """Yield a text for each difference of two end states. A missing part differs from None."""
    for part in sorted({*expected, *found}):
        with_faults, without = found.get(part, ABSENT), expected.get(part, ABSENT)
        if with_faults != without:
            yield f"{part}: {with_faults}, without faults {without}"
