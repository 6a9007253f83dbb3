"""Plots and tables of growth curves: `python -m tests.bench.scale.plots RUN.json DIRECTORY`.

Writes one SVG for each figure of a run that `bin/run-bench growth --json RUN.json` has measured, and prints tables in
Markdown. A line is what a figure has grown above the small cluster; both axes are logarithmic, so the exponent is the
slope.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.scale.growth import DIMENSIONS, FIGURES, OF_WATCHERS, curve, exponent

TITLES = {
    "start_cpu_seconds": "CPU time of a start until the manager has settled",
    "resident_mb": "Resident memory of the manager",
    "idle_cpu_percent": "CPU of the manager at rest, with heartbeats",
    "server_mb": "Resident memory of the API server",
    "server_cpu_ms_per_change": "CPU time of the API server for a change of a pod",
}
COLOURS = {
    "pods": "#1b6ca8",
    "nodes": "#c1440e",
    "namespaces": "#2e7d32",
    "definitions": "#7b3fa0",
    "watchers": "#555555",
}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 64, 150, 40, 44
FONT = 'font-family="sans-serif" font-size="12"'


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    sizes: Sequence[int]
    values: Sequence[float]

    @property
    def exponent(self) -> float | None:
        return exponent(self.sizes, self.values)


def lines_of(figures: Sequence[Mapping[str, Any]], figure: str) -> list[Line]:
    dimensions = ("watchers",) if figure in OF_WATCHERS else [name for name in DIMENSIONS if name != "watchers"]
    lines = [Line(dimension, *curve(figures, dimension, figure)) for dimension in dimensions]
    return [line for line in lines if len(line.sizes) > 1]


def svg(title: str, unit: str, lines: Sequence[Line]) -> str:
    """Return a plot with logarithmic axes."""
    low_x, high_x = _decades(size for line in lines for size in line.sizes)
    low_y, high_y = _decades(value for line in lines for value in line.values)

    def x(size: float) -> float:
        return LEFT + (math.log10(size) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" {FONT} font-weight="bold" fill="#222222">{title} ({unit})</text>',
    ]
    for power in range(low_x, high_x + 1):
        parts += _grid(x(10**power), HEIGHT - BOTTOM, x(10**power), TOP)
        parts.append(_text(x(10**power), HEIGHT - BOTTOM + 18, f"{10**power:,}", "middle"))
    for power in range(low_y, high_y + 1):
        parts += _grid(LEFT, y(10**power), WIDTH - RIGHT, y(10**power))
        parts.append(_text(LEFT - 6, y(10**power) + 4, f"{10.0**power:g}", "end"))
    labels = _spread([y(line.values[-1]) + 4 for line in lines])
    for line, label in zip(lines, labels, strict=True):
        colour = COLOURS[line.name]
        points = [(x(size), y(value)) for size, value in zip(line.sizes, line.values, strict=True)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in points]
        fitted = f" ~ n^{line.exponent:.2f}" if line.exponent is not None else ""
        parts.append(_text(WIDTH - RIGHT + 8, label, f"{line.name}{fitted}", "start", colour))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "number n", "middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _decades(values: Iterator[float]) -> tuple[int, int]:
    found = [*values]
    low, high = math.floor(math.log10(min(found))), math.ceil(math.log10(max(found)))
    return low, max(high, low + 1)


def _grid(x1: float, y1: float, x2: float, y2: float) -> list[str]:
    return [f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>']


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#444444") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {FONT} text-anchor="{anchor}" fill="{colour}">{text}</text>'


def _spread(heights: Sequence[float], *, least: float = 15.0) -> list[float]:
    """Return the heights of labels, moved down where they would overlap."""
    placed: dict[int, float] = {}
    below = -math.inf
    for index, height in sorted(enumerate(heights), key=lambda entry: entry[1]):
        placed[index] = below = max(height, below + least)
    return [placed[index] for index in range(len(heights))]


def table(figures: Sequence[Mapping[str, Any]], figure: str, unit: str) -> str:
    rows = [f"| {TITLES[figure]}, {unit} | | | | | exponent |", "| --- | --- | --- | --- | --- | --- |"]
    for line in lines_of(figures, figure):
        cells = [f"{size:,}: {value:.3g}" for size, value in zip(line.sizes, line.values, strict=True)]
        cells += [""] * (4 - len(cells))
        fitted = f"{line.exponent:.2f}" if line.exponent is not None else ""
        rows.append(f"| {line.name} | {' | '.join(cells)} | {fitted} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    figures = json.loads(arguments.run.read_text())["figures"]
    for figure, unit in {**FIGURES, **OF_WATCHERS}.items():
        lines = lines_of(figures, figure)
        if lines:
            path = arguments.directory / f"growth-{figure.replace('_', '-')}.svg"
            path.write_text(svg(TITLES[figure], unit, lines))
            print(f"{table(figures, figure, unit)}\n")


if __name__ == "__main__":
    main()
