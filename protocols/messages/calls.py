"""Calls of functions outside of the actors, as a reconciler yields them. The Dispatcher has each carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from kcm.protocols.messages.awaitables import Awaited

if TYPE_CHECKING:
    from kcm.protocols.messages.outcomes import Outcome  # noqa: F401 (named in a base, which ruff does not see)


class Call(Struct, Awaited["Outcome"], frozen=True):
    """Call a function of the controller's own, in a thread or on an event loop. Controller → dispatcher, in a Submit.

    The function itself stays in the process: the dispatcher finds it by sender, ticket and index. What travels says
    which it was, for the journal and people.

    function: its qualified name, "Directory.remove". arguments: [positional, by name], as protocols/codec.py packs
    values. timeout: seconds from its begin. key: what it is about; of a controller what it reconciles, where not said.

    Outcomes: Done, whose body is what it returned, packed alike; Raised; Unknown, it did not return in time, was
    cancelled or lost; Refused, it was not made.
    """

    resource: ClassVar[str] = ""  # none of the API server's: the accounts of writes leave calls out
    function: str
    arguments: bytes
    timeout: float
    key: str = ""
