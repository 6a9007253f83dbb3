"""Commands, which a reconciler yields: writes, live reads, events, calls, and keys to enqueue."""

from kcm.actors.reconciliation import (
    Enqueue,
    apply,
    create,
    delete,
    get_live,
    list_live,
    merge_status,
    outside,
    patch,
    record,
    update,
)
from kcm.protocols.messages.commands import PatchType

__all__ = [
    "Enqueue",
    "PatchType",
    "apply",
    "create",
    "delete",
    "get_live",
    "list_live",
    "merge_status",
    "outside",
    "patch",
    "record",
    "update",
]
