"""Changes of running controllers that users request: which make sense now, their messages, and when they are visible.

The messages are those that actors also send each other, so a journal contains them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from kcm.actors.app.controller_states import (
    DISABLED,
    FAILED,
    PAUSED,
    PAUSING,
    RESTARTING,
    SKIPPED,
    STANDBY,
    STARTING,
    STOPPING,
    ControllerStatus,
    StateReader,
)
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.messages.lifecycle import Disable, Enable, Pause, Restart, Resume
from kcm.runtime.serving.debug_pages import ChangeRefusedError

MESSAGES: dict[str, Callable[[str], Any]] = {
    "enable": Enable,
    "disable": Disable,
    "pause": Pause,
    "resume": Resume,
    "restart": Restart,
    "drain": Pause,  # which keeps what is in progress; the change is done once nothing is
}


class ControllerChange(Struct, frozen=True):
    """Change of one controller; implements PendingChange. read: returns its present state."""

    action: str
    before: ControllerStatus
    is_needed: bool
    read: Callable[[], ControllerStatus]

    def is_done(self) -> bool:
        return is_visible(self.action, self.before, self.read()) if self.is_needed else True

    def result(self) -> ControllerStatus:
        return self.read()


def change_controller(
    spec: ControllerSpec, action: str, *, states: StateReader, tell: Callable[[Any], None]
) -> ControllerChange:
    """Request a change of a controller, by a message to the manager. Raises ChangeRefusedError."""
    state = states.state(spec)
    error = refusal(action, state, leader=states.leader())
    if error:
        raise ChangeRefusedError(f"cannot {action} {spec.name}: {error}")
    is_needed = not is_as_requested(action, state)
    if is_needed:
        tell(MESSAGES[action](spec.name))
    return ControllerChange(action, state, is_needed, lambda: states.state(spec))


def refusal(action: str, state: ControllerStatus, *, leader: str | None) -> str:
    """Return why an action makes no sense in this state; "" if it does. leader: None if this process leads."""
    if state.state == STOPPING:
        return state.reason
    if leader is not None:
        return f"this process does not lead; the leader is {leader or 'unknown'}"
    if state.state == SKIPPED:
        return f"it is skipped, because it needs {state.reason}"
    if state.state == STANDBY:
        return state.reason
    if state.state == DISABLED and action not in ("enable", "disable"):
        return "it is disabled"
    return ""


def is_as_requested(action: str, state: ControllerStatus) -> bool:
    """Report whether nothing has to be changed."""
    match action:
        case "enable":
            return state.enabled and state.state != FAILED
        case "disable":
            return not state.enabled
        case "pause":
            return state.state in (PAUSED, PAUSING)
        case "resume":
            return not state.paused and state.state not in (PAUSED, PAUSING)
        case "drain":
            return state.state == PAUSED
        case _:
            return False


def is_visible(action: str, before: ControllerStatus, state: ControllerStatus) -> bool:
    """Report whether the effect of an action is visible."""
    match action:
        case "enable":
            return state.enabled and state.state not in (STARTING, RESTARTING)
        case "disable":
            return not state.enabled and state.up_seconds is None
        case "pause":
            return state.paused
        case "resume":
            return not state.paused and state.state not in (PAUSED, PAUSING)
        case "drain":
            return state.state == PAUSED
        case _:
            return state.incarnation > before.incarnation and state.state not in (STARTING, RESTARTING)
