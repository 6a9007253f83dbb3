"""One run: a setting, a seed and its faults, from the first action until all has settled and stayed so.

A run is determined by its seed: what users do, what goes wrong and when, and whose mailbox moves when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.engine.elector import Election
from actors.engine.vitals import ManagerVitals
from actors.reconciliation.actor_names import MANAGER
from actors.simulation import SimulatedCluster
from actors.simulation.campaign.setting import SCENARIOS, USUAL, Composition, Setting
from actors.simulation.invariants.observing import InvariantChecker, Violation
from actors.simulation.invariants.usual import usual_invariants
from actors.simulation.invariants.writes import Quiet
from actors.simulation.trials.scenario import Action, do_in_order
from runtime.cloud.fake import FakeCloud
from runtime.faults.vocabulary import Fault, FaultKind
from runtime.logs.standard_log import quiet_log

LOOK = 5.0  # seconds between two looks at whether it is
LATE = 130.0  # seconds after the faults: a watch that was stalled last is renewed 120 s after its last byte
QUIET = 60.0  # seconds for which it then has to stay so, with nothing written


@dataclass(slots=True)
class Run:
    """What came of one run. setting: its name. struck: how often each kind of fault struck. checked: how often each
    invariant was checked. seconds: virtual.
    """

    setting: str
    seed: int
    faults: tuple[Fault, ...]
    violations: list[Violation]
    struck: Counter[FaultKind]
    checked: Counter[str]
    seconds: float
    steps: int
    digest: str
    end: dict[str, Any]
    trace: list[str]


def run(seed: int, faults: Sequence[Fault] | None = None, *, setting: Setting = USUAL, traced: bool = False) -> Run:
    """One run. Its faults are those that the seed draws, unless they are given."""
    plan = setting.plan(seed) if faults is None else tuple(faults)
    cloud = FakeCloud() if setting.cloud else None
    cluster = SimulatedCluster(log=quiet_log(), seed=seed, faults=plan, traced=traced, cloud=cloud)
    number = seed % SCENARIOS
    scenario, composed, quiet = setting.scenario(number), setting.composed(number), Quiet()
    invariants = usual_invariants(cluster, composed.ownership)
    checker = InvariantChecker(cluster, [*invariants, quiet, *composed.invariants(cluster, scenario)])
    setting.prepare(cluster)
    cluster.hollow_nodes(nodes=scenario.fleet.nodes, zones=scenario.fleet.zones)
    elections = setting.elections(number)
    for manager in range(max(1, elections)):
        election = Election(identity=f"manager-{manager + 1}") if elections else None
        options = setting.options(number)
        cluster.manager(controllers=setting.controllers, options=options, election=election, keep=True)
    waiting = do_in_order(cluster, composed.actions(scenario))
    _go_on(cluster, checker, waiting, quiet, setting, composed)
    trace = cluster.trace
    return Run(
        setting=setting.name,
        seed=seed,
        faults=plan,
        violations=checker.violations,
        struck=cluster.injector.struck,
        checked=checker.checked,
        seconds=cluster.clock.monotonic(),
        steps=cluster.world.steps,
        digest="" if trace is None else trace.digest,
        end={} if checker.violations else composed.end_state(cluster),
        trace=trace.last(60) if trace is not None and checker.violations else [],
    )


def _go_on(
    cluster: SimulatedCluster,
    checker: InvariantChecker,
    waiting: list[Action],
    quiet: Quiet,
    setting: Setting,
    composed: Composition,
) -> None:
    """Until it has settled and stayed so, or an invariant is violated."""

    def failed() -> bool:
        return bool(checker.violations)

    if cluster.run_until(failed, within=setting.faults):
        return
    until = setting.faults + setting.settled
    while waiting or not composed.is_settled(cluster):
        if cluster.clock.monotonic() >= until:
            left = [*(action.text for action in waiting), *composed.unsettled(cluster)]
            checker.fail("converges once faults have stopped", f"after {setting.settled:g} s: {'; '.join(left)}")
            return
        if cluster.run_until(failed, within=LOOK):
            return
    # A lost request is sent again after its time-out, and a silent watch is renewed after its own.
    rest = max(setting.faults + LATE - cluster.clock.monotonic(), LOOK)
    if cluster.run_until(failed, within=rest):
        return
    quiet.on = True
    if cluster.run_until(failed, within=QUIET):
        return
    checker.checked["converges once faults have stopped"] += 1
    if left := [*composed.unsettled(cluster)]:
        checker.fail("what has settled stays so", "; ".join(left))
    for name, running in cluster.processes.items():
        manager = running.system.vitals.of(MANAGER, ManagerVitals)
        for actor, child in manager.children.items() if manager is not None else ():
            checker.checked["every actor lives or is reported"] += 1
            if not child.alive and not child.gave_up:
                checker.fail("every actor lives or is reported", f"{actor} of {name} is dead")
