"""Fault board of the embedded cluster: silent nodes and zones, cut watches, refused writes, and their undoing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kcm.actors.console.cluster import is_silent
from kcm.actors.faults.writes import silence
from kcm.protocols.nodes import NodeFacts
from kcm.protocols.resources import NODES
from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.switches import SwitchedTransport
from kcm.runtime.serving.console.pages import RefusedError
from kcm.runtime.tables.entry import Entry
from kcm.runtime.tables.table import Table

Send = Callable[[Request], Response]
MOST_NODES = 1000  # rows, and nodes that one action changes


class FaultBoard:
    """Faults that can be switched on and off. A topic of the console, and its action."""

    def __init__(self, tables: Mapping[str, Table], send: Send, switches: SwitchedTransport) -> None:
        """Create the board. send: sends a request that no fault concerns."""
        self._tables, self._send, self._switches = tables, send, switches

    def sample(self) -> dict[str, Any]:
        """Return the rows "writes", "watch/PLURAL", "zone/NAME" and "node/NAME"."""
        switches = self._switches
        rows: dict[str, Any] = {"writes": {"kind": "writes", "name": "", "on": switches.refuses_writes}}
        for plural in switches.watched:
            rows[f"watch/{plural}"] = {"kind": "watch", "name": plural, "on": plural in switches.cut}
        zones: dict[str, list[int]] = {}
        for entry in self._nodes()[:MOST_NODES]:
            facts: NodeFacts = entry.facts
            silent = is_silent(entry)
            rows[f"node/{entry.key}"] = {
                "kind": "node",
                "name": entry.key,
                "zone": facts.topology_zone,
                "ready": facts.ready or "Unknown",
                "on": silent,
            }
            counts = zones.setdefault(facts.topology_zone, [0, 0])
            counts[0] += 1
            counts[1] += silent
        for zone, (nodes, silent_nodes) in zones.items():
            row = {"kind": "zone", "name": zone, "nodes": nodes, "silent": silent_nodes, "on": silent_nodes == nodes}
            rows[f"zone/{zone}"] = row
        return rows

    def act(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Switch a fault. body: {"fault": "node", "zone", "watch", "writes" or "all", "name": …, "on": …}.

        Raises ValueError, LookupError, RefusedError.
        """
        fault, name, on = body.get("fault"), body.get("name", ""), body.get("on")
        if not isinstance(fault, str) or not isinstance(name, str) or not isinstance(on, bool):
            raise ValueError('"fault" and "name" are texts, and "on" is true or false')
        match fault:
            case "writes":
                self._switches.refuse_writes(on=on)
                return _done(f"Writes are {'refused' if on else 'accepted again'}.")
            case "watch":
                if name not in self._switches.watched:
                    raise LookupError(f"{name!r} is not watched")
                self._switches.cut_watches(name, on=on)
                return _done(f"Watches of {name} are {'cut' if on else 'allowed again'}.")
            case "node":
                nodes = [entry for entry in self._nodes() if entry.key == name]
                return self._silence(nodes, f"node {name!r}", on=on)
            case "zone":
                nodes = [entry for entry in self._nodes() if entry.facts.topology_zone == name]
                return self._silence(nodes, f"zone {name!r}", on=on)
            case "all" if not on:
                self._switches.refuse_writes(on=False)
                for plural in self._switches.cut:
                    self._switches.cut_watches(plural, on=False)
                silent = [entry for entry in self._nodes() if is_silent(entry)]
                if silent:
                    self._silence(silent, "", on=False)
                return _done("All faults are over.")
        raise ValueError(f"there is no fault {fault!r}" + (" to switch on" if on else ""))

    def _nodes(self) -> list[Entry]:
        table = self._tables.get(NODES.id)
        return table.entries() if table is not None else []

    def _silence(self, nodes: list[Entry], what: str, *, on: bool) -> dict[str, Any]:
        if not nodes:
            raise LookupError(f"there is no {what}")
        if len(nodes) > MOST_NODES:
            raise RefusedError(f"{what} has {len(nodes)} nodes, more than {MOST_NODES}")
        for entry in nodes:
            response = self._send(silence(entry.key, silent=on))
            if response.status not in (200, 404):
                raise RefusedError(f"node {entry.key} was not changed: {response.problem}")
        return _done(f"{len(nodes)} node{'s' * (len(nodes) != 1)} {'silenced' if on else 'may recover'}.")


def _done(message: str) -> dict[str, Any]:
    return {"message": message}
