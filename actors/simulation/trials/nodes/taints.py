"""Tolerations of pods in trials, and whether a pod may stay on a node."""

from __future__ import annotations

from collections.abc import Sequence

from kcm.protocols.nodes import NO_EXECUTE, NOT_READY, UNREACHABLE
from kcm.protocols.objects import Object

MAINTENANCE = "example.org/maintenance"  # a taint that users set
SOON = (0, 5, 15, 30)  # seconds that a pod tolerates a taint


def tolerations(unreachable: int, *, maintenance: int | None) -> Sequence[Object]:
    """Return tolerations for an unready node and for maintenance, in seconds; maintenance None: no toleration."""
    seconds = {NOT_READY: unreachable, UNREACHABLE: unreachable}
    if maintenance is not None:
        seconds[MAINTENANCE] = maintenance
    return [
        {"key": key, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": many}
        for key, many in seconds.items()
    ]
