"""The setting of seeded runs about namespaces: their controller, and the garbage collector, whose tables it shares."""

from __future__ import annotations

from kcm.actors.controllers.apimachinery import garbage_collector, namespace
from kcm.actors.simulation.campaign.setting import Setting

NAMESPACES_TOO = Setting(name="namespaces", controllers=(namespace.SPEC, garbage_collector.SPEC))
