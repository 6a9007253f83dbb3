"""Versions, machine and noise of a run of the benchmarks."""

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

LOOP_ITERATIONS = 400_000  # of the loop that measures noise: about 20 ms
LIBRARIES = ("httptools", "msgpack", "orjson", "pykka", "uvloop", "pycurl")


def run_info() -> dict[str, Any]:
    """Return date, versions and machine.

    `commit` has a "+" appended if files are modified. Outside of a checkout there is no commit, and the value is null.
    """
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
        commit_id = _git("rev-parse", "--short=10", "HEAD")
        return commit_id + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    return None


def _git(*arguments: str) -> str:
    completed = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return completed.stdout.strip()


def _installed() -> Iterator[tuple[str, str]]:
    for name in LIBRARIES:
        with suppress(ModuleNotFoundError):  # the base class of PackageNotFoundError
            yield name, version(name)


def cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


@dataclass(slots=True)
class Noise:
    """Load of the machine by other programs, estimated from the time that the same loop takes.

    The loop runs before the first round, between rounds and after the last round.
    """

    wall: list[float] = field(default_factory=list)  # seconds of each loop
    cpu: list[float] = field(default_factory=list)  # CPU seconds of each loop
    load: list[float] = field(default_factory=list)  # the system's load average over a minute after each loop

    def measure(self) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        total = 0
        for number in range(LOOP_ITERATIONS):
            total += number & 3
        self.wall.append(round(time.perf_counter() - wall, 6))
        self.cpu.append(round(time.process_time() - cpu, 6))
        self.load.append(round(os.getloadavg()[0], 2))

    def as_json(self) -> dict[str, Any]:
        """Return the figures. `spread` is the longest wall time divided by the shortest."""
        return {
            "spread": round(max(self.wall) / min(self.wall), 3) if self.wall else None,
            "wall_median": statistics.median(self.wall) if self.wall else None,
            "cpu_spread": round(max(self.cpu) / min(self.cpu), 3) if self.cpu and min(self.cpu) else None,
            "load": self.load,
        }
