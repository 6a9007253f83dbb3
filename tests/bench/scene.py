"""What `bin/run-bench counts` counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kcm.runtime.system.actor_system import ActorSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Work that can be repeated.

    units: in one call of `act`. system: whose messages are counted. whole: the simulator itself is counted too.
    """

    act: Callable[[], None]
    units: int
    system: ActorSystem | None = None
    whole: bool = False
