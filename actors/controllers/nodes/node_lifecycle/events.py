"""Events about nodes, and outcomes in log lines."""

from __future__ import annotations

from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Outcome
from kcm.protocols.resources import NODES


def node_record(name: str, uid: str, reason: str, message: str) -> Record:
    return Record(NODES.api_version, NODES.kind, "", name, uid, "", "Normal", reason, message)


def node_event(name: str, uid: str, reason: str, message: str) -> Record:
    """Return an event in the form of upstream's RecordNodeEvent."""
    return node_record(name, uid, reason, f"Node {name} event: {message}")


def describe(outcome: Outcome) -> str:
    """Return a text about a failed command for a log line."""
    return f"{type(outcome).__name__}: {getattr(outcome, 'message', '')}"
