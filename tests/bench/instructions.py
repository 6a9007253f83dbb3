"""Instructions of the processor that a scene takes: all there is to be counted, C included, and free of noise.

They depend on the build of the interpreter and of its libraries, so they compare before with after on one machine, and
are neither recorded nor checked. The processor's counter is read by `perf stat` where the machine has one; most virtual
machines and containers have none. Then valgrind counts, at a fiftieth of the speed.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench.isolation import isolated
from tests.bench.scenes import SCENES

ACTS = 1, 4  # how often a scene is acted in the two runs whose difference counts
MISSING = "this machine counts no instructions: neither `perf stat` nor valgrind can"


class NotCountedError(RuntimeError):
    """No instructions can be counted here."""


def instructions(scene: str) -> tuple[float, str]:
    """(of one unit, counted by what). Raises NotCountedError."""
    few, many = ACTS
    count, by = _counter()
    # The scene says how many units an act has: see main().
    units, less = _run(scene, few, count)
    _, more = _run(scene, many, count)
    return (more - less) / ((many - few) * units), by


def _counter() -> tuple[str, str]:
    if shutil.which("perf") and _perf_works():
        return "perf", "the processor"
    if shutil.which("valgrind"):
        return "valgrind", "valgrind"
    raise NotCountedError(MISSING)


def _perf_works() -> bool:
    done = isolated(["perf", "stat", "-x,", "-e", "instructions:u", "true"])
    return done.returncode == 0 and done.stderr.partition(",")[0].isdigit()


def _run(scene: str, acts: int, counter: str) -> tuple[int, int]:
    """(units in an act, instructions in all)."""
    with tempfile.TemporaryDirectory(prefix="kcm-bench-") as directory:
        tool = {
            "perf": ["perf", "stat", "-x,", "-e", "instructions:u"],
            "valgrind": ["valgrind", "--tool=callgrind", f"--callgrind-out-file={Path(directory) / 'out'}"],
        }[counter]
        done = isolated([*tool, sys.executable, "-m", "tests.bench.instructions", scene, str(acts)])
    if done.returncode:
        raise NotCountedError(f"{counter} failed: {done.stderr[-1000:]}")
    pattern = r"Collected : (\d+)" if counter == "valgrind" else r"^(\d+),"
    found = re.search(pattern, done.stderr, re.MULTILINE)
    if found is None:
        raise NotCountedError(f"{counter} said nothing that can be read: {done.stderr[-1000:]}")
    return int(done.stdout), int(found[1])


def main() -> None:
    """In the process that is counted: SCENE ACTS. Prints how many units an act has."""
    scene = SCENES[sys.argv[1]]()
    scene.act()
    gc.collect()
    gc.disable()  # else a run of the collector falls into one run and not into the other
    for _ in range(int(sys.argv[2])):
        scene.act()
    print(scene.units, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
