"""One run of a simulated cluster with faults, and its replay: python -m actors.simulate --seed 7 [--faults "..."].

A run is determined by its seed: what people wish, what goes wrong and when, and who works when. A run that violates an
invariant is replayed exactly by the line that it prints; --faults replaces the plan that the seed would draw. What is
simulated is a setting (setting.py): workloads alone, or with --setting nodes all controllers, zones that fail, a cloud.
"""

from __future__ import annotations

import argparse
import functools
import pkgutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from actors.actor_names import MANAGER
from actors.elector import Election
from actors.invariants.usual import usual_invariants
from actors.invariants.watching import Violation, Watchman
from actors.invariants.writes import Quiet
from actors.node_setting import NODES_TOO
from actors.scenarios import Wish, enter_wishes
from actors.setting import SCENARIOS, USUAL, Setting
from actors.simulation import SimulatedCluster
from runtime.cloud.fake import FakeCloud
from runtime.simulation.faults import Fault, Kind, format_faults, parse_faults
from runtime.simulation.shrinking import shrunk
from runtime.standard_log import quiet_log

SETTINGS = {setting.name: setting for setting in (USUAL, NODES_TOO)}
LOOK = 5.0  # seconds between two looks at whether it is
LATE = 110.0  # seconds after the faults in which something may be looked at again
QUIET = 60.0  # seconds for which it then has to stay so, with nothing written


@dataclass(slots=True)
class Run:
    """What came of one run. setting: its name. struck: faults by kind. checked: by invariant, how often. seconds:
    virtual.
    """

    setting: str
    seed: int
    faults: tuple[Fault, ...]
    violations: list[Violation]
    struck: Counter[Kind]
    checked: Counter[str]
    seconds: float
    steps: int
    digest: str
    end: dict[str, Any]
    trace: list[str]


def run(seed: int, faults: Sequence[Fault] | None = None, *, setting: Setting = USUAL, traced: bool = False) -> Run:
    """One run; its faults are those that the seed draws, unless they are given."""
    plan = setting.plan(seed) if faults is None else tuple(faults)
    cloud = FakeCloud() if setting.cloud else None
    cluster = SimulatedCluster(log=quiet_log(), seed=seed, faults=plan, traced=traced, cloud=cloud)
    quiet = Quiet()
    scenario = seed % SCENARIOS
    watchman = Watchman(cluster, [*usual_invariants(cluster), quiet, *setting.invariants(cluster, scenario)])
    setting.prepare(cluster)
    fleet = setting.fleet(scenario)
    cluster.hollow_nodes(nodes=fleet.nodes, zones=fleet.zones)
    elections = setting.elections(scenario)
    for number in range(max(1, elections)):
        election = Election(identity=f"manager-{number + 1}") if elections else None
        options = setting.options(scenario)
        cluster.manager(controllers=setting.controllers, options=options, election=election, keep=True)
    waiting = enter_wishes(cluster, setting.wishes(scenario))
    _go_on(cluster, watchman, waiting, quiet, setting)
    trace = cluster.trace
    return Run(
        setting=setting.name,
        seed=seed,
        faults=plan,
        violations=watchman.violations,
        struck=cluster.injector.struck,
        checked=watchman.checked,
        seconds=cluster.clock.monotonic(),
        steps=cluster.world.steps,
        digest="" if trace is None else trace.digest,
        end={} if watchman.violations else setting.end_state(cluster),
        trace=trace.last(60) if trace is not None and watchman.violations else [],
    )


