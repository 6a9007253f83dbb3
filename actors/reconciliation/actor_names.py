"""The names that messages are sent to. A name outlives the actor that has it."""

from __future__ import annotations

MANAGER = "controller-manager"
DISPATCHER = "dispatcher"
RECORDER = "event-recorder"
ELECTOR = "elector"
DISCOVERY = "discovery"
INFORMERS = "shared-informers"  # the client of all informers
_INFORMER = "informer:"
_CONTROLLER = "controller:"


def informer_name(table_id: str) -> str:
    """Of the informer that keeps this table. table_id: Table.id, which is Resource.id where nothing is restricted."""
    return f"{_INFORMER}{table_id}"


def table_of(informer: str) -> str:
    """The Table.id of the table that the informer of this name keeps."""
    return informer.removeprefix(_INFORMER)


def resource_of(informer: str) -> str:
    """The Resource.id of what it holds."""
    return table_of(informer).partition("?")[0]


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
