"""Parts of the console of a running system."""

from __future__ import annotations

from typing import Any

from kcm.actors.app.system import ControllerSystem
from kcm.actors.console.cluster import PodsTopic, ZonesTopic
from kcm.actors.console.faults import FaultBoard
from kcm.actors.console.states import RatesTopic, StatesTopic
from kcm.actors.console.story import Send, StoryTopic
from kcm.actors.engine.vitals import ControllerVitals
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.runtime.faults.switches import SwitchedTransport
from kcm.runtime.serving.console.pages import Action, ConsoleParts, MakeTopic, Query, one_of


def console_parts(
    system: ControllerSystem, *, send: Send | None = None, switches: SwitchedTransport | None = None
) -> ConsoleParts:
    """Return what a console shows of a system.

    send: sends a request to the API server, for events; None to leave these out.
    switches: transport of the system, for the fault board; None for a system without one.
    """
    topics: dict[str, MakeTopic] = {
        "system": lambda _query: StatesTopic(
            lambda: system.shown("controllers", ""), brake=lambda: system.shown("brake", ""), clock=system.clock
        ),
        "zones": lambda _query: ZonesTopic(lambda: system.shown("zones", ""), system.tables, clock=system.clock),
        "rates": lambda _query: RatesTopic(
            lambda: system.shown("clients", ""), brake=lambda: system.shown("brake", ""), clock=system.clock
        ),
        "pods": lambda _query: PodsTopic(system.tables, load=lambda: load_of(system), clock=system.clock),
        "story": lambda query: StoryTopic(
            system,
            send,
            kind=one_of(query, "kind"),
            namespace=one_of(query, "namespace"),
            name=one_of(query, "name"),
        ),
    }

    def why(query: Query) -> Any:
        return system.why(one_of(query, "kind"), one_of(query, "namespace"), one_of(query, "name"))

    actions: dict[str, Action] = {}
    if switches is not None and send is not None:
        board = FaultBoard(system.tables, send, switches)
        topics["faults"] = lambda _query: board
        actions["fault"] = board.act
    return ConsoleParts(topics=topics, questions={"why": why}, actions=actions)


def load_of(system: ControllerSystem) -> tuple[int, int]:
    """Return the number of pending keys of all controllers, and of their reconciliations so far."""
    pending = reconciled = 0
    for name in system.enabled:
        vitals = system.vitals.of(controller_name(name), ControllerVitals)
        if vitals is not None:
            pending += sum(source.pending() for source in vitals.sources if not source.is_pass)
            reconciled += vitals.work.reconciled
    return pending, reconciled
