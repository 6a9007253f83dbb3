"""Store on disk: SQLite in WAL mode with synchronous=FULL, on a thread of its own.

All waiting writes share one SQLite transaction. After on_durable was called, a change survives kill -9 and, if the disk
honours fsync, a power failure. A file that was deleted while it is open accepts writes without an error, so each commit
checks that the files still exist before it is acknowledged. The file contains secrets, so its mode is 0600.

If there is no space for a commit, or an object is too large for SQLite, neither this commit nor the commits queued
behind it are written, and the owner of the store reverts them; a later commit may succeed. Free pages are returned to
the file system in small steps, and the size of the write-ahead log is bounded.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from kcm.runtime.apiserver.storage.callbacks import call_all
from kcm.runtime.apiserver.storage.snapshots import copy_store
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange, Stored, StoreLostError, StoreUnusableError
from kcm.runtime.process.files import identity

FORMAT = 1

# A table with rowids: bodies are appended, and only the small index is written in random order.
_SCHEMA = """
CREATE TABLE objects (
    storage TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (storage, key)
);
CREATE TABLE newest (revision INTEGER NOT NULL);
INSERT INTO newest VALUES (0);
"""

WAL_KEPT = 16 * 1024 * 1024  # bytes to which the log is truncated after a checkpoint
# Pages of 4 kB. Some stay free for later writes. The others are returned in small steps, because moving them takes
# time.
FEWEST_FREE, FREE_PART, GIVEN_BACK = 1024, 4, 256
IDLE = 5.0  # seconds between two steps that return pages while nothing is committed
ENOUGH = 16  # commits that are passed to the store's thread without waiting for more
MOST_TURNS = 8  # turns of the event loop that the store waits for further commits
ROWS = 64  # rows in one statement: each statement releases the interpreter's lock and has to acquire it again

_Commit = tuple[Sequence[StoreChange], Callable[[], None]]
_HandedOver = tuple[int, list[_Commit]]  # era and commits; a new era begins when commits are refused


class _Copy(NamedTuple):
    """Request to write a snapshot."""

    to: Path
    done: Callable[[Exception | None], None]  # called on the server's thread, with the error or None


class SqliteStore:
    """Store of one server in an SQLite file.

    Commits are collected over several turns of the event loop, and passed to the store's thread together as soon as a
    turn adds no further commit. So the thread is woken once, syncs once for all of them, and does not compete with the
    server's thread for the interpreter lock in the middle of its work.
    """

    def __init__(
        self,
        path: Path,
        *,
        post: Callable[[Callable[[], None]], None],
        soon: Callable[[Callable[[], None]], None],
        refused: Callable[[Exception], None],
        failed: Callable[[Exception], None],
        synced: bool = True,
    ) -> None:
        """Open or create the file. Raises StoreUnusableError.

        post: runs a function on the server's thread soon; may be called from any thread
        soon: runs a function on the server's thread, in a later turn of its event loop; called from that thread
        refused: called on the server's thread if there was no space, or an object was too large (is_too_large). No
          pending commit is written, and on_durable is never called for them. The server must revert them before it
          commits anything else.
        failed: called on the store's thread if a commit failed for another reason. No later commit is written, and
          on_durable is never called. The process must end and start again from the file; after a StoreLostError the
          file no longer exists.
        synced: False acknowledges a write before it is on disk: the write survives kill -9, but not a power failure
        """
        self._path, self._post, self._soon = path, post, soon
        self._refused, self._failed = refused, failed
        self._gathered: list[_Commit] = []  # used on the server's thread only, as is the era
        self._turns, self._last_turn = 0, 0  # turns waited for further commits, and their number at the last turn
        self._era = 0
        # Used on the store's thread:
        self._refused_era = -1  # commits of this era are based on refused ones, and are dropped
        self._is_shrinking = False  # whether there are pages to return to the file system
        self._may_have_freed = True  # whether pages may have become free since they were last counted
        self._commits: queue.SimpleQueue[_HandedOver | _Copy | None] = queue.SimpleQueue()
        self._connection = _open(path, synced=synced)
        # The write-ahead log exists from the first transaction until the store is closed.
        self._files = {file: identity(file) for file in (path, path.with_name(f"{path.name}-wal"))}
        self._thread = threading.Thread(target=self._write, name="sqlite-store", daemon=True)
        self._thread.start()

    def revision(self) -> int:
        """Return the revision of the last commit in the file. Raises StoreUnusableError."""
        try:
            row = self._connection.execute("SELECT revision FROM newest").fetchone()
        except sqlite3.Error as err:
            raise StoreUnusableError(f"{self._path}: {err}") from err
        if row is None or not isinstance(row[0], int):
            raise StoreUnusableError(f"{self._path}: it has no revision")
        return row[0]

    def load(self) -> Iterator[Stored]:
        """Yield every stored object. Raises StoreUnusableError if the file cannot be read."""
        try:
            rows = self._connection.execute("SELECT storage, key, revision, body FROM objects ORDER BY storage, key")
            for row in rows:
                yield Stored(*row)
        except sqlite3.Error as err:
            raise StoreUnusableError(f"{self._path}: {err}") from err

    def commit(self, changes: Sequence[StoreChange], on_durable: Callable[[], None]) -> None:
        self._gathered.append((changes, on_durable))
        if len(self._gathered) == 1:
            self._turns = self._last_turn = 0
            self._soon(self._gather)

    def _gather(self) -> None:
        there = len(self._gathered)
        if self._last_turn < there < ENOUGH and self._turns < MOST_TURNS:
            self._turns, self._last_turn = self._turns + 1, there
            self._soon(self._gather)
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._gathered:
            commits, self._gathered = self._gathered, []
            self._commits.put((self._era, commits))

    def copy(self, to: Path, done: Callable[[Exception | None], None]) -> None:
        """Write a snapshot that contains every commit so far. Later commits wait until the snapshot is written.

        to: path of the snapshot, which must not exist
        done: called on the server's thread, with the error or None
        """
        self._hand_over()
        self._commits.put(_Copy(to, done))

    def _discard_pending(self, error: Exception) -> None:
        self._gathered.clear()
        self._era += 1
        self._refused(error)

    def lost(self) -> StoreLostError | None:
        """Return an error if one of the store's files was deleted, moved or replaced, otherwise None.

        May be called from any thread.
        """
        for file, opened in self._files.items():
            if identity(file) != opened:
                return StoreLostError(f"{file} was deleted, moved or replaced while the server had it open")
        return None

    def close(self) -> None:
        self._hand_over()
        self._commits.put(None)
        self._thread.join()
        self._connection.close()

    def _write(self) -> None:
        last = False
        while not last:
            waiting = self._waiting()
            last = None in waiting
            copies = [job for job in waiting if isinstance(job, _Copy)]
            handed_over = [
                job for job in waiting if job is not None and not isinstance(job, _Copy) and job[0] != self._refused_era
            ]
            commits = [commit for _, these in handed_over for commit in these]
            try:
                if commits:
                    self._write_or_refuse(handed_over[-1][0], commits)
                for copy in copies:
                    self._post(partial(copy.done, self._copied(copy.to)))
                if self._may_have_freed:
                    self._give_back()
            except Exception as err:  # after an error, later commits would not be durable
                self._failed(err)
                return

    def _copied(self, to: Path) -> Exception | None:
        try:
            copy_store(self._connection, to)
        except (sqlite3.Error, OSError) as err:
            return err
        return None

    def _waiting(self) -> list[_HandedOver | _Copy | None]:
        """Wait for work and return all of it.

        While there are pages to return, return an empty list after IDLE seconds.
        """
        waiting: list[_HandedOver | _Copy | None] = []
        with contextlib.suppress(queue.Empty):
            waiting.append(self._commits.get(timeout=IDLE if self._is_shrinking else None))
            while True:
                waiting.append(self._commits.get_nowait())
        return waiting

    def _write_or_refuse(self, era: int, commits: Sequence[_Commit]) -> None:
        try:
            self._write_batch(commits)
        except sqlite3.Error as err:
            if not _is_want_of_room(err) and not is_too_large(err):
                raise
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            with contextlib.suppress(sqlite3.Error):  # frees the space of the log, which deletions need
                self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            self._refused_era = era
            self._post(partial(self._discard_pending, err))
            return
        lost = self.lost()
        if lost is not None:
            raise lost
        self._post(partial(_tell, commits))

    def _free_pages(self) -> int:
        """Return the number of pages to return to the file system."""
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        if free <= FEWEST_FREE:
            return 0
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        return int(max(0, free - max(FEWEST_FREE, pages // FREE_PART)))

    def _give_back(self) -> None:
        free = self._free_pages()
        self._is_shrinking = self._may_have_freed = free > GIVEN_BACK
        if free:
            with contextlib.suppress(sqlite3.OperationalError):  # moving pages needs free space as well
                # The pragma moves one page per step and returns no row: `execute` would take only the first step.
                self._connection.executescript(f"PRAGMA incremental_vacuum({GIVEN_BACK})")

    def _write_batch(self, commits: Sequence[_Commit]) -> None:
        # Only the last state of each object matters: the order inside a commit is not observable.
        changes = {(change.storage, change.key): change for changes, _ in commits for change in changes}
        self._may_have_freed |= any(change.type != ADDED for change in changes.values())
        revision = commits[-1][0][-1].revision
        gone = [key for key, change in changes.items() if change.type == DELETED]
        kept = [(*key, change.revision, change.raw) for key, change in changes.items() if change.type != DELETED]
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        for first in range(0, len(kept), ROWS):
            rows = kept[first : first + ROWS]
            connection.execute(_insertion(len(rows)), [value for row in rows for value in row])
        connection.executemany("DELETE FROM objects WHERE storage = ? AND key = ?", gone)
        connection.execute("UPDATE newest SET revision = ?", (revision,))
        connection.execute("COMMIT")


@lru_cache(maxsize=ROWS)
def _insertion(rows: int) -> str:
    return f"INSERT OR REPLACE INTO objects VALUES {', '.join(['(?, ?, ?, ?)'] * rows)}"


def _is_want_of_room(err: sqlite3.Error) -> bool:
    """Report whether the disk or the user's quota is full.

    In that case a write was refused, but no fsync has failed.
    """
    return getattr(err, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)


def is_too_large(err: Exception) -> bool:
    """Report whether SQLite refused a commit because an object exceeds its size limit."""
    return getattr(err, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG


def _tell(commits: Sequence[_Commit]) -> None:
    call_all(on_durable for _, on_durable in commits)


def _open(path: Path, *, synced: bool) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        # Used by two threads, but not concurrently: loading ends before the first commit.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        # Exclusive: a second server on this file fails to open it, and the WAL needs no shared memory.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # has an effect on a new file only
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={'FULL' if synced else 'OFF'}")
        connection.execute(f"PRAGMA journal_size_limit={WAL_KEPT}")
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute("COMMIT")
        if version == 0:
            connection.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version={FORMAT};COMMIT;")
        elif version != FORMAT:
            raise StoreUnusableError(f"{path}: written in format {version}, this version reads format {FORMAT}")
        _make_shrinkable(connection)
    except sqlite3.OperationalError as err:
        why = "another process has it open" if err.sqlite_errorcode == sqlite3.SQLITE_BUSY else str(err)
        raise StoreUnusableError(f"{path}: {why}") from err
    except (OSError, sqlite3.Error) as err:
        raise StoreUnusableError(f"{path}: {err}") from err
    return connection


def _make_shrinkable(connection: sqlite3.Connection) -> None:
    """Enable incremental vacuum in a file of an earlier version, by rewriting the file.

    Without it a file never shrinks.
    """
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if mode == 0:
        with contextlib.suppress(sqlite3.OperationalError):  # there may be no space for the copy now
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("VACUUM")
