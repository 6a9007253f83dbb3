"""Run seeds with faults, or replay a run: python -m kcm.simulate --seed 7 [--faults "..."] [--actions "..."].

A run that violates an invariant prints the command that replays it exactly. --faults replaces the plan that the seed
would draw; --actions selects some of the user actions. --setting selects the controllers and the cluster: by default
the workload controllers; "everything" has all controllers, failing zones and a cloud.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from kcm.actors.simulation.campaign.groups import Groups
from kcm.actors.simulation.campaign.kept_seeds import KeptSeedsError
from kcm.actors.simulation.campaign.many import REFERENCES, Attempt, Campaign, run_campaign
from kcm.actors.simulation.campaign.seed_results import Tried
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.campaign.settings import SETTINGS, setting_named
from kcm.runtime.faults.vocabulary import Fault, parse_faults
from kcm.runtime.system.journal import JournalError


def _setting(name: str) -> Setting:
    try:
        return setting_named(name)
    except ValueError as err:
        raise argparse.ArgumentTypeError(str(err)) from err


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code: 1 if an invariant was violated."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        faults, actions = _given(arguments)
    except ValueError as err:
        parser.error(str(err))
    groups = Groups()
    try:
        campaign = _run(arguments, faults, actions, groups)
    except (JournalError, KeptSeedsError) as err:
        parser.error(str(err))
    if arguments.coverage:
        print(*campaign.coverage.lines(), sep="\n")
    if arguments.coverage or campaign.runs > 1:
        print(campaign.coverage.summary())
    if len(campaign.failed) > 1:
        print(*groups.lines(), sep="\n")
    print(campaign.summary())
    return 1 if campaign.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kcm.simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="first seed (default 0)")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds to run (default 1)")
    parser.add_argument(
        "--setting",
        type=_setting,
        default=USUAL,
        metavar="NAME",
        help=f"setting to simulate: {', '.join(SETTINGS)}, or module:ATTRIBUTE for a setting of your own",
    )
    parser.add_argument("--faults", help="faults to inject instead of the drawn ones, as in the report of a failure")
    parser.add_argument(
        "--actions", help="numbers of the user actions to carry out, as in the report of a failure (default: all)"
    )
    parser.add_argument("--wishes", dest="actions", help=argparse.SUPPRESS)  # the name until 0.1.0
    parser.add_argument(
        "--no-shrink", action="store_true", help="report a failing run without reducing its faults and user actions"
    )
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="write all messages of the manager to FILE, and those of other processes to FILE-NAME, for "
        "`run-kcm journal show FILE`; for one seed only",
    )
    parser.add_argument(
        "--references",
        type=int,
        default=REFERENCES,
        metavar="N",
        help="with many seeds, compare the end state of every Nth seed with that of its run without faults "
        f"(default {REFERENCES})",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="number of seeds to run at a time, each in a separate process (default 1: one after the other; "
        "0: one per processor)",
    )
    parser.add_argument(
        "--failing",
        type=Path,
        metavar="FILE",
        help="file of failed seeds: its seeds are run first and removed when they pass; new failures are added",
    )
    parser.add_argument(
        "--stop-after",
        type=int,
        metavar="N",
        help="stop once N seeds have failed (default: try all seeds)",
    )
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="also print which faults struck at each step of each controller, and which never did",
    )
    return parser


def _given(arguments: argparse.Namespace) -> tuple[tuple[Fault, ...] | None, tuple[int, ...] | None]:
    """Return the values of --faults and --actions; None for a flag that was not given.

    Raises ValueError on invalid values, and on options that exclude each other.
    """
    faults = None if arguments.faults is None else parse_faults(arguments.faults)
    actions = None if arguments.actions is None else tuple(int(word) for word in arguments.actions.split())
    if arguments.journal is not None and arguments.seeds != 1:
        raise ValueError("--journal requires a single seed")
    if arguments.references < 1:
        raise ValueError("--references must be 1 or more")
    if arguments.jobs < 0:
        raise ValueError("--jobs must be 0 or more")
    if arguments.stop_after is not None and arguments.stop_after < 1:
        raise ValueError("--stop-after must be 1 or more")
    if arguments.failing is not None and (faults is not None or actions is not None):
        raise ValueError("--failing cannot be combined with --faults or --actions")
    return faults, actions


def _run(
    arguments: argparse.Namespace,
    faults: tuple[Fault, ...] | None,
    actions: tuple[int, ...] | None,
    groups: Groups,
) -> Campaign:
    """Run the seeds, and print a report of each failure.

    Raises JournalError or KeptSeedsError if the file of --journal or --failing cannot be used.
    """

    def show(tried: Tried) -> None:
        if tried.violations:
            print(groups.add(tried), flush=True)
        elif tried.report:  # --journal, for a seed without violations
            print(tried.report, flush=True)

    setting, shrink = arguments.setting, not arguments.no_shrink
    if arguments.journal is not None:
        campaign = Campaign(setting.name)
        tried = Attempt(setting, arguments.seed, faults, actions, shrink=shrink, journal=arguments.journal)()
        campaign.add(tried)
        show(tried)
        return campaign
    return run_campaign(
        setting,
        range(arguments.seed, arguments.seed + arguments.seeds),
        jobs=arguments.jobs,
        failing=arguments.failing,
        references=1 if arguments.seeds == 1 else arguments.references,
        faults=faults,
        actions=actions,
        shrink=shrink,
        stop_after=arguments.stop_after,
        seen=show,
    )
