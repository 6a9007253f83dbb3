"""A store on disk: SQLite in WAL mode, synchronous=FULL, one commit for all waiting writes, on a thread of its own.

A change whose on_durable was called survives kill -9 and, if the disk honours fsync, a power cut. Files that were
deleted while they are open take writes without an error, so each commit looks whether they are still there before it is
acknowledged. The file holds secrets, so its mode is 0600.

Where there is no room for a commit, or an object is too large for SQLite, nothing of it is written, nor of those behind
it, and the owner takes them back; the next one may succeed. Free pages are given back to the file system bit by bit,
and the write-ahead log is bounded.
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
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, Change, Stored, StoreLostError, StoreUnusableError
from kcm.runtime.process.files import identity

FORMAT = 1

# With rowids the bodies are appended, and only the small index is written at random.
_SCHEMA = """
CREATE TABLE objects (
    storage TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (storage, key)
);
CREATE TABLE newest (revision INTEGER NOT NULL);
INSERT INTO newest VALUES (0);
"""

WAL_KEPT = 16 * 1024 * 1024  # bytes of the log that stay once they are in the file
# Pages of 4 kB. Some stay free for what comes next; more are given back, a few with each commit, as that takes time.
FEWEST_FREE, FREE_PART, GIVEN_BACK = 1024, 4, 256
IDLE = 5.0  # seconds between two gifts where nothing is committed
ENOUGH, MOST_TURNS = 16, 8  # commits that are handed over at once; turns of the server's that others are waited for
ROWS = 64  # in one statement: each gives the interpreter away, and has to wait until it is given back

_Commit = tuple[Sequence[Change], Callable[[], None]]
_HandedOver = tuple[int, list[_Commit]]  # with the era, which ends when commits are refused


class _Copy(NamedTuple):
    """done: is called on the server's thread, with what went wrong."""

    to: Path
    done: Callable[[Exception | None], None]


class SqliteStore:
    """Durable writes for one server. post: run this on the server's thread, soon; may be called from any thread.

    soon: the same, from the server's thread, after what else has come was begun. What is committed meanwhile is handed
    over together, once a turn brings nothing more: the store's thread is woken once, does not compete with the server's
    for the interpreter in the middle of its work, and syncs once for all of it.

    refused: there was no room, or an object was too large (is_too_large). It is called on the server's thread: the
    on_durable of all commits that are under way never comes, nothing of them is written, and the server has to take
    them back before it commits anything else.

    failed: a commit did not succeed for another reason. It is called on the store's thread, nothing after that commit
    is written, and its on_durable never comes: the process has to end, and to start again from what is on disk. A
    StoreLostError says that this is gone.
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
        """synced: False acknowledges what the system has and the disk may not: it survives kill -9, and no power cut.

        Raises StoreUnusableError.
        """
        self._path, self._post, self._soon = path, post, soon
        self._refused, self._failed = refused, failed
        self._gathered: list[_Commit] = []  # on the server's thread, as the era
        self._turns, self._last_turn = 0, 0  # how often more was waited for, and how many there were then
        self._era = 0
        self._refused_era = -1  # on the store's thread: what comes of it was built on what is not there
        self._is_shrinking = False  # likewise: there are pages to be given back
        self._may_have_freed = True  # likewise: pages, since they were counted
        self._commits: queue.SimpleQueue[_HandedOver | _Copy | None] = queue.SimpleQueue()
        self._connection = _open(path, synced=synced)
        # The write-ahead log is there from the first transaction until the store is closed.
        self._files = {file: identity(file) for file in (path, path.with_name(f"{path.name}-wal"))}
        self._thread = threading.Thread(target=self._write, name="sqlite-store", daemon=True)
        self._thread.start()

    def revision(self) -> int:
        """Raises StoreUnusableError."""
        try:
            row = self._connection.execute("SELECT revision FROM newest").fetchone()
        except sqlite3.Error as err:
            raise StoreUnusableError(f"{self._path}: {err}") from err
        if row is None or not isinstance(row[0], int):
            raise StoreUnusableError(f"{self._path}: it has no revision")
        return row[0]

    def load(self) -> Iterator[Stored]:
        """Raises StoreUnusableError, at any object."""
        try:
            rows = self._connection.execute("SELECT storage, key, revision, body FROM objects ORDER BY storage, key")
            for row in rows:
                yield Stored(*row)
        except sqlite3.Error as err:
            raise StoreUnusableError(f"{self._path}: {err}") from err

    def commit(self, changes: Sequence[Change], on_durable: Callable[[], None]) -> None:
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
        """Write all that was committed until now into a new file. Later commits wait meanwhile.

        done: is called on the server's thread, with what went wrong or None.
        """
        self._hand_over()
        self._commits.put(_Copy(to, done))

    def _take_back(self, error: Exception) -> None:
        self._gathered.clear()
        self._era += 1
        self._refused(error)

    def lost(self) -> StoreLostError | None:
        """None while its files are where they were opened. May be called from any thread."""
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
            copies = [one for one in waiting if isinstance(one, _Copy)]
            handed_over = [
                one for one in waiting if one is not None and not isinstance(one, _Copy) and one[0] != self._refused_era
            ]
            commits = [commit for _, these in handed_over for commit in these]
            try:
                if commits:
                    self._write_or_refuse(handed_over[-1][0], commits)
                for copy in copies:
                    self._post(partial(copy.done, self._copied(copy.to)))
                if self._may_have_freed:
                    self._give_back()
            except Exception as err:  # whatever it is, nothing after it would be durable
                self._failed(err)
                return

    def _copied(self, to: Path) -> Exception | None:
        try:
            copy_store(self._connection, to)
        except (sqlite3.Error, OSError) as err:
            return err
        return None

    def _waiting(self) -> list[_HandedOver | _Copy | None]:
        """What is to be done, at least one; nothing if there are pages to be given back meanwhile."""
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
            with contextlib.suppress(sqlite3.Error):  # the log's own room can be used again then, by deletions
                self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            self._refused_era = era
            self._post(partial(self._take_back, err))
            return
        lost = self.lost()
        if lost is not None:
            raise lost
        self._post(partial(_tell, commits))

    def _free_pages(self) -> int:
        """How many are to be given back."""
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        if free <= FEWEST_FREE:
            return 0
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        return int(max(0, free - max(FEWEST_FREE, pages // FREE_PART)))

    def _give_back(self) -> None:
        free = self._free_pages()
        self._is_shrinking = self._may_have_freed = free > GIVEN_BACK
        if free:
            with contextlib.suppress(sqlite3.OperationalError):  # moving pages takes room, too
                # One page a step, without a row: `execute` would make only the first.
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
    """The disk, or what the user may have of it: a write was refused, and nothing was synced that failed."""
    return getattr(err, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)


def is_too_large(err: Exception) -> bool:
    """Report whether an object, and not the disk, is why a commit was refused."""
    return getattr(err, "sqlite_errorcode", None) == sqlite3.SQLITE_TOOBIG


def _tell(commits: Sequence[_Commit]) -> None:
    call_all(on_durable for _, on_durable in commits)


def _open(path: Path, *, synced: bool) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        # Used by two threads, one after the other: loading is over before the first commit.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        # Exclusive: a second server on this file fails to open it, and the WAL needs no shared memory.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # of a new file
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
    """Files of earlier versions only grew. This writes such a one anew, once."""
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if mode == 0:
        with contextlib.suppress(sqlite3.OperationalError):  # no room for that now
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("VACUUM")
