"""Journal: records every message of a system, with its sender, receiver, time, cause, and the start of its handling.

A file is MAGIC, then records: length and CRC-32 of the payload, four bytes each and big-endian, then the payload, a
message of protocols/messages/journal.py as msgpack. FILE is the newest file; when it is full it is renamed to FILE.1,
FILE.1 to FILE.2, and so on up to the number of files to keep. Only journals are ever renamed or deleted. Journals
contain objects of the cluster as they are, including Secrets if a controller watches them, so only the owner can read
them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO
from zlib import crc32

from msgspec import Struct

from kcm.protocols.codec import DecodeError, decode, encode
from kcm.protocols.messages.journal import MessageHandled, MessageSent, Opened, TurnLost
from kcm.runtime.process.files import create_private
from kcm.runtime.scheduling.clock import Clock

MAGIC = b"kcm journal 1\n"
ANY_VERSION = b"kcm journal "
HEAD = struct.Struct(">II")
FLUSH = 0.5  # seconds after which written data is flushed; there is at least one message per second
LONGEST_TURN = 1.0  # seconds

Record = Opened | MessageSent | MessageHandled | TurnLost


class JournalError(Exception):
    """A journal cannot be written or read. The text is one line for the operator."""


class NumberedFrame(bytes):
    """Frame in a mailbox.

    number: of its message in the journal; 0 without a journal.
    posted: monotonic time at which it was put into the mailbox; 0.0 if that is not measured.
    """

    number: int = 0
    posted: float = 0.0


class RecordedRun(Struct, frozen=True, kw_only=True):
    """Facts about the run, which the journal records; see Opened."""

    version: str
    seed: int
    arguments: Sequence[str]
    controllers: Sequence[str]


class ReplaceableLock:
    """Lets one thread at a time handle a message; a holder that hangs loses its turn after `longest` seconds.

    Each turn is a lock. A hung holder may never release its lock, so `take` replaces it by a new lock. All waiting
    threads then wait for the new lock, and a later release of the old lock has no effect.
    """

    __slots__ = ("_guard", "_longest", "_turn")

    def __init__(self, *, longest: float) -> None:
        self._longest = longest
        self._guard = threading.Lock()
        self._turn = threading.Lock()

    def take(self) -> tuple[threading.Lock, bool]:
        """Wait for the turn. Return its lock, which this thread holds, and whether a hung holder lost its turn."""
        turn, lost = self._turn, False
        while not turn.acquire(timeout=self._longest):
            with self._guard:
                if turn is self._turn:  # no other thread has replaced it yet
                    self._turn = threading.Lock()
                    lost = True
                turn = self._turn
        return turn, lost


class _Handling:
    """Context manager of handling().

    A class, because it is faster than contextlib for code that runs for every message.
    """

    __slots__ = ("_frame", "_journal", "_last", "_turn")

    def __init__(self, journal: JournalWriter, frame: bytes, *, last: bool) -> None:
        self._journal, self._frame, self._last = journal, frame, last

    def __enter__(self) -> None:
        self._turn = self._journal.begin_turn()
        number = self._frame.number if isinstance(self._frame, NumberedFrame) else 0
        self._journal.local.number = number
        self._journal.begun(number, last=self._last)

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._journal.local.number = 0
        self._turn.release()


class JournalWriter:
    """Implementation of kcm.runtime.system.actor.Journal. Raises JournalError if the file cannot be created.

    Actors take turns, one message at a time. So no table changes while a reconciler reads it, and the records have the
    order of events; a replay requires both. An actor that hangs loses its turn after LONGEST_TURN. The journal records
    this (TurnLost), because a replay may differ from the run after it.

    A later error (a full disk) ends the journal, but not the actors; `trouble` is then its text.
    """

    def __init__(
        self,
        path: Path,
        *,
        run: RecordedRun,
        clock: Clock,
        largest: int,
        files: int,
        ended: Callable[[str], None] = lambda _why: None,
    ) -> None:
        """Open the journal.

        largest: bytes after which the next file begins
        files: number of files that are kept, including the newest
        ended: called once with the reason, if the journal ends before it is closed; on an actor's thread, or in close()
        """
        self.trouble: str | None = None
        self._ended = ended
        self.local = threading.local()
        self._path, self._run, self._clock = path, run, clock
        self._largest, self._files = largest, files
        self._session = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._turns = ReplaceableLock(longest=LONGEST_TURN)
        self._number = self._part = self._size = 0
        self._flushed = clock.monotonic()
        self._last: tuple[bytes, int] = (b"", 0)  # the newest frame, and the number of its record
        self._file: BinaryIO | None = None
        try:
            self._begin_file()
        except OSError as err:
            raise JournalError(f"cannot write the journal {path}: {err.strerror}") from err

    def sent(self, sender: str, to: str, incarnation: int, frame: bytes, cause: int | None) -> bytes:
        cause = self.current() if cause is None else cause
        with self._lock:
            self._number += 1
            numbered = NumberedFrame(frame)
            numbered.number = self._number
            last, number = self._last
            same = number if last is frame else 0
            if not same:
                self._last = (frame, self._number)
            now = self._clock.monotonic()
            held = b"" if same else frame
            self._write(
                MessageSent(self._number, self._clock.now(), now, sender, to, incarnation, cause, held, same), now
            )
        return numbered

    def handling(self, frame: bytes, *, last: bool) -> _Handling:
        return _Handling(self, frame, last=last)

    def begin_turn(self) -> threading.Lock:
        """Wait until no other actor handles a message. Return the lock to release after this message."""
        turn, lost = self._turns.take()
        if lost:
            with self._lock:
                now = self._clock.monotonic()
                self._write(TurnLost(now), now)
        return turn

    def begun(self, number: int, *, last: bool) -> None:
        with self._lock:
            now = self._clock.monotonic()
            self._write(MessageHandled(number, now, last), now)

    def current(self) -> int:
        number: int = getattr(self.local, "number", 0)
        return number

    def close(self) -> None:
        with self._lock:
            if self._file is None:
                return
            try:
                self._file.close()
            except OSError as err:
                self._give_up(err)
            self._file = None

    def _write(self, record: Record, now: float) -> None:
        if self._file is None:
            return
        payload = encode(record)
        try:
            self._file.write(HEAD.pack(len(payload), crc32(payload)) + payload)
            self._size += HEAD.size + len(payload)
            if self._size >= self._largest:
                self._begin_file()
            elif now - self._flushed >= FLUSH:
                self._flushed = now
                self._file.flush()
        except (OSError, JournalError) as err:
            self._give_up(err)

    def _give_up(self, err: OSError | JournalError) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # close() would write the buffer, and fail again
                file.close()
        if self.trouble is None:
            why = err.strerror if isinstance(err, OSError) else err
            self.trouble = f"the journal {self._path} ends here: {why}"
            self._ended(self.trouble)

    def _begin_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._make_room()
        descriptor = create_private(self._path)
        self._file = os.fdopen(descriptor, "wb", 1 << 16)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # see check_place
        self._part += 1
        self._last = (b"", 0)
        run, now = self._run, self._clock.monotonic()
        opened = Opened(
            self._session,
            self._part,
            self._clock.now(),
            now,
            run.version,
            run.seed,
            list(run.arguments),
            list(run.controllers),
        )
        payload = encode(opened)
        self._size = self._file.write(MAGIC + HEAD.pack(len(payload), crc32(payload)) + payload)
        self._file.flush()

    def _make_room(self) -> None:
        """Rotate the files. Raises JournalError for a file other than a journal, which may be new since the start."""
        check_place(self._path, files=self._files)
        for number in range(self._files - 1, -1, -1):
            file = numbered_path(self._path, number)
            if number >= self._files - 1:
                file.unlink(missing_ok=True)
            elif file.exists():
                file.rename(numbered_path(self._path, number + 1))


def check_place(path: Path, *, files: int) -> None:
    """Raise JournalError if no journal can be written there, or if its files would replace files other than journals.

    Empty files may be replaced. Changes nothing.
    """
    if not path.parent.is_dir():
        raise JournalError(f"cannot write the journal {path}: {os.strerror(errno.ENOENT)}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise JournalError(f"cannot write the journal {path}: {os.strerror(errno.EACCES)}")
    for number in range(files):
        _check_file(numbered_path(path, number))


def _check_file(file: Path) -> None:
    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            raise JournalError(f"cannot write the journal {file}: it is not a regular file")
        with file.open("rb") as stream:
            beginning = stream.read(len(ANY_VERSION))
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return
    except BlockingIOError as err:
        raise JournalError(f"cannot write the journal {file}: another process writes it") from err
    except OSError as err:
        raise JournalError(f"cannot write the journal {file}: {err.strerror}") from err
    if beginning not in (ANY_VERSION, b""):
        raise JournalError(f"{file} is no journal: it would be renamed, and deleted one day; name another file")


def numbered_path(path: Path, number: int) -> Path:
    """Return the path of a journal's file. number: 0 is the newest file."""
    return path.with_name(f"{path.name}.{number}") if number else path


