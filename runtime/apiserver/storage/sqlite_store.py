"""A store on disk: SQLite in WAL mode, synchronous=FULL, one commit for all waiting writes, on a thread of its own.

A change whose on_durable was called survives kill -9 and, if the disk honours fsync, a power cut. Files that were
deleted while they are open take writes without an error, so each commit looks whether they are still there before it is
acknowledged. The file holds secrets, so its mode is 0600.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from runtime.apiserver.storage.calling import call_all
from runtime.apiserver.storage.store import DELETED, Change, Stored, StoreLostError, StoreUnusableError
from runtime.process.files import identity

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

_Commit = tuple[Sequence[Change], Callable[[], None]]


class SqliteStore:
    """Durable writes for one server. post: run this on the server's thread, soon; may be called from any thread.

    soon: the same, from the server's thread. What it commits until then is handed over together: the store's thread is
    woken once, and does not compete with the server's for the interpreter in the middle of its work.

    failed: a commit did not succeed. It is called on the store's thread, nothing after that commit is written, and its
    on_durable never comes: the process has to end, and to start again from what is on disk. A StoreLostError says that
    this is gone.
    """

    def __init__(
        self,
        path: Path,
        *,
        post: Callable[[Callable[[], None]], None],
        soon: Callable[[Callable[[], None]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Raises StoreUnusableError."""
        self._path, self._post, self._soon, self._failed = path, post, soon, failed
        self._gathered: list[_Commit] = []  # on the server's thread
        self._commits: queue.SimpleQueue[list[_Commit] | None] = queue.SimpleQueue()
        self._connection = _open(path)
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
            self._soon(self._hand_over)

    def _hand_over(self) -> None:
        if self._gathered:
            commits, self._gathered = self._gathered, []
            self._commits.put(commits)

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
            waiting = [self._commits.get()]
            while not self._commits.empty():
                waiting.append(self._commits.get())
            last = None in waiting
            commits = [commit for handed_over in waiting if handed_over is not None for commit in handed_over]
            if not commits:
                return
            try:
                self._write_batch(commits)
                lost = self.lost()
                if lost is not None:
                    raise lost
                self._post(partial(_tell, commits))
            except Exception as err:  # whatever it is, nothing after it would be durable
                self._failed(err)
                return

    def _write_batch(self, commits: Sequence[_Commit]) -> None:
        # Only the last state of each object matters: the order inside a commit is not observable.
        changes = {(change.storage, change.key): change for changes, _ in commits for change in changes}
        revision = commits[-1][0][-1].revision
        gone = [key for key, change in changes.items() if change.type == DELETED]
        kept = [(*key, change.revision, change.raw) for key, change in changes.items() if change.type != DELETED]
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", kept)
        connection.executemany("DELETE FROM objects WHERE storage = ? AND key = ?", gone)
        connection.execute("UPDATE newest SET revision = ?", (revision,))
        connection.execute("COMMIT")


def _tell(commits: Sequence[_Commit]) -> None:
    call_all(on_durable for _, on_durable in commits)


def _open(path: Path) -> sqlite3.Connection:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        # Used by two threads, one after the other: loading is over before the first commit.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        # Exclusive: a second server on this file fails to open it, and the WAL needs no shared memory.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute("COMMIT")
        if version == 0:
            connection.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version={FORMAT};COMMIT;")
        elif version != FORMAT:
            raise StoreUnusableError(f"{path}: written in format {version}, this version reads format {FORMAT}")
    except sqlite3.OperationalError as err:
        why = "another process has it open" if err.sqlite_errorcode == sqlite3.SQLITE_BUSY else str(err)
        raise StoreUnusableError(f"{path}: {why}") from err
    except (OSError, sqlite3.Error) as err:
        raise StoreUnusableError(f"{path}: {err}") from err
    return connection
