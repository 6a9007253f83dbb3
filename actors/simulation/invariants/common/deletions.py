"""Invariants of deletions: controllers delete only their own objects, and exactly the object that they observed."""

from __future__ import annotations

from kcm.actors.app.system import ControllerSystem
from kcm.actors.simulation.invariants.observer import Fail, Handled, Observation, Submitted, shown
from kcm.actors.simulation.invariants.ownership import DeclaredController, OwnershipIndex
from kcm.protocols.messages.commands import Create, Delete
from kcm.protocols.objects import controller_of, decode_object, split_key, uid_of
from kcm.protocols.resources import resource_path


class DeletesTheObservedObject:
    """Invariant: a deletion deletes the object that the controller observed, and not a later object of the same name.

    The uid of the deleted object is compared with the uid precondition of the request, or else with the uid in the
    controller's informer cache at the time of the decision.
    """

    name = "a deletion deletes the observed object"
    observes = (Submitted, Handled)

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], str] = {}  # (process, path) → uid in the table, if there is no precondition

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Submitted(process, system, submit) if process.startswith("manager"):
                for command in submit.commands:
                    if isinstance(command, Delete) and not command.uid:
                        path = resource_path(command.resource, *split_key(command.key))
                        self._seen[process, path] = _shown(system, command)
            case Handled(process, _, request, response) if request.method == "DELETE" and response.status < 300:
                uid = _uid_of_request(request.body) or self._seen.get((process, request.path), "")
                hit = _uid_of_response(response.body)
                if uid and hit and hit != uid:
                    fail(f"{request.path} deletes another object than the controller observed")


def _shown(system: ControllerSystem, command: Delete) -> str:
    entry = shown(system, command.resource, command.key)
    return entry.uid if entry is not None else ""


def _uid_of_request(body: bytes) -> str:
    """Return the uid in the preconditions of DeleteOptions; "" without one."""
    options = decode_object(body) if body else {}
    return str((options.get("preconditions") or {}).get("uid") or "")


def _uid_of_response(body: bytes) -> str:
    """Return the uid of the deleted object from the response, which is the object or a Status."""
    response = decode_object(body)
    return uid_of(response) or str((response.get("details") or {}).get("uid") or "")


class OnlyOwnDependents:
    """Invariant: a controller creates and deletes dependents only of owners of its own kinds.

    It may also delete objects of the resources that its trial declares in `deletes`. A deletion is not checked if the
    process's informer cache does not show the object's owner.
    """

    name = "controllers create and delete only their own objects"
    observes = (Submitted,)

    def __init__(self, ownership: OwnershipIndex) -> None:
        self._ownership = ownership

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Submitted):
            return
        controller = self._ownership.controllers.get(observation.submit.sender)
        if controller is None:
            return
        for command in observation.submit.commands:
            if isinstance(command, Create) and not command.subresource:
                owner = controller_of(decode_object(command.body)) if controller.owns else None
                kinds = _owner_kinds(controller, command.resource)
                if kinds and (owner is None or owner.kind not in kinds):
                    fail(f"{controller.sender} creates an object of {command.resource} that no {sorted(kinds)} owns")
            elif isinstance(command, Delete) and not _may_delete(controller, command.resource):
                self._deleted(controller, observation.system, command, fail)

    @staticmethod
    def _deleted(controller: DeclaredController, system: ControllerSystem, command: Delete, fail: Fail) -> None:
        kinds = _owner_kinds(controller, command.resource)
        if not kinds:
            fail(f"{controller.sender} may not delete {command.key} of {command.resource}")
            return
        entry = shown(system, command.resource, command.key)
        if entry is None or (command.uid and entry.uid != command.uid) or entry.controller is None:
            return
        if entry.controller.kind not in kinds:
            fail(
                f"{controller.sender} deletes {command.key}, which {entry.controller.kind} {entry.controller.name} owns"
            )


def _owner_kinds(controller: DeclaredController, resource_id: str) -> set[str]:
    return {owns.owner.kind for owns in controller.owns if owns.dependents.id == resource_id}


def _may_delete(controller: DeclaredController, resource_id: str) -> bool:
    return controller.deletes_any or any(resource.id == resource_id for resource in controller.deletes)
