"""Seeded runs with faults, and the replay of one: python -m kcm.simulate --seed 7 [--faults "..."] [--wishes "..."].

A run that violates an invariant is replayed exactly by the line that it prints; --faults replaces the plan that the
seed would draw, --wishes leaves out some of what users do. What is simulated is a setting (campaign/setting.py):
workloads alone, or with --setting nodes all controllers, zones that fail, a cloud.
"""

from __future__ import annotations

import argparse
import pkgutil
import time
from collections.abc import Sequence
from pathlib import Path

from actors.simulation.campaign.checking import check
from actors.simulation.campaign.explaining import explained, report, small
from actors.simulation.campaign.node_setting import NODES_TOO
from actors.simulation.campaign.runs import Run
from actors.simulation.campaign.setting import USUAL, Setting
from runtime.faults.vocabulary import parse_faults
from runtime.system.journal import JournalError

REFERENCES = 4
SETTINGS = {setting.name: setting for setting in (USUAL, NODES_TOO)}


def setting_named(name: str) -> Setting:
    """One of ours, or "module:ATTRIBUTE" of another package. Raises ArgumentTypeError."""
    if name in SETTINGS:
        return SETTINGS[name]
    if ":" not in name:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(SETTINGS)}, nor module:ATTRIBUTE")
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as err:
        raise argparse.ArgumentTypeError(f"{name!r} cannot be had: {err}") from err
    if not isinstance(found, Setting):
        raise argparse.ArgumentTypeError(f"{name!r} is no Setting but {found!r:.100}")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(prog="python -m kcm.simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the (first) seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from the first on")
    parser.add_argument(
        "--setting",
        type=setting_named,
        default=USUAL,
        metavar="NAME",
        help=f"what is simulated: {', '.join(SETTINGS)}, or module:ATTRIBUTE for one of your own",
    )
    parser.add_argument("--faults", help="these and no others: lines as the report of a failure has them")
    parser.add_argument("--wishes", help="what users do: these numbers of a report's list, and nothing else")
    parser.add_argument("--no-shrink", action="store_true", help="report a failing run as it is")
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="of one seed: keep all messages of the manager in FILE, of another process in FILE-NAME; "
        "`run-kcm journal show FILE` reads them",
    )
    parser.add_argument(
        "--references",
        type=int,
        default=REFERENCES,
        metavar="N",
        help="of many seeds, how many to one whose end is also compared with that of a run without faults "
        f"(default {REFERENCES})",
    )
    arguments = parser.parse_args(argv)
    try:
        faults = None if arguments.faults is None else parse_faults(arguments.faults)
        wishes = None if arguments.wishes is None else [int(word) for word in arguments.wishes.split()]
    except ValueError as err:
        parser.error(str(err))
    if arguments.journal is not None and arguments.seeds != 1:
        parser.error("--journal is for one seed")
    if arguments.references < 1:
        parser.error("--references is 1 or more")
    setting = arguments.setting
    references = 1 if arguments.seeds == 1 else arguments.references
    began, total = time.process_time(), _Total()
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        one = check(seed, faults, setting=setting, wishes=wishes, compared=seed % references == 0)
        total.add(one)
        try:
            if arguments.journal is not None:  # of the very run that was asked for
                one = explained(one, setting=setting, journal=arguments.journal)
            elif one.violations:
                one = explained(one, setting=setting) if arguments.no_shrink else small(one, setting=setting)
        except JournalError as err:
            parser.error(str(err))
        if one.violations:
            print(report(one), flush=True)
    print(total.in_words(spent=time.process_time() - began))
    return 1 if total.failures else 0


class _Total:
    """What came of several runs."""

    def __init__(self) -> None:
        self.runs = self.faults = self.struck = self.checks = self.wishes = self.failures = 0
        self.seconds = 0.0

    def add(self, one: Run) -> None:
        self.runs += 1
        self.wishes += len(one.wishes)
        self.faults += len(one.faults)
        self.struck += one.struck.total()
        self.checks += one.checked.total()
        self.failures += bool(one.violations)
        self.seconds += one.seconds

    def in_words(self, *, spent: float) -> str:
        """spent: seconds of the processor's time."""
        parts = [
            _many(self.runs, "run"),
            f"{_many(self.wishes, 'wish', 'wishes')} of users",
            f"{_many(self.faults, 'fault')} that struck {_many(self.struck, 'time')}",
            _many(self.checks, "check"),
            f"{self.failures} failed",
        ]
        return f"{', '.join(parts)}; {self.seconds:.0f} simulated seconds in {spent:.1f} s of CPU"


def _many(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or f'{one}s'}"
