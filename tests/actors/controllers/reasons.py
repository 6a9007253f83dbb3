"""Reasons that controllers gave in a simulated cluster."""

from __future__ import annotations

from kcm.actors.app.system import ControllerSystem


def reasons_of(system: ControllerSystem, controller: str, key: str) -> list[str]:
    """Return the reasons of the latest syncs of the keys with this prefix, oldest first, without repetitions."""
    decisions = [decision for decision in system.decisions(controller).recent() if str(decision.key).startswith(key)]
    return list(dict.fromkeys(reason for decision in decisions for reason in decision.reasons))
