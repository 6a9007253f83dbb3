"""The names that messages are sent to. A name outlives the actor that has it."""

from __future__ import annotations

MANAGER = "controller-manager"
DISPATCHER = "dispatcher"
RECORDER = "event-recorder"
ELECTOR = "elector"
DISCOVERY = "discovery"
_INFORMER = "informer:"
_CONTROLLER = "controller:"


def informer_name(resource_id: str) -> str:
    return f"{_INFORMER}{resource_id}"


def resource_of(informer: str) -> str:
    """The Resource.id of the table that the informer of this name keeps."""
    return informer.removeprefix(_INFORMER)


def is_informer(name: str) -> bool:
    return name.startswith(_INFORMER)


def controller_name(controller: str) -> str:
    """controller: as --controllers has it."""
    return f"{_CONTROLLER}{controller}"


def is_controller(name: str) -> bool:
    return name.startswith(_CONTROLLER)


def controller_of(name: str) -> str | None:
    """Which controller the actor of this name drives; None if it drives none."""
    return name.removeprefix(_CONTROLLER) if is_controller(name) else None