class JournalReader(Struct):
    """Iterates over all complete records, the oldest first.

    troubles: one line for each damaged part, in the order in which they are found.

    Records of a frame that was sent to several actors all contain the frame.
    """

    path: Path
    troubles: list[str]

    def __iter__(self) -> Iterator[Record]:
        frames: dict[int, bytes] = {}
        for file in self._files():
            frames.clear()
            latest = 0
            for record in self._records(file):
                if isinstance(record, MessageSent):
                    if record.same:
                        yield self._whole(record, frames.get(record.same), file)
                        continue
                    frames.pop(latest, None)  # `same` only ever refers to the newest frame
                    latest = record.number
                    frames[latest] = record.frame
                yield record

    def _whole(self, record: MessageSent, frame: bytes | None, file: Path) -> MessageSent:
        if frame is None:
            self.troubles.append(f"{file}: message {record.number} was in what is damaged")
        return MessageSent(
            record.number,
            record.wall,
            record.monotonic,
            record.sender,
            record.receiver,
            record.incarnation,
            record.cause,
            frame or b"",
        )

    def _files(self) -> list[Path]:
        """Return the files, the oldest first. Raises JournalError if there is no file."""
        rotated = [file for file in self.path.parent.glob(f"{self.path.name}.*") if file.suffix[1:].isdecimal()]
        files = sorted(rotated, key=lambda file: -int(file.suffix[1:]))
        if self.path.exists():
            files.append(self.path)
        if not files:
            raise JournalError(f"there is no journal {self.path}")
        return files

    def _records(self, file: Path) -> Iterator[Record]:
        try:
            data = file.read_bytes()
        except OSError as err:
            raise JournalError(f"cannot read {file}: {err.strerror}") from err
        if not data.startswith(MAGIC):
            raise JournalError(f"{file} is no journal of this version")
        at = len(MAGIC)
        while at < len(data):
            payload = _payload(data, at)
            if payload is None:
                self.troubles.append(f"{file}: damaged or cut off at byte {at}; the rest of the file cannot be read")
                return
            record = _decoded(payload, HEAD.unpack_from(data, at)[1])
            if record is None:
                self.troubles.append(f"{file}: the record at byte {at} is damaged and left out")
            else:
                yield record
            at += HEAD.size + len(payload)


def _payload(data: bytes, at: int) -> bytes | None:
    """Return the payload of the record at this offset, or None if it is incomplete."""
    begins = at + HEAD.size
    if begins > len(data):
        return None
    length = HEAD.unpack_from(data, at)[0]
    payload = data[begins : begins + length]
    return payload if len(payload) == length else None


def _decoded(payload: bytes, checksum: int) -> Record | None:
    if crc32(payload) != checksum:
        return None
    try:
        record = decode(payload)
    except DecodeError:
        return None
    return record if isinstance(record, Record) else None


def read_journal(path: Path) -> JournalReader:
    return JournalReader(path, [])
