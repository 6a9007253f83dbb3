"""Taint for maintenance, and tolerations of pods in trials."""

from __future__ import annotations

from collections.abc import Sequence

from kcm.protocols.nodes import NO_EXECUTE, NOT_READY, UNREACHABLE
from kcm.protocols.objects import Object

MAINTENANCE = "example.org/maintenance"  # key of a taint that users set
SOON = (0, 5, 15, 30)  # values of tolerationSeconds


def tolerations(unreachable: int, *, maintenance: int | None) -> Sequence[Object]:
    """Return tolerations for NoExecute taints.

    unreachable: tolerationSeconds for nodes that are not ready or unreachable.
    maintenance: tolerationSeconds for nodes under maintenance; None for no toleration.
    """
    seconds = {NOT_READY: unreachable, UNREACHABLE: unreachable}
    if maintenance is not None:
        seconds[MAINTENANCE] = maintenance
    return [
        {"key": key, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": limit}
        for key, limit in seconds.items()
    ]
