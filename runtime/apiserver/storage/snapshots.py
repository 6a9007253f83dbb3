"""Snapshots: files with the content of a store at one revision.

A restored store continues at a much higher revision. So no client sees a revision that was used after the snapshot a
second time with other content, and a watch that continues from such a revision gets 410 (too old).

Source: etcdutl snapshot restore with --bump-revision and --mark-compacted.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from kcm.runtime.apiserver.storage.store import StoreUnusableError

SKIPPED = 1_000_000_000  # revisions, as etcd's documentation advises


def copy_store(connection: sqlite3.Connection, to: Path) -> None:
    """Copy the committed content into a new file with mode 0600.

    Raises sqlite3.Error, and OSError if the file exists.
    """
    os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        connection.execute("VACUUM INTO ?", (str(to),))
    except BaseException:
        to.unlink()
        raise


def skip_revisions(snapshot: Path, *, form: int) -> int:
    """Increase the revision of a snapshot by SKIPPED, for a server that starts from it. Return the former revision.

    form: the supported value of FORMAT
    Raises StoreUnusableError if the file is not a snapshot of this format, or is damaged.
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
