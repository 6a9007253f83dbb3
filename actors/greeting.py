"""What run-kcm tells people: how to reach the embedded cluster, and a live line on how it is doing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from protocols.resources import DEPLOYMENTS, PODS, REPLICASETS, REPLICATION_CONTROLLERS, Resource
from runtime.table import Table

SHOWN: tuple[tuple[Resource, str], ...] = (
    (DEPLOYMENTS, "deployments"),
    (REPLICASETS, "replica sets"),
    (REPLICATION_CONTROLLERS, "replication controllers"),
)


def greeting(*, url: str, kubeconfig: Path, nodes: int, zones: int, applied: list[str]) -> str:
    """A few lines; the export line can be copied as it is."""
    lines = [
        f"An API server of our own serves on {url}, with {nodes} hollow nodes in {zones} zones."
        if nodes
        else f"An API server of our own serves on {url}, without nodes.",
        *(f"Applied {what}." for what in applied),
        "To look at it, in another terminal:",
        "",
        f"    export KUBECONFIG={kubeconfig.resolve()}",
        "    kubectl get nodes",
        "",
        "Ctrl-C ends it; what it holds is kept for the next time.",
    ]
    return "\n".join(lines)


def summary(tables: Mapping[str, Table]) -> str:
    """One line: "2 pods (2 ready) · 1 replication controllers"."""
    parts = []
    pods = tables.get(PODS.id)
    if pods is not None and pods.synced:
        entries = pods.entries()
        ready = sum(1 for pod in entries if pod.facts.ready)
        parts.append(f"{len(entries)} pods ({ready} ready)")
    for resource, word in SHOWN:
        table = tables.get(resource.id)
        if table is not None and len(table):
            parts.append(f"{len(table)} {word}")
    return " · ".join(parts)


class LiveLine:
    """A line at the bottom of a terminal that is drawn anew in place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = ""

    def show(self, text: str) -> None:
        """Draw it if it has changed."""
        if text != self._shown:
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()
            self._shown = text

    def end(self) -> None:
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()
            self._shown = ""
