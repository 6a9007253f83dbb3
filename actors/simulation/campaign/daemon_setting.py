"""The setting of seeded runs about DaemonSets, on more nodes than workloads have."""

from __future__ import annotations

from actors.controllers.workloads import daemonset
from actors.simulation.campaign.setting import Setting
from actors.simulation.trials.scenario import Fleet

DAEMONS_TOO = Setting(
    name="daemons",
    controllers=(daemonset.SPEC,),
    fleet=lambda scenario: Fleet(nodes=(2, 3, 5, 7)[scenario % 4], zones=2),
)
