"""One run: a setting, a seed and its faults, from the first wish until all has settled and stayed so.

A run is determined by its seed: what people wish, what goes wrong and when, and who works when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.engine.elector import Election
from actors.reconciliation.actor_names import MANAGER
from actors.simulation import SimulatedCluster
from actors.simulation.campaign.scenarios import Wish, enter_wishes
from actors.simulation.campaign.setting import SCENARIOS, USUAL, Setting
from actors.simulation.invariants.observing import InvariantChecker, Violation
from actors.simulation.invariants.usual import usual_invariants
from actors.simulation.invariants.writes import Quiet
from runtime.cloud.fake import FakeCloud
from runtime.faults.vocabulary import Fault, FaultKind
from runtime.logs.standard_log import quiet_log

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
    struck: Counter[FaultKind]
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
    checker = InvariantChecker(cluster, [*usual_invariants(cluster), quiet, *setting.invariants(cluster, scenario)])
    setting.prepare(cluster)
    fleet = setting.fleet(scenario)
    cluster.hollow_nodes(nodes=fleet.nodes, zones=fleet.zones)
    elections = setting.elections(scenario)
    for number in range(max(1, elections)):
        election = Election(identity=f"manager-{number + 1}") if elections else None
        options = setting.options(scenario)
        cluster.manager(controllers=setting.controllers, options=options, election=election, keep=True)
    waiting = enter_wishes(cluster, setting.wishes(scenario))
    _go_on(cluster, checker, waiting, quiet, setting)
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
        end={} if checker.violations else setting.end_state(cluster),
        trace=trace.last(60) if trace is not None and checker.violations else [],
    )


def _go_on(
    cluster: SimulatedCluster, checker: InvariantChecker, waiting: list[Wish], quiet: Quiet, setting: Setting
) -> None:
    """Until it has settled and stayed so, or an invariant is violated."""

    def failed() -> bool:
        return bool(checker.violations)

    if cluster.run_until(failed, within=setting.faults):
        return
    until = setting.faults + setting.settled
    while waiting or setting.unsettled(cluster):
        if cluster.clock.monotonic() >= until:
            left = [wish.text for wish in waiting] + setting.unsettled(cluster)
            checker.fail("converges once faults have stopped", f"after {setting.settled:g} s: {'; '.join(left)}")
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
    checker.checked["converges once faults have stopped"] += 1
    if left := setting.unsettled(cluster):
        checker.fail("a wish that is reached stays so", "; ".join(left))
    for name, running in cluster.processes.items():
        for actor, facts in running.system.vitals.of(MANAGER).get("children", {}).items():
            checker.checked["every actor lives or is reported"] += 1
            if not facts["alive"] and not facts["gave_up"]:
                checker.fail("every actor lives or is reported", f"{actor} of {name} is dead")
