"""The figures of a run: each as often as it was measured, shown by its least, its median and its most."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Report:
    """Figures by benchmark, who was measured, and what of it. quiet: they are not printed as they come."""

    quiet: bool = False
    figures: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)

    def add(self, bench: str, who: str, **figures: float) -> None:
        for what, value in figures.items():
            self.figures.setdefault((bench, who, what), []).append(round(value, 4))
            if not self.quiet:
                print(f"  {bench}: {who}: {what} {value:.4g}", file=sys.stderr, flush=True)

    def table(self) -> str:
        lines = [f"{'benchmark':34} {'who':28} {'figure':24} {'median':>10} {'least':>10} {'most':>10}"]
        for (bench, who, what), values in self.figures.items():
            middle = statistics.median(values)
            lines.append(f"{bench:34} {who:28} {what:24} {middle:10.4g} {min(values):10.4g} {max(values):10.4g}")
        return "\n".join(lines)

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"benchmark": bench, "who": who, "figure": what, "values": values}
            for (bench, who, what), values in self.figures.items()
        ]
