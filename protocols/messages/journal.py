"""Records of a journal, in the order of the events. Written by runtime/system/journal.py."""

from __future__ import annotations

from kcm.protocols.messages.message import Message


class Opened(Message, frozen=True, tag=120):
    """First record of every file.

    session: identical in all files of one process.
    part: the file's number in the session, from 1.
    wall: Unix seconds.
    monotonic: seconds of the process's monotonic clock.
    seed: of the system's random choices.
    arguments: of the process's command line.
    controllers: canonical names of all controllers that the process may run, in their order.
    """

    session: str
    part: int
    wall: float
    monotonic: float
    version: str
    seed: int
    arguments: list[str]
    controllers: list[str]


class MessageSent(Message, frozen=True, tag=121):
    """A message was put into a mailbox.

    number: number of the message in its session, from 1.
    incarnation: of the receiver; 0 if no actor had that name.
    cause: number of the message whose handler sent this one; 0 if it was not sent by a handler (the clock, the server,
        people).
    frame: the encoded message; b"" if its bytes are those of message number `same`, which was sent to several actors.
    wall, monotonic: time of sending.
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


class MessageHandled(Message, frozen=True, tag=122):
    """A receiver began to handle a message."""

    number: int  # of the message's MessageSent; 0 if that is not in the journal
    monotonic: float  # when the receiver began
    last: bool  # the mailbox was empty afterwards


class TurnLost(Message, frozen=True, tag=123):
    """An actor's turn hung, and its next turn began without waiting for it, so that the two ran concurrently.

    After this record the order of the records may differ from the order of the events, and so may a replay.
    monotonic: time at which the next turn began.
    """

    monotonic: float
