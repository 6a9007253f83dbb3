"""Where and when figures were measured, and how loud the machine was meanwhile."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.bench.isolation import ROOT

TURNS = 400_000  # of the loop by which noise is measured: some 20 ms
LIBRARIES = ("httptools", "msgpack", "orjson", "pykka", "uvloop", "pycurl")


def circumstances() -> dict[str, Any]:
    """commit: with "+" where files differ from it; None outside of a checkout."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "kcm": version("kcm"),
        "commit": commit(),
        "python": platform.python_version(),
        "libraries": dict(_installed()),
        "machine": {
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "cpu": cpu_model(),
            "system": f"{platform.system()} {platform.machine()}",
        },
    }


def commit() -> str | None:
    with suppress(OSError, subprocess.CalledProcessError):
        found = _git("rev-parse", "--short=10", "HEAD")
        return found + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _installed() -> Iterator[tuple[str, str]]:
    for name in LIBRARIES:
        with suppress(ModuleNotFoundError):  # importlib.metadata's PackageNotFoundError is one
            yield name, version(name)


def cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


@dataclass(slots=True)
class Noise:
    """The same loop, before the first round, between rounds and at the end: what it takes says how loud it is.

    wall, cpu: seconds of each. load: the system's average over a minute at each.
    """

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)

    def listen(self) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        total = 0
        for number in range(TURNS):
            total += number & 3
        self.wall.append(round(time.perf_counter() - wall, 6))
        self.cpu.append(round(time.process_time() - cpu, 6))
        self.load.append(round(os.getloadavg()[0], 2))

    def as_json(self) -> dict[str, Any]:
        """spread: of the wall time, the most by the least; the machine's speed drifted by so much at least."""
        return {
            "spread": round(max(self.wall) / min(self.wall), 3) if self.wall else None,
            "wall_median": statistics.median(self.wall) if self.wall else None,
            "cpu_spread": round(max(self.cpu) / min(self.cpu), 3) if self.cpu and min(self.cpu) else None,
            "load": self.load,
        }
