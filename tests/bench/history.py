"""`bin/run-bench --history`: one line for each run that was stored with --keep.

A run is a file in history/, as `--json` writes it. Ratios to the real manager can be compared between runs; other
figures only between runs with the same machine and noise. Counts of the same version of Python can always be compared.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HISTORY = Path(__file__).with_name("history")
OURS, THEIRS = "kcm on kube-apiserver", "kube-controller-manager on kube-apiserver"


class Column(NamedTuple):
    """Figure of kcm on a real kube-apiserver, with its ratio to kube-controller-manager's in brackets."""

    title: str
    benchmark: str
    figure: str


class Count(NamedTuple):
    """Recorded count of a scene."""

    title: str
    scene: str
    figure: str


COLUMNS: tuple[Column | Count, ...] = (
    Column("1 of 1000, pods/s", "1 ReplicaSet of 1000", "pods_per_second"),
    Column("CPU ms", "1 ReplicaSet of 1000", "cpu_ms_per_pod"),
    Column("MB", "1 ReplicaSet of 1000", "resident_mb"),
    Column("100 of 10, pods/s", "100 Deployments of 10", "pods_per_second"),
    Column("CPU ms", "100 Deployments of 10", "cpu_ms_per_pod"),
    Column("10 of 300, pods/s", "10 ReplicaSets of 300", "pods_per_second"),
    Column("CPU ms", "10 ReplicaSets of 300", "cpu_ms_per_pod"),
    Column("first act, s", "idle", "launch_seconds"),
    Column("idle %", "idle", "idle_cpu_percent"),
    Count("an event", "a watch event in a burst", "bytecodes"),
    Count("a pod", "a pod created", "bytecodes"),
    Count("a status", "a status written", "bytecodes"),
    Count("at rest", "a simulated second at rest", "bytecodes"),
)


def keep(run: Mapping[str, Any], *, directory: Path = HISTORY) -> Path:
    """Store a run for --history. The files of further runs of the same day and commit are numbered."""
    directory.mkdir(exist_ok=True)
    label = re.sub(r"[^A-Za-z0-9.]+", "-", str(run.get("label") or run.get("commit") or "unknown")).strip("-")
    name, number = f"{run['date'][:10]}-{label}", 1
    while (path := directory / (name + (f"-{number}" if number > 1 else "") + ".json")).exists():
        number += 1
    path.write_text(json.dumps(run, indent=1) + "\n")
    return path


def kept(directory: Path = HISTORY) -> list[dict[str, Any]]:
    """Return the stored runs, oldest first."""
    runs = [json.loads(path.read_text()) for path in directory.glob("*.json")]
    return sorted(runs, key=lambda run: str(run["date"]))


def trend(runs: Iterable[Mapping[str, Any]]) -> str:
    rows = [_row(run) for run in runs]
    if not rows:
        return "No run is stored. To store one: `bin/run-bench NAME … --keep`."
    titles = ["date", "commit", "noise", "Python", *(column.title for column in COLUMNS)]
    used = [column for column in range(len(titles)) if column < 2 or any(row[column] != "" for row in rows)]
    return "\n".join(_lines([[row[column] for column in used] for row in [titles, *rows]]))


def _lines(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(run: Mapping[str, Any]) -> list[str]:
    spread = (run.get("noise") or {}).get("spread")
    head = [
        run["date"][:10],
        str(run.get("label") or run.get("commit") or "?"),
        f"{spread:.2f}×" if spread else "",
        str(run.get("python") or ""),
    ]
    return head + [_cell(run, column) for column in COLUMNS]


def _cell(run: Mapping[str, Any], column: Column | Count) -> str:
    if isinstance(column, Count):
        count = run.get("counts", {}).get(column.scene, {}).get(column.figure)
        return "" if count is None else f"{count:,.0f}"
    ours, theirs = (_median(run, column, who) for who in (OURS, THEIRS))
    if ours is None:
        return ""
    return f"{ours:.4g}" + (f" ({ours / theirs:.2f}×)" if theirs else "")


def _median(run: Mapping[str, Any], column: Column, who: str) -> float | None:
    for figure in run.get("figures", ()):
        if (figure["benchmark"], figure["who"], figure["figure"]) == (column.benchmark, who, column.figure):
            return statistics.median(figure["values"])
    return None
