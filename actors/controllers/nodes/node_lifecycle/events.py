"""Construction of events about nodes, and of texts for log lines about failed commands."""

from __future__ import annotations

from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Outcome
from kcm.protocols.resources import NODES


def node_record(name: str, uid: str, reason: str, message: str) -> Record:
    return Record(NODES.api_version, NODES.kind, "", name, uid, "", "Normal", reason, message)


def node_event(name: str, uid: str, reason: str, message: str) -> Record:
    """Return an event about a node, with the message of upstream's RecordNodeEvent: "Node … event: …"."""
    return node_record(name, uid, reason, f"Node {name} event: {message}")


def describe(outcome: Outcome) -> str:
    """Return the type and message of a failed command's outcome, for a log line."""
    return f"{type(outcome).__name__}: {getattr(outcome, 'message', '')}"
