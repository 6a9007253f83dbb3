"""Messages about Events, which `kubectl describe` shows."""

from __future__ import annotations

from typing import Literal, get_args

from kcm.protocols.messages.awaitables import Awaited
from kcm.protocols.messages.message import Message

RecordType = Literal["Normal", "Warning"]
RECORD_TYPES: tuple[str, ...] = get_args(RecordType)


class Record(Message, Awaited[None], frozen=True, tag=60):
    """Write a core/v1 Event about an object. Reconciler → (its actor) → event recorder; no outcome comes back.

    api_version, kind, namespace, name, uid, resource_version, field_path: the involved object.
    type: one of RECORD_TYPES.
    component: the event's source ("replicaset-controller"); if empty, the actor that drives the reconciler sets it.
    client: the API client that writes the event; if empty, the same actor sets it.
    host: the node that reports the event.
    user: as in commands.
    cluster: that of the object, in a program that works on several.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    type: str
    reason: str
    message: str
    field_path: str = ""
    component: str = ""
    client: str = ""
    host: str = ""
    user: str = ""
    cluster: str = ""
