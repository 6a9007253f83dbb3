"""Random fault plans, drawn from a seed. All faults end before the end of the run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from kcm.runtime.faults.vocabulary import OF_CALLS, OF_SERVERS, OF_WEBHOOKS, Fault, FaultKind

STATUSES = (409, 410, 429, 500, 503, 504)
RESOURCES = ("*", "*", "pods", "replicasets", "deployments", "replicationcontrollers")
CLOUD_STATUSES = (409, 429, 500)
WEBHOOK_STATUSES = (404, 500, 503)
HANGS = (5.0, 40.0, 150.0)  # seconds that a call hangs; the call pool regards it as hung after 120
CLOUD_RESOURCES = ("*", "*", "instances", "routes")
NODES = ("hollow-node-0", "hollow-node-1", "hollow-node-2")
ZONES = ("zone-a", "zone-b")
# Not drawn by default, because a reconciler that blocks is a bug that the simulator detects without a fault.
ON_REQUEST = (FaultKind.RECONCILER_BLOCKED,)
WITHOUT_CALLS = tuple(kind for kind in FaultKind if kind not in (*OF_CALLS, *OF_WEBHOOKS, *ON_REQUEST))
WITH_CALLS = tuple(kind for kind in FaultKind if kind not in (*OF_WEBHOOKS, *ON_REQUEST))
MOST_FAULTS = 10

# The manager restarts a crashed actor at most 8 times in 5 minutes. A plan must stay below this limit.
MOST_CRASHES = 2


def draw_plan(
    seed: int,
    *,
    seconds: float,
    process: str = "manager*",
    actors: Sequence[str],
    nodes: Sequence[str] = NODES,
    zones: Sequence[str] = ZONES,
    resources: Sequence[str] = RESOURCES,
    kinds: Sequence[FaultKind] = WITHOUT_CALLS,
    callees: Sequence[str] = CLOUD_RESOURCES,
    clusters: Sequence[str] = (),
    least: int = 2,
    most: int = MOST_FAULTS,
) -> tuple[Fault, ...]:
    """Return a random plan of `least` to `most` faults. The same arguments give the same plan.

    seconds: length of the run in virtual seconds, within which the faults begin and end
    process: pattern of the processes that the faults strike
    actors, nodes, zones, resources: names from which the targets are drawn; "*" matches all
    kinds: kinds of faults to draw from
    callees: names of outside calls from which targets are drawn
    clusters: names of the clusters, if there are several; most faults of the network then concern one of them
    """
    chance = random.Random(f"plan {seed}")
    faults = tuple(
        draw_fault(
            chance,
            chance.choice(kinds),
            seconds=seconds,
            process=process,
            actors=actors,
            nodes=nodes,
            zones=zones,
            resources=resources,
            callees=callees,
        )
        for _ in range(chance.randint(least, most))
    )
    if not clusters:
        return faults
    chance = random.Random(f"clusters {seed}")  # of its own, so that plans for one cluster stay the same
    return tuple(
        replace(fault, cluster=chance.choice([*clusters, *clusters, "*"])) if fault.kind in OF_SERVERS else fault
        for fault in faults
    )


def draw_fault(
    chance: random.Random,
    kind: FaultKind,
    *,
    seconds: float,
    process: str,
    actors: Sequence[str],
    nodes: Sequence[str] = NODES,
    zones: Sequence[str] = ZONES,
    resources: Sequence[str] = RESOURCES,
    callees: Sequence[str] = CLOUD_RESOURCES,
) -> Fault:
    """Return a fault of a kind, with random times, rate and target. For the parameters see draw_plan.

    The order of the draws determines the plan of a seed, so it must not change.
    """
    start = round(chance.uniform(0.0, seconds * 0.7), 2)
    until = round(chance.uniform(start + 0.1 * (seconds - start), seconds), 2)
    actor = chance.choice([*actors, "*"])
    resource = chance.choice(resources)
    rate = round(chance.choice((0.1, 0.3, 0.5, 1.0)), 3)
    delay = round(chance.choice((0.05, 0.5, 5.0, 20.0)), 2)
    starting = partial(Fault, kind=kind, start=start)
    lasting = partial(starting, until=until)
    at_rate = partial(lasting, rate=rate, process=process)
    match kind:
        case FaultKind.ACTOR_CRASHED | FaultKind.ACTOR_VANISHED | FaultKind.ACTOR_BROKEN:
            return at_rate(most=chance.randint(1, MOST_CRASHES), actor=actor)
        case FaultKind.ACTOR_HUNG:
            return at_rate(most=1, seconds=chance.choice((0.0, 1.0, 10.0, 50.0)), actor=actor)
        case FaultKind.RECONCILER_BLOCKED:
            return at_rate(most=1, seconds=chance.choice((0.0, 10.0, 45.0)))
        case FaultKind.MESSAGE_DELAYED:
            return at_rate(seconds=min(delay, 5.0), actor=actor)
        case FaultKind.COMMAND_ANSWERED:
            status = chance.choice(STATUSES)
            return at_rate(status=status, seconds=chance.choice((0.0, 1.0, 5.0)), resource=resource)
        case FaultKind.WATCH_REWOUND:
            return lasting(amount=chance.choice((1, 5, 50)), process=process, resource=resource)
        case FaultKind.CLOCK_JUMPED:
            return lasting(seconds=chance.choice((-3600.0, -5.0, 5.0, 3600.0)), process=process)
        case FaultKind.SERVER_RESTARTED | FaultKind.SERVER_AWAY:
            return starting(until=round(start + chance.uniform(0.0, 10.0), 2))
        case FaultKind.PROCESS_CRASHED | FaultKind.PROCESS_PAUSED | FaultKind.HTTP_HELD:
            return starting(until=round(start + chance.uniform(0.1, 20.0), 2), process=process)
        case FaultKind.LEASE_STOLEN:
            return starting(seconds=chance.choice((1.0, 15.0)))
        case FaultKind.NODE_SILENT | FaultKind.NODE_FLAPPING:
            return lasting(seconds=max(delay, 0.5), object=chance.choice(nodes))
        case FaultKind.ZONE_SILENT:
            return lasting(object=chance.choice(zones))
        case FaultKind.CALL_HUNG:
            hung = chance.choice(HANGS)
            return at_rate(seconds=hung, resource=chance.choice(callees))
        case FaultKind.CALL_ANSWERED:
            status = chance.choice(CLOUD_STATUSES)
            return at_rate(status=status, seconds=delay, resource=chance.choice(callees))
        case FaultKind.WEBHOOK_ANSWERED:
            return lasting(rate=rate, status=chance.choice(WEBHOOK_STATUSES))
        case FaultKind.WEBHOOK_DOWN | FaultKind.WEBHOOK_SLOW | FaultKind.WEBHOOK_EXPIRED:
            return lasting(rate=rate, seconds=delay if kind is FaultKind.WEBHOOK_SLOW else 0.0)
        case _:
            return at_rate(seconds=delay, resource=chance.choice(callees) if kind in OF_CALLS else resource)


# The bug patterns of Sun et al., Automatic Reliability Testing for Cluster Management Controllers (Sieve, OSDI 2022):
# one generator for each pattern, with the same arguments as draw_plan.


def draw_stale_state(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:  # noqa: ARG001
    """Return a plan in which a process acts on stale state: lists are stale after a crash, or watches lag."""
    chance = random.Random(f"stale {seed}")
    start = round(chance.uniform(5.0, seconds * 0.8), 2)
    until = round(start + chance.uniform(0.1, 2.0), 2)
    late = round(chance.choice((2.0, 5.0, 10.0, 20.0)), 2)
    if chance.random() < 0.3:
        return (Fault(kind=FaultKind.WATCH_LAGGING, start=start, until=seconds, seconds=late, process=process),)
    return (
        Fault(kind=FaultKind.PROCESS_CRASHED, start=start, until=until, process=process),
        Fault(
            kind=FaultKind.LIST_STALE,
            start=until,
            until=seconds,
            seconds=late,
            process=process,
            resource=chance.choice(("*", "*", "pods", "replicasets")),
        ),
    )


def draw_unobserved_state(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:  # noqa: ARG001
    """Return a plan that interrupts watches, so that objects created and deleted meanwhile are never observed."""
    chance = random.Random(f"unobserved {seed}")
    plan = []
    for _ in range(chance.randint(1, 4)):
        start = round(chance.uniform(1.0, seconds * 0.9), 2)
        until = round(min(seconds, start + chance.choice((0.5, 3.0, 10.0))), 2)
        kind = chance.choice(
            (FaultKind.WATCH_DROPPED, FaultKind.PARTITION, FaultKind.SERVER_RESTARTED, FaultKind.PROCESS_CRASHED)
        )
        resource = chance.choice(RESOURCES) if kind is FaultKind.WATCH_DROPPED else "*"
        plan.append(Fault(kind=kind, start=start, until=until, process=process, resource=resource))
    return tuple(plan)


def draw_intermediate_state(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Return a plan that stops a controller between two of its writes, or loses the outcome of a write."""
    chance = random.Random(f"intermediate {seed}")
    controllers = [name for name in actors if name.startswith("controller:")]
    kinds = (
        FaultKind.ACTOR_CRASHED,
        FaultKind.ACTOR_CRASHED,
        FaultKind.ACTOR_BROKEN,
        FaultKind.OUTCOME_LOST,
        FaultKind.PROCESS_CRASHED,
    )
    plan = []
    for _ in range(chance.randint(1, 4)):
        kind = chance.choice(kinds)
        start = round(chance.uniform(0.5, seconds * 0.9), 2)
        until = round(start + 0.5, 2) if kind is FaultKind.PROCESS_CRASHED else seconds
        rate = 1.0 if kind is FaultKind.PROCESS_CRASHED else chance.choice((0.1, 0.3, 1.0))
        actor = chance.choice(controllers) if kind in (FaultKind.ACTOR_CRASHED, FaultKind.ACTOR_BROKEN) else "*"
        plan.append(Fault(kind=kind, start=start, until=until, rate=rate, most=1, process=process, actor=actor))
    return tuple(plan)
