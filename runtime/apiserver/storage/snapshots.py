"""Snapshots of a store: a file that holds what the store held at one revision, and nothing of what it is done by.

A restored store goes on at a revision far above: whoever saw versions that came after the snapshot sees none of them
again, and watches that go on from one are told that it is too old (410). Source for that: etcdutl snapshot restore with
--bump-revision and --mark-compacted.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from kcm.runtime.apiserver.storage.store import StoreUnusableError

SNAPSHOT_PATH = "/kcm/snapshot"  # of the server; POST has one written
SKIPPED = 1_000_000_000  # revisions, as etcd's documentation advises


def copy_store(connection: sqlite3.Connection, to: Path) -> None:
    """Write what is committed into a new file, mode 0600. Raises sqlite3.Error, and OSError as where it exists."""
    os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        connection.execute("VACUUM INTO ?", (str(to),))
    except BaseException:
        to.unlink()
        raise


def skip_revisions(snapshot: Path, *, form: int) -> int:
    """Make a file with the content of a snapshot what a server can go on from; returns the snapshot's revision.

    Raises StoreUnusableError on what is no snapshot of this format.
    """
    try:
        with contextlib.closing(sqlite3.connect(snapshot, isolation_level=None)) as connection:
            (found,) = connection.execute("PRAGMA user_version").fetchone()
            if found != form:
                raise StoreUnusableError(f"it is of format {found}, this version reads format {form}")
            (damage,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if damage != "ok":
                raise StoreUnusableError(f"it is damaged: {damage}")
            row = connection.execute("SELECT revision FROM newest").fetchone()
            if row is None or not isinstance(row[0], int):
                raise StoreUnusableError("it has no revision")
            connection.execute("UPDATE newest SET revision = revision + ?", (SKIPPED,))
            return row[0]
    except sqlite3.Error as err:
        raise StoreUnusableError(str(err)) from err
