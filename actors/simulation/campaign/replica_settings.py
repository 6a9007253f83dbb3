"""Setting of seeded runs in which three replicas share the groups of controllers, and are killed and frozen.

python -m kcm.simulate --setting groups --seed 0 --seeds 50
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kcm.actors.app.controller_groups import BUILT_IN_GROUPS
from kcm.actors.engine.elector.groups import GROUP_LABEL
from kcm.actors.reconciliation.actor_names import DISPATCHER, ELECTOR, GROUP_COORDINATOR, group_elector_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.combined_settings import combined
from kcm.actors.simulation.campaign.domain_settings import BUDGETS_SETTING, GARBAGE_SETTING, SERVICES_SETTING
from kcm.actors.simulation.campaign.runs import LATE
from kcm.actors.simulation.campaign.setting import USUAL
from kcm.actors.simulation.fault_schedule import LEASE
from kcm.actors.simulation.invariants.groups import GroupsComeToRest, NoWriteWithoutGroupLease
from kcm.actors.simulation.invariants.observer import Invariant
from kcm.actors.simulation.trials.scenario import Scenario
from kcm.protocols.objects import labels_of
from kcm.protocols.resources import LEASES
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.simulation.plan import draw_fault

REPLICAS = 3
FAULTS = 120.0  # seconds
# Each seed kills or freezes at least one replica; these faults outlast the lease, or end within it.
ENDS = (FaultKind.PROCESS_CRASHED, FaultKind.PROCESS_PAUSED)
LONGEST = 60.0  # seconds that a replica is dead or frozen
FURTHER = (
    *ENDS,
    *ENDS,
    FaultKind.PARTITION,
    FaultKind.PARTITION,
    FaultKind.HTTP_HELD,
    FaultKind.REQUEST_HELD,
    FaultKind.COMMAND_DELAYED,
    FaultKind.COMMAND_LOST,
    FaultKind.OUTCOME_LOST,
    FaultKind.COMMAND_ANSWERED,
    FaultKind.SERVER_AWAY,
    FaultKind.SERVER_RESTARTED,
    FaultKind.CLOCK_JUMPED,
    FaultKind.LEASE_STOLEN,
    FaultKind.MESSAGE_DELAYED,
    FaultKind.ACTOR_CRASHED,
    FaultKind.ACTOR_HUNG,
    FaultKind.WATCH_LAGGING,
)
ELECTING = (ELECTOR, GROUP_COORDINATOR, group_elector_name("*"), DISPATCHER)


def draw_replica_plan(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Return a plan that kills and freezes single replicas, with other faults of the way to the server and of actors.

    Half of the faults of actors concern those that take part in leader election. process: pattern of all replicas.
    """
    chance = random.Random(f"replicas {seed}")
    names = [process.replace("*", suffix) for suffix in ("", *(f"-{number}" for number in range(2, REPLICAS + 1)))]
    plan = []
    for number in range(chance.randint(2, 6)):
        kind = chance.choice(ENDS if number == 0 else FURTHER)
        targets = ELECTING if chance.random() < 0.5 else actors
        fault = draw_fault(chance, kind, seconds=seconds, process=chance.choice([*names, process]), actors=targets)
        if kind in ENDS:
            end = min(seconds, fault.start + chance.choice((2.0, 8.0, 14.0, 20.0, LONGEST)))
            fault = replace(fault, until=round(end, 2), process=chance.choice(names))
        plan.append(fault)
    return tuple(plan)


def _unheld(cluster: SimulatedCluster) -> Iterator[str]:
    """Yield a text for each group whose Lease does not name a living replica that leads."""
    leading = {
        (group, getattr(running.election, "identity", ""))
        for running in cluster.processes.values()
        if running.process.alive
        for group in running.system.groups_held()
    }
    for lease in cluster.list(LEASES, LEASE[0]):
        group, holder = labels_of(lease).get(GROUP_LABEL), lease["spec"].get("holderIdentity") or ""
        if group is not None and (group, holder) not in leading:
            yield f"group {group} is held by {holder or 'no replica'}, which does not lead"


def _invariants(cluster: SimulatedCluster, _scenario: Scenario) -> Sequence[Invariant]:
    return [NoWriteWithoutGroupLease(cluster), GroupsComeToRest(cluster, after=FAULTS + LATE)]


GROUPS_SETTING = replace(
    combined("groups", USUAL, GARBAGE_SETTING, SERVICES_SETTING, BUDGETS_SETTING),
    groups=BUILT_IN_GROUPS,
    elections=lambda _scenario: REPLICAS,
    invariants=_invariants,
    unsettled=_unheld,
    draw=draw_replica_plan,
    acting=60.0,
    faults=FAULTS,
)