def _go_on(cluster: SimulatedCluster, watchman: Watchman, waiting: list[Wish], quiet: Quiet, setting: Setting) -> None:
    """Until it has settled and stayed so, or an invariant is violated."""

    def failed() -> bool:
        return bool(watchman.violations)

    if cluster.run_until(failed, within=setting.faults):
        return
    until = setting.faults + setting.settled
    while waiting or setting.unsettled(cluster):
        if cluster.clock.monotonic() >= until:
            left = [wish.text for wish in waiting] + setting.unsettled(cluster)
            watchman.object_to("converges once faults have stopped", f"after {setting.settled:g} s: {'; '.join(left)}")
            return
        if cluster.run_until(failed, within=LOOK):
            return
    # What was lost is asked for again after its time-out, and a watch that is silent is renewed after its own.
    rest = max(setting.faults + LATE - cluster.clock.monotonic(), LOOK)
    if cluster.run_until(failed, within=rest):
        return
    quiet.on = True
    if cluster.run_until(failed, within=QUIET):
        return
    watchman.checked["converges once faults have stopped"] += 1
    if left := setting.unsettled(cluster):
        watchman.object_to("a wish that is reached stays so", "; ".join(left))
    for name, running in cluster.processes.items():
        for actor, facts in running.system.vitals.of(MANAGER).get("children", {}).items():
            watchman.checked["every actor lives or is reported"] += 1
            if not facts["alive"] and not facts["gave_up"]:
                watchman.object_to("every actor lives or is reported", f"{actor} of {name} is dead")


@functools.lru_cache(maxsize=SCENARIOS)
def _undisturbed(scenario: int, setting: Setting) -> Run:
    return run(scenario, (), setting=setting)


def check(seed: int, faults: Sequence[Fault] | None = None, *, setting: Setting = USUAL, traced: bool = False) -> Run:
    """A run, and the oracle that needs no invariant: it comes to the same state as the run without faults."""
    disturbed = run(seed, faults, setting=setting, traced=traced)
    disturbed.checked["the same end as without faults"] += 1
    if not disturbed.violations:
        disturbed.violations += _compared(disturbed, _undisturbed(seed % SCENARIOS, setting))
    return disturbed


def _compared(disturbed: Run, calm: Run) -> Iterable[Violation]:
    if calm.violations:
        for one in calm.violations:
            yield Violation(one.at, one.invariant, f"{one.text} (in the run of seed {calm.seed} without faults)")
    elif disturbed.end != calm.end:
        text = "; ".join(_differences(calm.end, disturbed.end))
        yield Violation(disturbed.seconds, "the same end as without faults", text)


def _differences(expected: dict[str, Any], found: dict[str, Any]) -> Iterable[str]:
    for what in sorted({*expected, *found}):
        if expected.get(what) != found.get(what):
            yield f"{what}: {found.get(what)}, without faults {expected.get(what)}"


def small(failed: Run, *, setting: Setting = USUAL) -> Run:
    """The same failure with as few faults as it takes."""
    names = {violation.invariant for violation in failed.violations}

    def fails(faults: tuple[Fault, ...]) -> bool:
        return any(v.invariant in names for v in check(failed.seed, faults, setting=setting).violations)

    return check(failed.seed, shrunk(failed.faults, fails), setting=setting, traced=True)


def report(failed: Run) -> str:
    """What a person needs who has to find out why."""
    lines = [f"seed {failed.seed} violates:"]
    lines += [f"  {violation}" for violation in failed.violations]
    lines += ["faults:", *(f"  {fault}" for fault in failed.faults)]
    lines += ["trace:", *failed.trace]
    which = "" if failed.setting == USUAL.name else f" --setting {failed.setting}"
    replay = f'python -m actors.simulate{which} --seed {failed.seed} --faults "{format_faults(failed.faults)}"'
    lines += ["replay:", f"  {replay}"]
    return "\n".join(lines)


def must_hold(seed: int, *, setting: Setting = USUAL) -> None:
    """For tests: raises AssertionError with the report of a run that violates an invariant, with as few faults as it
    takes."""
    one = check(seed, setting=setting)
    if one.violations:
        raise AssertionError(report(small(one, setting=setting)))


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
    """Answers 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(prog="python -m actors.simulate", description=__doc__)
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
    struck: Counter[Kind] = Counter()
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


if __name__ == "__main__":
    sys.exit(main())
