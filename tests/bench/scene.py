"""Declaration of a scene, whose cost `bin/run-bench counts` counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kcm.runtime.system.actor_system import ActorSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Piece of work that can be repeated."""

    act: Callable[[], None]  # does the work once
    units: int  # of work in one call of `act`
    system: ActorSystem | None = None  # its messages are counted
    whole: bool = False  # count the simulator as well
