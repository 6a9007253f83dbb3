"""Snapshots of an embedded cluster: a copy of its database, without certificates, keys and tokens.

A running server has exclusive access to its database. It is therefore requested to write the snapshot into its own
directory, and the file is then moved to its destination.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import orjson

from kcm.runtime.apiserver.http.paths import SNAPSHOT
from kcm.runtime.apiserver.process.launch import STORE
from kcm.runtime.apiserver.storage.snapshots import copy_store, skip_revisions
from kcm.runtime.apiserver.storage.sqlite_store import FORMAT
from kcm.runtime.apiserver.storage.store import StoreUnusableError
from kcm.runtime.client.api import Request, Response
from kcm.runtime.process.files import (
    LOCK,
    DirectoryInUseError,
    UnsafeDirectoryError,
    refuse_foreign,
    sole_use,
    sync_directory,
)

Send = Callable[[Request], Response]


class SnapshotError(Exception):
    """A snapshot cannot be saved or restored. The text is one line for the user."""


def save(directory: Path, file: Path, connect: Callable[[], Send]) -> None:
    """Save a snapshot of the database in a directory to a new file. Raises SnapshotError.

    connect: returns a function that sends a request to the running server; called only if a server uses the directory
    """
    try:
        if os.path.lexists(file):
            raise SnapshotError(f"{file} exists already")
        if not (directory / STORE).exists():
            raise SnapshotError(f"{directory} contains no cluster")
        try:
            with sole_use(directory):
                made = directory / f"snapshot-{os.getpid()}"
                made.unlink(missing_ok=True)
                with contextlib.closing(sqlite3.connect(directory / STORE, isolation_level=None)) as connection:
                    copy_store(connection, made)
        except DirectoryInUseError:
            made = directory / _request_snapshot(connect())
        _move(made, file)
    except sqlite3.Error as err:
        raise SnapshotError(f"{directory / STORE}: {err}") from err
    except OSError as err:
        raise SnapshotError(f"cannot write {file}: {err.strerror or err}") from err


def _request_snapshot(send: Send) -> str:
    """Request a snapshot from the running server, and return the name of the file in its directory.

    Raises SnapshotError.
    """
    response = send(Request(method="POST", path=SNAPSHOT))
    try:
        fields = orjson.loads(response.body)
        if response.status == 200:
            return Path(str(fields["snapshot"])).name
        why = fields["message"]
    except (ValueError, KeyError, TypeError):
        why = response.error or f"status {response.status}"
    raise SnapshotError(f"the server did not write a snapshot: {why}")


def _move(made: Path, file: Path) -> None:
    """Move a file atomically and durably. If this fails, neither of the files remains.

    Raises SnapshotError if the destination exists, and OSError.
    """
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        try:
            os.link(made, temporary)
        except OSError:  # on another file system, or on one without hard links
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as to, made.open("rb") as source:
                shutil.copyfileobj(source, to, 1 << 20)
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        if os.path.lexists(file):
            raise SnapshotError(f"{file} exists already")
        temporary.rename(file)
        sync_directory(file.absolute().parent)
    finally:
        temporary.unlink(missing_ok=True)
        made.unlink(missing_ok=True)


def restore(file: Path, directory: Path) -> int:
    """Restore a snapshot to a directory, which must be empty or missing. A server can then be started there.

    Returns the revision (resourceVersion) of the snapshot. Raises SnapshotError.
    """
    try:
        if directory.exists() and any(found.name != LOCK for found in directory.iterdir()):
            raise SnapshotError(f"{directory} is not empty")
        with sole_use(directory):
            refuse_foreign(directory)
            return _restore(file, directory)
    except (DirectoryInUseError, UnsafeDirectoryError) as err:
        raise SnapshotError(str(err)) from err


def _restore(file: Path, directory: Path) -> int:
    temporary = directory / "restored"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as to, file.open("rb") as source:
            shutil.copyfileobj(source, to, 1 << 20)
        revision = skip_revisions(temporary, form=FORMAT)
        temporary.rename(directory / STORE)
        sync_directory(directory)
    except StoreUnusableError as err:
        raise SnapshotError(f"{file} is not a valid snapshot: {err}") from err
    except OSError as err:
        raise SnapshotError(f"cannot restore {file}: {err.strerror or err}") from err
    finally:
        temporary.unlink(missing_ok=True)
    return revision
