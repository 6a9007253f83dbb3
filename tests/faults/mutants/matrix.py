"""The detection matrix: which mutants are found, in how many seeds, and how soon.

python -m tests.faults.mutants.matrix [SEEDS] [WORD ...]: of the mutants whose names have one of the words; all without.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from actors.simulation.campaign.runs import run
from tests.faults.mutants.catalogue import MUTANTS
from tests.faults.mutants.mutant import Mutant

HEAD = """\
| mutant | stands for | found | in seeds | first seed | CPU seconds |
| --- | --- | --- | --- | --- | --- |"""


@dataclass(slots=True)
class Search:
    """What came of it. found: by seed, what was objected to first. spent: CPU seconds of the runs of the mutant."""

    seeds: int
    found: dict[int, str]
    spent: float

    @property
    def first(self) -> int | None:
        return next(iter(self.found), None)


class Hunt:
    """Looks for one mutant. Its runs have to come to what the sound system comes to without faults."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._ends: dict[int, dict[str, Any]] = {}  # of the sound system, by scenario

    def search(self, seeds: Iterable[int], *, most: int | None = None) -> Search:
        """Until it was found in so many seeds, or in all of them."""
        result = Search(0, {}, 0.0)
        for seed in seeds:
            scenario = self._mutant.setting.number(seed)
            if scenario not in self._ends:
                sound = run(scenario, (), setting=self._mutant.setting)
                assert not sound.violations, f"{self._mutant.name}: the sound system violates {sound.violations}"
                self._ends[scenario] = sound.end
            began = time.process_time()
            with self._mutant.mutation():
                ran = run(seed, setting=self._mutant.setting)
            result.spent += time.process_time() - began
            result.seeds += 1
            if ran.violations:
                result.found[seed] = str(ran.violations[0])
            elif ran.end != self._ends[scenario]:
                result.found[seed] = "the end is not the same as without faults"
            if most is not None and len(result.found) >= most:
                break
        return result


def row(mutant: Mutant, result: Search) -> str:
    """A line of the table."""
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
