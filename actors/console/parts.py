"""Parts of the console of a running system."""

from __future__ import annotations

from kcm.actors.app.system import ControllerSystem
from kcm.actors.console.cluster import PodsTopic, ZonesTopic
from kcm.actors.console.states import StatesTopic
from kcm.actors.controllers.nodes.node_lifecycle.options import lifecycle_settings
from kcm.actors.controllers.nodes.node_lifecycle.spec import SPEC as NODE_LIFECYCLE
from kcm.actors.engine.vitals import ControllerVitals
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.runtime.serving.console.pages import ConsoleParts


def console_parts(system: ControllerSystem) -> ConsoleParts:
    limits = lifecycle_settings(system.options).limits if NODE_LIFECYCLE.name in system.enabled else None
    return ConsoleParts(
        topics={
            "system": lambda _query: StatesTopic(lambda: system.shown("controllers", ""), clock=system.clock),
            "zones": lambda _query: ZonesTopic(system, limits=limits),
            "pods": lambda _query: PodsTopic(system.tables, load=lambda: load_of(system), clock=system.clock),
        },
    )


def load_of(system: ControllerSystem) -> tuple[int, int]:
    """Return the number of pending keys of all controllers, and of their reconciliations so far."""
    pending = reconciled = 0
    for name in system.enabled:
        vitals = system.vitals.of(controller_name(name), ControllerVitals)
        if vitals is not None:
            pending += sum(source.pending() for source in vitals.sources if not source.is_pass)
            reconciled += vitals.reconciled
    return pending, reconciled
