"""`bin/run-bench counts`: costs of the hot path in counts, compared with those recorded in counts.json.

The counts are taken in a separate process, so that a tracer of this one (coverage, a debugger) does not change them and
hashes are the same each time. They depend on the minor version of Python, so each version has its own recorded figures.
Without recorded figures the check passes, and the new figures are printed and can be recorded.
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

from tests.bench.costs import Cost
from tests.bench.instructions import NotCountedError, instructions
from tests.bench.isolation import ROOT, isolated

RECORD = Path(__file__).with_name("counts.json")
RISE = 0.05  # a rise by more than this fraction of the recorded value fails
# Variation of memory from run to run: caches of the interpreter may be full or empty.
SLACK = {"kept_blocks": 1.0, "peak_bytes": 16_384.0}
ACCEPT = 'bin/run-bench counts --accept "why"'

Figures = Mapping[str, Mapping[str, float]]  # by scene and figure


def this_python() -> str:
    """Return the key of this Python's figures: "CPython 3.11"."""
    name = f"{platform.python_implementation()} {sys.version_info.major}.{sys.version_info.minor}"
    return name + (" free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")


def take(scenes: Sequence[str] = (), *, where: bool = False, python: str = sys.executable) -> dict[str, Any]:
    """Return {scene: {"cost": …, "where": …}} for the named scenes, or for all if none is named."""
    completed = isolated([python, "-m", "tests.bench.costs", *(["--where"] if where else []), *scenes])
    if completed.returncode:
        raise RuntimeError(f"the counts could not be taken:\n{completed.stderr[-4000:]}")
    taken: dict[str, Any] = json.loads(completed.stdout)
    return taken


@dataclass(frozen=True, slots=True)
class Difference:
    """Recorded and new value of one figure of a scene."""

    scene: str
    figure: str
    before: float | None  # None: not recorded
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
    """Return one difference for each figure in `taken`. Figures that are only recorded are ignored."""
    return [
        Difference(scene, figure, recorded.get(scene, {}).get(figure), after)
        for scene, figures in taken.items()
        for figure, after in figures.items()
    ]


def recorded() -> dict[str, Any]:
    """Return the record: `figures` by Python and scene, and `accepted`, the date and reason of each recording."""
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {"figures": {}, "accepted": []}
    return record


def accept(taken: Figures, reason: str, *, python: str) -> list[Difference]:
    """Record the figures, and return those that have risen or fallen."""
    record = recorded()
    changed = compare(record["figures"].get(python, {}), taken)
    record["figures"][python] = {**record["figures"].get(python, {}), **taken}
    record["figures"] = dict(sorted(record["figures"].items()))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    record["accepted"].append({"date": today, "python": python, "reason": reason})
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    return [difference for difference in changed if difference.has_risen or difference.has_fallen]


def failure_text(risen: Sequence[Difference], *, python: str) -> str:
    """Return the text of a failed check."""
    lines = "\n".join(f"  {difference}" for difference in risen)
    return (
        f"These cost more than {RISE:.0%} above what is recorded for {python}:\n{lines}\n"
        f'`bin/run-bench counts --where "{risen[0].scene}"` shows in which functions. '
        f"To accept the rise: {ACCEPT}"
    )


def table(figures: Figures) -> str:
    columns = [field.name for field in fields(Cost)]
    lines = [f"{'of values unit':38}" + "".join(f"{column:>15}" for column in columns)]
    for scene, values in figures.items():
        lines.append(f"{scene:38}" + "".join(f"{values[column]:15.10g}" for column in columns))
    return "\n".join(lines)


def run(*, reason: str | None, where: Sequence[str], exact: Sequence[str]) -> int:
    """Run the command and return its exit code.

    reason: record the counts with this reason; None compares them with the recorded ones
    where: scenes whose functions are printed instead
    exact: scenes whose processor instructions are printed instead
    """
    for scene in exact:
        try:
            count, by = instructions(scene)
        except NotCountedError as err:
            print(err, file=sys.stderr)
            return 1
        print(f"{scene}: {count:,.0f} instructions, counted by {by}", flush=True)
    for scene, taken in (take(where, where=True) if where else {}).items():
        print(f"{scene}: bytecodes by function, for one unit")
        for file, function, count in taken["where"]:
            print(f"  {count:10.1f}  {function}  {Path(file).parent.name}/{Path(file).name}")
    return 0 if where or exact else _check(reason)


def _check(reason: str | None) -> int:
    python, taken = this_python(), {scene: costs["cost"] for scene, costs in take().items()}
    print(f"{python}, for one unit:\n{table(taken)}")
    differences = compare(recorded()["figures"].get(python, {}), taken)
    if reason is not None:
        for difference in accept(taken, reason, python=python):
            print(f"  {difference}")
        print(f"Recorded in {RECORD.relative_to(ROOT)}.")
        return 0
    if any(difference.before is None for difference in differences):
        print(f"Some counts are not recorded for {python} and are not checked. To record them: {ACCEPT}")
    if fallen := [difference for difference in differences if difference.has_fallen]:
        print("These cost less than recorded:")
        print("\n".join(f"  {difference}" for difference in fallen))
        print(f"To record the lower costs: {ACCEPT}")
    risen = [difference for difference in differences if difference.has_risen]
    if risen:
        print(failure_text(risen, python=python), file=sys.stderr)
    return 1 if risen else 0
