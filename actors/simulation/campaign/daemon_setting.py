"""The setting of seeded runs about DaemonSets, on more nodes than workloads have."""

from __future__ import annotations

from kcm.actors.controllers.workloads import daemonset
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.trials.scenario import Fleet

DAEMONS_TOO = Setting(
    name="daemons",
    controllers=(daemonset.SPEC,),
    fleet=lambda scenario: Fleet(nodes=(2, 3, 5, 7)[scenario % 4], zones=2),
)
