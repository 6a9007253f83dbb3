"""The setting of seeded runs about garbage: workloads, families of ConfigMaps, and their collector."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery import garbage_collector
from kcm.actors.simulation.campaign.setting import WORKLOADS, Setting

GARBAGE_TOO = Setting(name="garbage", controllers=(*WORKLOADS, garbage_collector.SPEC))
