"""The setting of seeded runs about StatefulSets, and the collector of what they leave behind."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery import garbage_collector
from kcm.actors.controllers.workloads import statefulset
from kcm.actors.simulation.campaign.setting import Setting

STATEFUL_TOO = Setting(name="stateful", controllers=(statefulset.SPEC, garbage_collector.SPEC))
