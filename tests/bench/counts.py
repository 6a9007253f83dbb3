"""`bin/run-bench counts`: what the hot path costs in counts, compared with what is recorded in counts.json.

The counts are taken in a process of their own: what traces this one (coverage, a debugger) is not there, and hashes are
the same each time. They depend on the minor version of Python, and each has figures of its own. A version that has none
fails nothing: its figures are shown, and can be recorded.
"""

from __future__ import annotations

import datetime
import json
import platform
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tests.bench.counting import Cost
from tests.bench.instructions import NotCountedError, instructions
from tests.bench.isolation import ROOT, isolated

RECORD = Path(__file__).with_name("counts.json")
RISE = 0.05  # of what is recorded: more fails
# What memory differs by from run to run: caches of the interpreter that happen to be full or empty.
SLACK = {"kept_blocks": 1.0, "peak_bytes": 16_384.0}
ACCEPT = 'bin/run-bench counts --accept "why"'

Figures = Mapping[str, Mapping[str, float]]  # by scene and figure


def this_python() -> str:
    """The key of its figures: "CPython 3.11"."""
    name = f"{platform.python_implementation()} {sys.version_info.major}.{sys.version_info.minor}"
    return name + (" free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")


def take(scenes: Sequence[str] = (), *, where: bool = False, python: str = sys.executable) -> dict[str, Any]:
    """By scene: its "cost", and "where". scenes: all if none."""
    done = isolated([python, "-m", "tests.bench.counting", *(["--where"] if where else []), *scenes])
    if done.returncode:
        raise RuntimeError(f"the counts could not be taken:\n{done.stderr[-4000:]}")
    taken: dict[str, Any] = json.loads(done.stdout)
    return taken


@dataclass(frozen=True, slots=True)
class Difference:
    """before: as recorded; None: it is not."""

    scene: str
    figure: str
    before: float | None
    after: float

    @property
    def has_risen(self) -> bool:
        if self.before is None:
            return False
        return self.after > self.before * (1 + RISE) + SLACK.get(self.figure, 0.0)

    @property
    def has_fallen(self) -> bool:
        if self.before is None:
            return False
        return self.after < self.before * (1 - RISE) - SLACK.get(self.figure, 0.0)

    def __str__(self) -> str:
        if not self.before:
            return f"{self.scene}: {self.figure} {self.before or 'not recorded'} → {self.after:g}"
        change = (self.after / self.before - 1) * 100
        return f"{self.scene}: {self.figure} {self.before:g} → {self.after:g} ({change:+.1f} %)"


def compare(recorded: Figures, taken: Figures) -> list[Difference]:
    """Of all that was taken; what is recorded and was not taken is no difference."""
    return [
        Difference(scene, figure, recorded.get(scene, {}).get(figure), after)
        for scene, figures in taken.items()
        for figure, after in figures.items()
    ]


def recorded() -> dict[str, Any]:
    """figures: by Python and scene. accepted: what was recorded when, and why; the newest last."""
    found: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {"figures": {}, "accepted": []}
    return found


def accept(taken: Figures, reason: str, *, python: str) -> list[Difference]:
    """Record them; returns what has risen or fallen by that."""
    record = recorded()
    changed = compare(record["figures"].get(python, {}), taken)
    record["figures"][python] = {**record["figures"].get(python, {}), **taken}
    record["figures"] = dict(sorted(record["figures"].items()))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    record["accepted"].append({"date": today, "python": python, "reason": reason})
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    return [one for one in changed if one.has_risen or one.has_fallen]


def complaint(risen: Sequence[Difference], *, python: str) -> str:
    """What a check says that fails."""
    lines = "\n".join(f"  {one}" for one in risen)
    return (
        f"These cost more than {RISE:.0%} above what is recorded for {python}:\n{lines}\n"
        f'`bin/run-bench counts --where "{risen[0].scene}"` shows in which functions. '
        f"If it is worth it: {ACCEPT}"
    )


def table(figures: Figures) -> str:
    columns = [field.name for field in fields(Cost)]
    lines = [f"{'of one':38}" + "".join(f"{column:>15}" for column in columns)]
    for scene, one in figures.items():
        lines.append(f"{scene:38}" + "".join(f"{one[column]:15.10g}" for column in columns))
    return "\n".join(lines)


def run(*, reason: str | None, where: Sequence[str], exact: Sequence[str]) -> int:
    """The command. reason: to accept what was counted. where: scenes of which the functions are shown instead. exact:
    those of which the processor's instructions are.
    """
    for scene in exact:
        try:
            count, by = instructions(scene)
        except NotCountedError as err:
            print(err, file=sys.stderr)
            return 1
        print(f"{scene}: {count:,.0f} instructions, counted by {by}", flush=True)
    for scene, found in (take(where, where=True) if where else {}).items():
        print(f"{scene}: bytecodes by function, of one unit")
        for file, function, count in found["where"]:
            print(f"  {count:10.1f}  {function}  {Path(file).parent.name}/{Path(file).name}")
    return 0 if where or exact else _check(reason)


def _check(reason: str | None) -> int:
    python, taken = this_python(), {scene: found["cost"] for scene, found in take().items()}
    print(f"{python}, of one unit:\n{table(taken)}")
    differences = compare(recorded()["figures"].get(python, {}), taken)
    if reason is not None:
        for one in accept(taken, reason, python=python):
            print(f"  {one}")
        print(f"Recorded in {RECORD.relative_to(ROOT)}.")
        return 0
    if any(one.before is None for one in differences):
        print(f"Not all of it is recorded for {python}; what is not fails nothing. To record it: {ACCEPT}")
    if fallen := [one for one in differences if one.has_fallen]:
        print("These cost less than what is recorded:")
        print("\n".join(f"  {one}" for one in fallen))
        print(f"To hold them to it: {ACCEPT}")
    risen = [one for one in differences if one.has_risen]
    if risen:
        print(complaint(risen, python=python), file=sys.stderr)
    return 1 if risen else 0
