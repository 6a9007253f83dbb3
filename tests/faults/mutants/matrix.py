"""The detection matrix: which mutants are found, in how many seeds, and how soon.

python -m tests.faults.mutants.matrix [SEEDS] [WORD ...]: of the mutants whose names have one of the words; all without.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from kcm.actors.simulation.campaign.runs import run
from kcm.actors.simulation.campaign.setting import Setting
from tests.faults.mutants.catalogue import MUTANTS
from tests.faults.mutants.mutant import Mutant

HEAD = """\
| mutant | stands for | found | in seeds | first seed | CPU seconds |
| --- | --- | --- | --- | --- | --- |"""


@dataclass(slots=True)
class Search:
    """Result of a search.

    found: first violation by seed.
    spent: CPU seconds of the runs of the mutant.
    """

    seeds: int
    found: dict[int, str]
    spent: float

    @property
    def first(self) -> int | None:
        return next(iter(self.found), None)


@cache
def sound_end(setting: Setting, scenario: int) -> dict[str, Any]:
    """Return the end state of a scenario without bug and faults. Mutants of one setting share it."""
    sound = run(scenario, (), setting=setting)
    assert not sound.violations, f"{setting.name}: the sound system violates {sound.violations}"
    return sound.end


class Hunt:
    """Search for one mutant. Its runs must reach the end state of the correct system without faults."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def search(self, seeds: Iterable[int], *, most: int | None = None) -> Search:
        """Run seeds until the bug is found in `most` of them, or in all."""
        result = Search(0, {}, 0.0)
        for seed in seeds:
            setting = self._mutant.setting
            began = time.process_time()
            with self._mutant.mutation():
                ran = run(seed, setting=setting)
            result.spent += time.process_time() - began
            result.seeds += 1
            if ran.violations:
                result.found[seed] = str(ran.violations[0])
            elif ran.end != sound_end(setting, setting.number(seed)):
                result.found[seed] = "the end is not the same as without faults"
            if most is not None and len(result.found) >= most:
                break
        return result


def row(mutant: Mutant, result: Search) -> str:
    """Return a line of the table."""
    if result.first is None:
        verdict = f"no: {mutant.held_by}" if mutant.held_by else "no"
        cells = [verdict, "-", "-", f"{result.spent:.0f}"]
    else:
        cells = ["yes", f"{len(result.found)} of {result.seeds}", str(result.first), f"{result.spent:.0f}"]
    return f"| {mutant.name} | {mutant.source} | {' | '.join(cells)} |"


def main(argv: list[str]) -> None:
    seeds = int(argv[0]) if argv else 100
    words = argv[1:] or [""]
    print(
        "| mutant | stands for | found | in seeds | first seed | CPU seconds |\n| --- | --- | --- | --- | --- | --- |"
    )
    for mutant in MUTANTS:
        if any(word in mutant.name for word in words):
            result = Hunt(mutant).search(range(seeds))
            print(row(mutant, result), flush=True)
            for seed, text in list(result.found.items())[:1]:
                print(f"  seed {seed}: {text[:150]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
