"""Fault plans that provoke the bugs of mutants. Arguments: see kcm.runtime.simulation.plan.draw_plan."""

from __future__ import annotations

from typing import Any

from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.simulation.plan import draw_plan


def stalls(seed: int, **arguments: Any) -> tuple[Fault, ...]:
    """Draw late or silent watches only."""
    return draw_plan(seed, **arguments, kinds=(FaultKind.WATCH_LAGGING, FaultKind.WATCH_STALLED))


def takeovers(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw a pause of the leader that is longer than its lease, while messages are pending."""
    start = 3.0 + seed % 50 / 10
    return (Fault(kind=FaultKind.PROCESS_PAUSED, start=start, until=start + 20.0, process="manager"),)


def http_held(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw a hold of the HTTP thread until about the end of the lease."""
    start = 2.0 + seed % 10 / 5
    return (Fault(kind=FaultKind.HTTP_HELD, start=start, until=start + 9.0 + seed % 7, process="manager*"),)


def busy_cloud(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw slow calls while the manager is cut off from the server until its lease has expired."""
    start = 10.0 + seed % 20
    return (
        Fault(kind=FaultKind.CALL_DELAYED, start=0.0, until=start + 30.0, seconds=12.0, process="manager*"),
        Fault(kind=FaultKind.PARTITION, start=start, until=start + 25.0, process="manager*"),
    )


def slow_balancers(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw delays of some calls for load balancers."""
    chance, seconds = 0.3 + seed % 5 / 10, 5.0 + seed % 7 * 3
    return (Fault(kind=FaultKind.CALL_DELAYED, rate=chance, until=100.0, seconds=seconds, resource="loadbalancers"),)


def hangs(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw a hang of the dispatcher that is long enough for a replacement, and ends later."""
    start = seed % 40 / 2
    hung = Fault(kind=FaultKind.ACTOR_HUNG, start=start, actor="dispatcher", process="manager*", most=1, seconds=50.0)
    return (hung,)


def forgetful_servers(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw two restarts of the server, which then has no event history."""
    first = 5.0 + seed % 20 / 2
    kind, away = FaultKind.SERVER_RESTARTED, 1.0 + seed % 3
    return tuple(Fault(kind=kind, start=start, until=start + away) for start in (first, first + 15.0))


def stale_pods(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw a restart of the manager, which then lists current owners and old pods."""
    crash = 20.0 + seed % 10 / 5
    return (
        Fault(kind=FaultKind.PROCESS_CRASHED, start=crash, until=crash + 0.5, process="manager*"),
        Fault(kind=FaultKind.LIST_STALE, start=crash, seconds=4.0 + seed % 4 * 3, process="manager*", resource="pods"),
    )


def late_leases(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw a temporary stall of the watch of Leases."""
    start = 20.0 + seed % 8
    return (Fault(kind=FaultKind.WATCH_STALLED, start=start, until=start + 5.0, process="manager*", resource="leases"),)


def all_silent(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw a silence of all zones, as a manager sees it that is cut off together with the server."""
    start = 15.0 + seed % 10
    return (Fault(kind=FaultKind.ZONE_SILENT, start=start, until=start + 70.0, object="zone-*"),)


def away_when_a_node_comes(seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw a crash of the manager at 28 s, for about twelve seconds."""
    return (Fault(kind=FaultKind.PROCESS_CRASHED, start=28.0, until=40.0 + seed % 5, process="manager*"),)


def nothing(_seed: int, **_arguments: Any) -> tuple[Fault, ...]:
    """Draw no faults: the actions are sufficient."""
    return ()
