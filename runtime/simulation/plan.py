"""Plans drawn from a seed: some faults of every kind there is, at random, all of them over by the end."""

from __future__ import annotations

import random
from collections.abc import Sequence

from runtime.simulation.faults import Fault, Kind

STATUSES = (409, 410, 429, 500, 503, 504)
RESOURCES = ("*", "*", "pods", "replicasets", "deployments", "replicationcontrollers")
MOST_FAULTS = 10

# A crashed actor is started again at most 8 times in 5 minutes, by design: a plan stays below that.
MOST_CRASHES = 2


def draw_plan(
    seed: int,
    *,
    seconds: float,
    process: str = "manager*",
    actors: Sequence[str],
    kinds: Sequence[Kind] = tuple(Kind),
    least: int = 2,
    most: int = MOST_FAULTS,
) -> tuple[Fault, ...]:
    """From `least` to `most` faults that begin and end within so many seconds. actors: names to choose victims from."""
    chance = random.Random(f"plan {seed}")
    return tuple(
        draw_fault(chance, chance.choice(kinds), seconds=seconds, process=process, actors=actors)
        for _ in range(chance.randint(least, most))
    )


def draw_fault(chance: random.Random, kind: Kind, *, seconds: float, process: str, actors: Sequence[str]) -> Fault:
    """One fault of this kind, with everything about it at random."""
    start = round(chance.uniform(0.0, seconds * 0.7), 2)
    until = round(chance.uniform(start + 0.1 * (seconds - start), seconds), 2)
    actor = chance.choice([*actors, "*"])
    resource = chance.choice(RESOURCES)
    rate = round(chance.choice((0.1, 0.3, 0.5, 1.0)), 3)
    delay = round(chance.choice((0.05, 0.5, 5.0, 20.0)), 2)
    match kind:
        case Kind.ACTOR_CRASHED | Kind.ACTOR_VANISHED | Kind.ACTOR_BROKEN:
            crashes = chance.randint(1, MOST_CRASHES)
            return Fault(kind=kind, start=start, until=until, rate=rate, most=crashes, process=process, actor=actor)
        case Kind.ACTOR_HUNG:
            hung = chance.choice((0.0, 1.0, 10.0, 50.0))
            return Fault(
                kind=kind, start=start, until=until, rate=rate, most=1, seconds=hung, process=process, actor=actor
            )
        case Kind.MESSAGE_DELAYED:
            return Fault(
                kind=kind, start=start, until=until, rate=rate, seconds=min(delay, 5.0), process=process, actor=actor
            )
        case Kind.COMMAND_ANSWERED:
            return Fault(
                kind=kind,
                start=start,
                until=until,
                rate=rate,
                status=chance.choice(STATUSES),
                seconds=chance.choice((0.0, 1.0, 5.0)),
                process=process,
                resource=resource,
            )
        case Kind.WATCH_REWOUND:
            amount = chance.choice((1, 5, 50))
            return Fault(kind=kind, start=start, until=until, amount=amount, process=process, resource=resource)
        case Kind.CLOCK_JUMPED:
            return Fault(
                kind=kind,
                start=start,
                until=until,
                seconds=chance.choice((-3600.0, -5.0, 5.0, 3600.0)),
                process=process,
            )
        case Kind.SERVER_RESTARTED | Kind.SERVER_AWAY:
            return Fault(kind=kind, start=start, until=round(start + chance.uniform(0.0, 10.0), 2))
        case Kind.PROCESS_CRASHED | Kind.PROCESS_PAUSED:
            return Fault(kind=kind, start=start, until=round(start + chance.uniform(0.1, 20.0), 2), process=process)
        case Kind.LEASE_STOLEN:
            return Fault(kind=kind, start=start, seconds=chance.choice((1.0, 15.0)))
        case Kind.NODE_SILENT | Kind.NODE_FLAPPING:
            node = f"hollow-node-{chance.randrange(3)}"
            return Fault(kind=kind, start=start, until=until, seconds=max(delay, 0.5), object=node)
        case Kind.ZONE_SILENT:
            return Fault(kind=kind, start=start, until=until, object=chance.choice(("zone-a", "zone-b")))
        case _:
            return Fault(
                kind=kind, start=start, until=until, rate=rate, seconds=delay, process=process, resource=resource
            )


# The bug patterns of Sun et al., Automatic Reliability Testing for Cluster Management Controllers (Sieve, OSDI 2022),
# as kinds of faults that bring them out.
STALE_STATE = (Kind.LIST_STALE, Kind.WATCH_LAGGING, Kind.WATCH_REWOUND, Kind.PROCESS_CRASHED)
UNOBSERVED_STATE = (Kind.WATCH_DROPPED, Kind.WATCH_STALLED, Kind.SERVER_RESTARTED, Kind.PARTITION, Kind.SERVER_AWAY)
INTERMEDIATE_STATE = (Kind.ACTOR_CRASHED, Kind.ACTOR_BROKEN, Kind.PROCESS_CRASHED, Kind.OUTCOME_LOST, Kind.COMMAND_LOST)
