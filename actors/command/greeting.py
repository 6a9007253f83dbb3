"""Greeting after the start of the embedded cluster, and a live status line, on the terminal of run-kcm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

import orjson

from kcm.actors.engine.vitals import ElectorVitals
from kcm.protocols.integers import counted
from kcm.protocols.nodes import node_facts
from kcm.protocols.objects import Object
from kcm.protocols.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, REPLICATION_CONTROLLERS, Resource
from kcm.runtime.client.api import Request, Response
from kcm.runtime.process.standard_streams import ERASE, is_terminal, write_or_forget
from kcm.runtime.tables.table import Table

Ask = Callable[[Request], Response]
SHOWN: tuple[tuple[Resource, str], ...] = (
    (DEPLOYMENTS, "deployment"),
    (REPLICASETS, "replica set"),
    (REPLICATION_CONTROLLERS, "replication controller"),
)


def greeting(
    *,
    url: str,
    kubeconfig: Path,
    nodes: int,
    zones: int,
    applied: list[str],
    is_kept: bool = True,
    console: str = "",
) -> str:
    """Return the text that is shown once the embedded cluster can be used. Its export line can be copied.

    is_kept: the cluster is stored for the next run.
    console: link that opens the web console; "" without one.
    """
    what = "without nodes"
    if nodes:
        what = f"with {counted(nodes, 'hollow node')} in {counted(min(nodes, zones), 'zone')}"
    lines = [
        f"The embedded cluster serves on {url}, {what}.",
        *(f"Applied {name}." for name in applied),
        "To use it, in another terminal:",
        "",
        f"    export KUBECONFIG={kubeconfig.resolve()}",
        "    kubectl get nodes",
        "",
        *(
            ("To watch it in a browser, with the rights of an administrator:", "", f"    {console}", "")
            if console
            else ()
        ),
        f"Press Ctrl-C to stop. The cluster is {'kept for the next run' if is_kept else 'deleted then'}.",
    ]
    return "\n".join(lines)


def node_summary(tables: Mapping[str, Table]) -> str:
    """Return "3 nodes (2 ready)", or "" while no node is known."""
    nodes = tables.get(NODES.id)
    if nodes is None or not nodes.synced or not len(nodes):
        return ""
    entries = nodes.entries()
    ready = sum(1 for node in entries if node.facts.ready == "True")
    return f"{counted(len(entries), 'node')} ({ready} ready)"


def summary(tables: Mapping[str, Table]) -> str:
    """Return the workloads in one line: "2 pods (2 ready) · 1 replication controller"."""
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


def standing_by(elector: ElectorVitals | None, *, now: float) -> str:
    """Return what this process waits for before it may lead; "" while it leads. now: monotonic."""
    if elector is None or elector.leading:
        return ""
    if elector.failure:
        return f"waiting for the Lease: {elector.failure}"
    if not elector.holder:
        return "waiting for the Lease"
    left = max(0.0, elector.free_at - now)
    return f"standing by: the Lease expires in {left:.0f} s unless renewed; held by {elector.holder}"


class Welcome:
    """Shows the greeting once: when the nodes are ready, or after PATIENCE seconds without that."""

    ASK_EVERY = 0.5  # seconds
    PATIENCE = 60.0

    def __init__(
        self, text: str, *, nodes: int, ask: Callable[[Request], Response], say: Callable[[str], None]
    ) -> None:
        self._text, self._nodes, self._ask, self._say = text, nodes, ask, say
        self._begun: float | None = None
        self._ready, self._next = 0, 0.0
        self._said = self._is_complete = False

    def look(self, now: float) -> str:
        """Return why the cluster is not ready, "" once the nodes are ready. Call this a few times a second.

        now: monotonic seconds.
        """
        if self._is_complete:
            return ""
        self._begun = now if self._begun is None else self._begun
        if self._nodes and now >= self._next:
            self._next = now + self.ASK_EVERY
            self._ready = ready_nodes(self._ask)
        self._is_complete = self._ready >= self._nodes
        if not self._said and (self._is_complete or now >= self._begun + self.PATIENCE):
            self._said = True
            self._say(self._text)
        return "" if self._is_complete else f"{self._ready} of {counted(self._nodes, 'node')} ready"


def ready_nodes(ask: Ask) -> int:
    """Return the number of ready nodes, 0 if the server does not respond."""
    response = ask(Request(method="GET", path="/api/v1/nodes"))
    if response.status != 200:
        return 0
    return sum(is_ready(node) for node in orjson.loads(response.body)["items"])


def is_ready(node: Object) -> bool:
    try:
        return node_facts(node).ready == "True"
    except ValueError:  # a node with an invalid status, which the controllers log
        return False


class LiveLine:
    """Status line at the bottom of a terminal, redrawn in place. On other outputs only permanent lines are written.

    The cursor stays at its beginning, so that log lines overwrite it; it is then drawn again below them.
    live: the line is shown; otherwise callers need not compute its text.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.live = is_terminal(stream)
        self._shown = False

    def show(self, text: str) -> None:
        """Draw the line. Call this a few times a second, even with the same text: log lines may have overwritten it."""
        if self.live:
            import shutil  # heavy: libraries of archives

            columns = shutil.get_terminal_size().columns
            write_or_forget(self._stream, f"{ERASE}{text[: columns - 1]}\r")
            self._shown = True

    def say(self, text: str) -> None:
        """Write permanent lines."""
        self.end()
        write_or_forget(self._stream, f"{text}\n")

    def end(self) -> None:
        """Erase the line."""
        if self._shown:
            write_or_forget(self._stream, ERASE)
            self._shown = False
