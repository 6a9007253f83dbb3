"""Number of processor instructions that a scene takes, C code included.

The number depends on the builds of the interpreter and its libraries. Use it to compare two versions of the code on one
machine; it is neither recorded nor checked. `perf stat` reads the processor's counter, which most virtual machines and
containers do not have. Otherwise valgrind counts, at a fiftieth of the speed.
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

ACTS = 1, 4  # calls of Scene.act in two runs; their difference excludes the costs of the start
MISSING = "cannot count instructions: neither `perf stat` nor valgrind works on this machine"


class NotCountedError(RuntimeError):
    """No instructions can be counted here."""


def instructions(scene: str) -> tuple[float, str]:
    """Return the number of instructions for one unit, and what counted them. Raises NotCountedError."""
    few, many = ACTS
    count, by = _counter()
    # main() prints the number of units in one call of Scene.act.
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
    completed = isolated(["perf", "stat", "-x,", "-e", "instructions:u", "true"])
    return completed.returncode == 0 and completed.stderr.partition(",")[0].isdigit()


def _run(scene: str, acts: int, counter: str) -> tuple[int, int]:
    """Return the number of units in one call of Scene.act, and the instructions of the whole process."""
    with tempfile.TemporaryDirectory(prefix="kcm-bench-") as directory:
        tool = {
            "perf": ["perf", "stat", "-x,", "-e", "instructions:u"],
            "valgrind": ["valgrind", "--tool=callgrind", f"--callgrind-out-file={Path(directory) / 'out'}"],
        }[counter]
        completed = isolated([*tool, sys.executable, "-m", "tests.bench.instructions", scene, str(acts)])
    if completed.returncode:
        raise NotCountedError(f"{counter} failed: {completed.stderr[-1000:]}")
    pattern = r"Collected : (\d+)" if counter == "valgrind" else r"^(\d+),"
    found = re.search(pattern, completed.stderr, re.MULTILINE)
    if found is None:
        raise NotCountedError(f"cannot parse the output of {counter}: {completed.stderr[-1000:]}")
    return int(completed.stdout), int(found[1])


def main() -> None:
    """Entry point of the counted process, with the arguments SCENE ACTS. Prints the number of units in an act."""
    scene = SCENES[sys.argv[1]]()
    scene.act()
    gc.collect()
    gc.disable()  # otherwise a collection may happen in only one of the two runs
    for _ in range(int(sys.argv[2])):
        scene.act()
    print(scene.units, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
