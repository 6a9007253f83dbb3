"""Seeded runs with faults, and the replay of one: python -m kcm.simulate --seed 7 [--faults "..."].

A run that violates an invariant is replayed exactly by the line that it prints; --faults replaces the plan that the
seed would draw. What is simulated is a setting (campaign/setting.py): workloads alone, or with --setting nodes all
controllers, zones that fail, a cloud.
"""

from __future__ import annotations

import argparse
import pkgutil
import time
from collections import Counter
from collections.abc import Sequence

from actors.simulation.campaign.checking import check, report, small
from actors.simulation.campaign.node_setting import NODES_TOO
from actors.simulation.campaign.setting import USUAL, Setting
from runtime.faults.vocabulary import FaultKind, parse_faults

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
    parser.add_argument("--no-shrink", action="store_true", help="report the first failing plan as it is")
    arguments = parser.parse_args(argv)
    try:
        faults = None if arguments.faults is None else parse_faults(arguments.faults)
    except ValueError as err:
        parser.error(str(err))
    setting = arguments.setting
    began, seconds = time.process_time(), 0.0
    struck: Counter[FaultKind] = Counter()
    checked: Counter[str] = Counter()
    failures = 0
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        one = check(seed, faults, setting=setting)
        seconds += one.seconds
        struck += one.struck
        checked += one.checked
        if one.violations:
            failures += 1
            failed = (
                check(seed, faults, setting=setting, traced=True)
                if arguments.no_shrink
                else small(one, setting=setting)
            )
            print(report(failed), flush=True)
    spent = time.process_time() - began
    print(
        f"{arguments.seeds} runs, {sum(struck.values())} faults, {sum(checked.values())} checks, {failures} failed; "
        f"{seconds:.0f} simulated seconds in {spent:.1f} s of CPU"
    )
    return 1 if failures else 0
