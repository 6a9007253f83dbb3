"""What is deleted is what was decided on."""

from __future__ import annotations

from actors.simulation.invariants.observing import Fail, Handled, Observation, Submitted
from protocols.messages.commands import Delete
from protocols.objects import Key, decode_object, split_key, uid_of
from protocols.resources import PODS, resource_path


class DeletesWhatItSaw:
    """A deletion hits the very pod that was decided on, and not another that has taken its name since."""

    name = "a deletion hits what was seen"

    def __init__(self) -> None:
        self._seen: dict[tuple[str, Key], str] = {}  # (process, pod) → uid at the time of the decision

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Submitted(process, system, submit) if process.startswith("manager"):
                for command in submit.commands:
                    if isinstance(command, Delete) and command.resource == PODS.id:
                        pods = system.tables.get(PODS.id)
                        entry = pods.get(command.key) if pods is not None else None
                        shown = entry.uid if entry is not None else ""
                        self._seen[process, command.key] = command.uid or shown
            case Handled(process, _, request, response) if request.method == "DELETE" and response.status < 300:
                for (deleter, key), uid in self._seen.items():
                    if deleter == process and request.path == resource_path(PODS.id, *split_key(key)):
                        hit = _uid_of_answer(response.body)
                        if uid and hit and hit != uid:
                            fail(f"{key} is deleted, and was another when that was decided")


def _uid_of_answer(body: bytes) -> str:
    """Of the object, or of what a Status says was deleted."""
    answer = decode_object(body)
    return uid_of(answer) or str((answer.get("details") or {}).get("uid") or "")
