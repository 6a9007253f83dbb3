"""The records of a journal, in the order in which things happened. runtime/system/journal.py writes them."""

from __future__ import annotations

from msgspec import Struct


class Opened(Struct, frozen=True):
    """The first record of every file.

    session: the same in all files of one process. part: the file's number in it, from 1. wall: Unix seconds;
    monotonic: the process's clock. seed: of the system's random choices. arguments: of its command line.
    controllers: canonical names of all that it may run, in their order.
    """

    session: str
    part: int
    wall: float
    monotonic: float
    version: str
    seed: int
    arguments: list[str]
    controllers: list[str]


class MessageSent(Struct, frozen=True):
    """A message was put into a mailbox.

    number: counts them, from 1, in one session. incarnation: the receiver's; 0 if no actor had that name.
    cause: number of the message whose handler sent this one; 0 where none did (the clock, the server, people).
    frame: the message; b"" where it is the frame of message number `same`, sent to several. wall, monotonic: when.
    """

    number: int
    wall: float
    monotonic: float
    sender: str
    receiver: str
    incarnation: int
    cause: int
    frame: bytes
    same: int = 0


class MessageHandled(Struct, frozen=True):
    """A receiver began to handle a message."""

    number: int  # of the message's MessageSent; 0 if that is not in the journal
    monotonic: float  # when the receiver began
    last: bool  # the mailbox was empty afterwards


class TurnLost(Struct, frozen=True):
    """An actor hung in its turn, and the next one began without waiting for it: the two ran at the same time.

    From here on the order of the records may differ from that of what happened, and so may a replay. monotonic: when.
    """

    monotonic: float
