"""The figures of a run: the values of all rounds, printed as median, minimum and maximum."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Report:
    """Values by benchmark, measured program, and name of the figure."""

    quiet: bool = False  # do not print each value when it is added
    figures: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)  # measurements that have failed, without figures

    def add(self, bench: str, who: str, **figures: float) -> None:
        for figure, value in figures.items():
            self.figures.setdefault((bench, who, figure), []).append(round(value, 4))
            if not self.quiet:
                print(f"  {bench}: {who}: {figure} {value:.4g}", file=sys.stderr, flush=True)

    def table(self) -> str:
        lines = [f"{'benchmark':34} {'who':28} {'figure':24} {'median':>10} {'least':>10} {'most':>10}"]
        for (bench, who, figure), values in self.figures.items():
            middle = statistics.median(values)
            lines.append(f"{bench:34} {who:28} {figure:24} {middle:10.4g} {min(values):10.4g} {max(values):10.4g}")
        return "\n".join(lines)

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"benchmark": bench, "who": who, "figure": figure, "values": values}
            for (bench, who, figure), values in self.figures.items()
        ]
