"""The setting of seeded runs about quotas: a namespace with some, users who want more, and who counts."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery import garbage_collector, resourcequota
from kcm.actors.options import Options
from kcm.actors.simulation.campaign.flags import given
from kcm.actors.simulation.campaign.setting import WORKLOADS, Setting

FLAGS: tuple[list[str], ...] = ([], ["--resource-quota-sync-period=5s"], ["--resource-quota-sync-period=0"])


def options_of(scenario: int) -> Options:
    """All are counted again seldom, often, or never."""
    return given(*FLAGS[scenario % len(FLAGS)])


QUOTAS_TOO = Setting(
    name="quotas",
    controllers=(*WORKLOADS, resourcequota.SPEC, garbage_collector.SPEC),
    options=options_of,
)
