"""Calls of functions outside the actors, which a reconciler yields and the Dispatcher executes."""

from __future__ import annotations

from typing import ClassVar

from kcm.protocols.messages.awaitables import Awaited
from kcm.protocols.messages.message import Message
from kcm.protocols.messages.outcomes import Outcome


class Call(Message, Awaited[Outcome], frozen=True, tag=140):
    """Call a function of the controller, in a thread or on an event loop. Controller → dispatcher, in a Submit.

    The function itself stays in the process: the dispatcher finds it by sender, ticket and index. The message contains
    its name and arguments for the journal.

    Outcomes:
        Done: its body is the returned value, packed by protocols/codec.py.
        Raised: the function raised an exception.
        Unknown: the function did not return in time, the call was cancelled, or its outcome was lost.
        Refused: the call was not made.
    """

    resource: ClassVar[str] = ""  # no resource of the API server: write accounting ignores calls
    function: str  # qualified name: "Directory.remove"
    arguments: bytes  # [positional, by name], packed by protocols/codec.py
    timeout: float  # seconds from the start of the call
    key: str = ""  # the object; by default the key that the controller reconciles
