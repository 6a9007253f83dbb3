"""The detection matrix: python -m tests.faults.mutants.matrix [SEEDS] prints which mutants are found, and how soon."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from actors.simulate import check
from tests.faults.mutants.catalogue import MUTANTS, Mutant


def first_found(mutant: Mutant, seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first seed that finds it, and what it says."""
    for seed in seeds:
        check(seed, (), setting=mutant.setting)  # the state to compare with is that of the sound system
        with mutant.mutation():
            run = check(seed, setting=mutant.setting)
        if run.violations:
            return seed, str(run.violations[0])
    return None


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("| mutant | stands for | found with seed | seconds of CPU | by |\n| --- | --- | --- | --- | --- |")
    for mutant in MUTANTS:
        began = time.process_time()
        found = first_found(mutant, range(seeds))
        spent = time.process_time() - began
        seed, text = ("-", f"not found in {seeds} seeds") if found is None else (str(found[0]), found[1][:110])
        print(f"| {mutant.name} | {mutant.source} | {seed} | {spent:.1f} | {text} |", flush=True)


if __name__ == "__main__":
    main()
