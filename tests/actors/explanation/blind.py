"""Blind trials: stuck objects by authors who have not read the rules. docs/why-trial.md has the results.

python -m tests.actors.explanation.trial --blind [--set fourth]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.actors.explanation.blind_cluster import CLUSTER
from tests.actors.explanation.blind_fifth import FIFTH
from tests.actors.explanation.blind_fifth_held_back import FIFTH_HELD_BACK
from tests.actors.explanation.blind_fourth import FOURTH, HELD_BACK
from tests.actors.explanation.blind_placement import PLACEMENT
from tests.actors.explanation.blind_refusals import REFUSALS
from tests.actors.explanation.blind_scenario import BlindScenario
from tests.actors.explanation.blind_second import SECOND
from tests.actors.explanation.blind_third import THIRD
from tests.actors.explanation.blind_workloads import WORKLOADS

SETS: Mapping[str, Sequence[BlindScenario]] = {
    "first": (*WORKLOADS, *REFUSALS, *PLACEMENT, *CLUSTER),
    "second": SECOND,
    "third": THIRD,
    "fourth": FOURTH,
    "held-back": HELD_BACK,
    "fifth": FIFTH,
    "fifth-held-back": FIFTH_HELD_BACK,
}
BLIND = tuple(scenario for scenarios in SETS.values() for scenario in scenarios)
