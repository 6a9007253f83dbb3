"""The setting of seeded runs with all built-in controllers, those that are off by default too.

It is what all other settings are, on one cluster: whatever they bring along is here without being said again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.simulation.campaign.combined_settings import combined, switched_on_by_name
from kcm.actors.simulation.campaign.flags import given
from kcm.actors.simulation.campaign.node_setting import draw_node_plan
from kcm.actors.simulation.campaign.setting import Setting

SETTLED = 550.0
"""Seconds. A pod of a user's own tolerates a silent node for the server's 300, after those in which it is given up
and its zone emptied at its rate; and counts for a quota for another minute. No part has both.
"""

ALL_ON = Setting(
    name="all-on",
    controllers=BUILT_IN,
    options=lambda _scenario: given(switched_on_by_name(BUILT_IN)),
)


def everything(parts: Sequence[Setting]) -> Setting:
    """parts: all other settings. Their controllers run in the order of the built-in ones."""
    return replace(combined("everything", ALL_ON, *parts), draw=draw_node_plan, settled=SETTLED)
