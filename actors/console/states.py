"""Rows of the supervision tree, of the controllers and of the rates, as the pages of control show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kcm.runtime.scheduling.clock import Clock

SHORTEST_BUSY = 0.5  # seconds; shorter times would change every row of a busy system with every sample
SECONDS = "Seconds"
IN_FUTURE = frozenset({"dueInSeconds", "nextInSeconds"})
ONLY_WHILE_POSITIVE = frozenset(
    {"busySeconds", "longestWaitingSeconds", "longestRunningSeconds", "runningSeconds", "failingSeconds"}
)


class StatesTopic:
    """Rows "system", "brake", "controller/NAME" and "actor/NAME".

    Durations are replaced by points in time in Unix seconds ("upSeconds" by "upAt"), because these do not change while
    nothing happens.
    """

    def __init__(
        self, states: Callable[[], msgspec.Struct], *, brake: Callable[[], msgspec.Struct] | None = None, clock: Clock
    ) -> None:
        """Create the topic. states, brake: return the responses to GET /controllers and GET /brake."""
        self._states, self._brake, self._clock = states, brake, clock

    def sample(self) -> dict[str, Any]:
        state = msgspec.to_builtins(self._states())
        now = self._clock.now()
        rows: dict[str, Any] = {
            "system": {name: state[name] for name in ("leading", "leader", "stopping") if name in state}
        }
        if self._brake is not None:
            brake = msgspec.to_builtins(self._brake())
            rows["brake"] = {name: brake[name] for name in ("engaged", "reason", "held")}
        rows |= {f"controller/{row['name']}": with_instants(row, now) for row in state["controllers"]}
        rows |= {f"actor/{row['name']}": with_instants(row, now) for row in state["actors"]}
        return rows


class RatesTopic:
    """Rows "client/NAME" as GET /clients shows them, and "brake" as GET /brake."""

    def __init__(
        self, clients: Callable[[], msgspec.Struct], *, brake: Callable[[], msgspec.Struct], clock: Clock
    ) -> None:
        """Create the topic. clients, brake: return the responses."""
        self._clients, self._brake, self._clock = clients, brake, clock

    def sample(self) -> dict[str, Any]:
        brake = msgspec.to_builtins(self._brake())
        brake["windowSpan"] = brake.pop("windowSeconds")  # a setting, not a duration up to now
        del brake["at"]
        rows = {f"client/{row['name']}": row for row in msgspec.to_builtins(self._clients())["clients"]}
        return {"brake": with_instants(brake, self._clock.now()), **rows}


def with_instants(value: Any, now: float) -> Any:
    """Return a copy in which durations are points in time. now: Unix seconds."""
    if isinstance(value, Mapping):
        return dict(_field(name, content, now) for name, content in value.items())
    if isinstance(value, list | tuple):
        return [with_instants(item, now) for item in value]
    return value


def _field(name: str, value: Any, now: float) -> tuple[str, Any]:
    if not name.endswith(SECONDS) and name != "seconds":
        return name, with_instants(value, now)
    instant = name.removesuffix(SECONDS) + "At" if name != "seconds" else "at"
    if value is None or (name in ONLY_WHILE_POSITIVE and value < (SHORTEST_BUSY if name == "busySeconds" else 0.001)):
        return instant, None
    return instant, round(now + value if name in IN_FUTURE else now - value)
