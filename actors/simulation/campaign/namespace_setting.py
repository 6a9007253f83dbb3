"""The setting of seeded runs about namespaces: their controller, and the garbage collector, whose tables it shares."""

from __future__ import annotations

from actors.controllers.apimachinery import garbage_collector, namespace
from actors.simulation.campaign.setting import Setting

NAMESPACES_TOO = Setting(name="namespaces", controllers=(namespace.SPEC, garbage_collector.SPEC))
