"""What run-kcm tells people: how to reach the embedded cluster, and a live line on how it is doing."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from protocols.resources import DEPLOYMENTS, PODS, REPLICASETS, REPLICATION_CONTROLLERS, Resource
from runtime.process.standard_streams import write_or_forget
from runtime.tables.table import Table

SHOWN: tuple[tuple[Resource, str], ...] = (
    (DEPLOYMENTS, "deployment"),
    (REPLICASETS, "replica set"),
    (REPLICATION_CONTROLLERS, "replication controller"),
)


def greeting(*, url: str, kubeconfig: Path, nodes: int, zones: int, applied: list[str]) -> str:
    """A few lines; the export line can be copied as it is."""
    what = "without nodes"
    if nodes:
        what = f"with {counted(nodes, 'hollow node')} in {counted(min(nodes, zones), 'zone')}"
    lines = [
        f"An API server of our own serves on {url}, {what}.",
        *(f"Applied {what}." for what in applied),
        "To look at it, in another terminal:",
        "",
        f"    export KUBECONFIG={kubeconfig.resolve()}",
        "    kubectl get nodes",
        "",
        "Ctrl-C ends it; what it holds is kept for the next time.",
    ]
    return "\n".join(lines)


def counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def summary(tables: Mapping[str, Table]) -> str:
    """One line: "2 pods (2 ready) · 1 replication controller"."""
    parts = []
    pods = tables.get(PODS.id)
    if pods is not None and pods.synced:
        entries = pods.entries()
        ready = sum(1 for pod in entries if pod.facts.ready)
        parts.append(f"{counted(len(entries), 'pod')} ({ready} ready)")
    for resource, word in SHOWN:
        table = tables.get(resource.id)
        if table is not None and len(table):
            parts.append(counted(len(table), word))
    return " · ".join(parts)


class LiveLine:
    """A line at the bottom of a terminal that is drawn anew in place.

    The cursor waits at its beginning, so that what anybody logs goes over it, and it is drawn again below that.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = False

    def show(self, text: str) -> None:
        """To be called again and again, whether or not the text has changed: what was logged has taken its place."""
        columns = shutil.get_terminal_size().columns
        write_or_forget(self._stream, f"\x1b[K{text[: columns - 1]}\r")
        self._shown = True

    def end(self) -> None:
        """Leave nothing of it."""
        if self._shown:
            write_or_forget(self._stream, "\x1b[K")
            self._shown = False
