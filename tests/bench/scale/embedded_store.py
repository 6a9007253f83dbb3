"""Databases of the embedded API server with the objects of a Population."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from kcm.runtime.apiserver.process.launch import STORE
from tests.bench.processes import Cluster, embedded_cluster, our_manager
from tests.bench.scale.population import (
    NAMESPACE,
    ORIGINALS,
    READY_WITHIN,
    Copy,
    Population,
    copies,
    create_prototype,
)

ROWS = 10_000  # written by one statement


@contextmanager
def server(directory: Path) -> Iterator[Cluster]:
    """Run a server on a directory, with all default admission plugins."""
    with embedded_cluster(disabled=(), directory=directory, ready_within=READY_WITHIN) as cluster:
        yield cluster


def make_prototype(directory: Path) -> None:
    """Let a manager and a hollow node create one of each object in a new server directory."""
    with server(directory) as cluster:
        create_prototype(cluster, our_manager)


def populate(prototype: Path, directory: Path, population: Population) -> None:
    """Create the directory of a server with the objects of a population. prototype: see make_prototype."""
    shutil.copytree(prototype, directory, ignore=shutil.ignore_patterns("*.sock"))
    with closing(sqlite3.connect(directory / STORE, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        originals = dict(_take_originals(connection))
        (revision,) = connection.execute("SELECT revision FROM newest").fetchone()
        rows = _rows(copies(originals, population), revision)
        while batch := [*islice(rows, ROWS)]:
            connection.executemany("INSERT INTO objects VALUES (?, ?, ?, ?)", batch)
            revision = batch[-1][2]
        connection.execute("UPDATE newest SET revision = ?", (revision,))
        connection.execute("COMMIT")


def _take_originals(connection: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
    """Remove the copied objects and their namespace from the store. Yield their storages and bodies."""
    for storage, key in ORIGINALS:
        where = "FROM objects WHERE storage = ? AND key LIKE ?"
        row = connection.execute(f"SELECT body {where}", (storage, f"{key}%")).fetchone()
        connection.execute(f"DELETE {where}", (storage, f"{key}%"))
        if row is not None:
            yield storage, bytes(row[0])
    connection.execute("DELETE FROM objects WHERE key LIKE ?", (f"{NAMESPACE}/%",))


def _rows(objects: Iterable[Copy], revision: int) -> Iterator[tuple[str, str, int, bytes]]:
    """Yield a row for each object. revision: of the newest object so far"""
    for number, (storage, key, body) in enumerate(objects, revision + 1):
        version = b'"resourceVersion":"%d"' % number
        yield storage, key, number, re.sub(rb'"resourceVersion":"\d+"', version, body, count=1)
