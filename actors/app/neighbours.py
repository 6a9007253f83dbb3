"""View of the controllers of a child process, for explanations: requests and responses are lines of JSON.

The process of the hollow cluster returns what its scheduler, kubelets and drivers decided, for `run-kcm why`. A process
that does not respond in time is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from kcm.actors.explanation.manager_state import ControllerState, KeyReport, LeadershipState, ManagerView, ZoneReport

WITHIN = 0.5  # seconds of one request
RESULTS: dict[str, Any] = {"interested": list[str], "controller": ControllerState, "keys": list[KeyReport]}
SendRequest = Callable[[bytes], bytes | None]  # sends a line to the process; None without a response in time


class ViewRequest(Struct, frozen=True):
    """Call of a method of the view. name: of RESULTS."""

    name: str
    arguments: tuple[str, ...]


class NeighbourView:
    """View of another process; implements ManagerView. It belongs to one explanation.

    After a request without a response it sends no more, so that one explanation waits at most once.
    """

    def __init__(self, send: SendRequest) -> None:
        self._send, self._is_silent = send, False

    def leadership(self) -> LeadershipState:
        return LeadershipState()

    def controller(self, name: str) -> ControllerState:
        state: ControllerState | None = self._call("controller", name)
        return state if state is not None else ControllerState(name=name, known=False)

    def keys(self, name: str, resource_id: str, key: str) -> list[KeyReport]:
        return self._call("keys", name, resource_id, key) or []

    def zone(self, name: str) -> ZoneReport | None:
        del name  # the zones are those of the manager
        return None

    def interested(self, resource_id: str) -> list[str]:
        return self._call("interested", resource_id) or []

    def _call(self, name: str, *arguments: str) -> Any:
        if self._is_silent:
            return None
        response = self._send(msgspec.json.encode(ViewRequest(name, arguments)))
        if response is None:
            self._is_silent = True
            return None
        return msgspec.json.decode(response, type=RESULTS[name])


def response_to(line: bytes, view: ManagerView) -> bytes:
    """Return the response to a request of NeighbourView. Raises ValueError for another line."""
    request = msgspec.json.decode(line, type=ViewRequest)
    if request.name not in RESULTS:
        raise ValueError(f"the view has no {request.name!r:.80}")
    return msgspec.json.encode(getattr(view, request.name)(*request.arguments))
