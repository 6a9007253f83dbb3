"""Result of running one seed, as a value that can be pickled."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from kcm.actors.simulation.campaign.coverage import Coverage
from kcm.actors.simulation.invariants.observer import Violation
from kcm.runtime.faults.vocabulary import FaultKind


class Tried(Struct, frozen=True):
    """Result of one seed.

    actions, faults: number of user actions and of faults.
    struck: number of times that each kind of fault struck.
    coverage: steps at which the faults struck.
    checks: number of checks of all invariants.
    seconds: duration of the run, in virtual seconds.
    report, replay: report of the violations, and the command that replays them; "" without violations.
    spent: CPU seconds.
    """

    seed: int
    actions: int
    faults: int
    struck: Counter[FaultKind]
    coverage: Coverage
    checks: int
    seconds: float
    violations: tuple[Violation, ...]
    report: str
    spent: float
    replay: str = ""
