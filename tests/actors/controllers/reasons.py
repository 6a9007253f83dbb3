"""Reasons that controllers gave in a simulated cluster."""

from __future__ import annotations

from kcm.actors.app.system import ControllerSystem
from kcm.protocols.objects import Key


def reasons_of(system: ControllerSystem, controller: str, key: Key) -> list[str]:
    """Return the reasons of the latest syncs of a key, oldest first, without repetitions."""
    decisions = [decision for decision in system.decisions(controller).recent() if str(decision.key) == key]
    return list(dict.fromkeys(reason for decision in decisions for reason in decision.reasons))
