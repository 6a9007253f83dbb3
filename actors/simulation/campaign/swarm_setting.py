"""The setting of many cheap seeded runs of everything: in each, the users of some of the trials act.

All controllers run, as in `everything`, and are held to all that they are held to there. Which users act is drawn anew
by each seed, most often few of them: a run costs a third, and what users of one trial do is seen without what others
cover up. That is swarm testing: A. Groce, C. Zhang, E. Eide, Y. Chen, J. Regehr, "Swarm Testing", ISSTA 2012.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.trials.scenario import Scenario
from kcm.actors.simulation.trials.trial import Trial

SHARES = {1 / 8: 8, 1 / 4: 4, 1 / 2: 2, 1: 1}  # of the trials whose users act: in how many of 15 seeds


def swarm(setting: Setting) -> Setting:
    """The same controllers, invariants, faults and times, with the users of a part of the trials."""
    return replace(setting, name="swarm", with_users=_some)


def _some(scenario: Scenario, trials: Sequence[Trial]) -> Iterable[Trial]:
    """At least one, in the order of the trials."""
    chance = scenario.chance("swarm")
    (share,) = chance.choices([*SHARES], weights=[*SHARES.values()])
    chosen = set(chance.sample(range(len(trials)), max(1, round(share * len(trials)))))
    return [trial for number, trial in enumerate(trials) if number in chosen]
