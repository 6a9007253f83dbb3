"""Health checks of a whole system, by name."""

from __future__ import annotations

from collections.abc import Sequence

from kcm.actors.app.health import (
    Check,
    calls_check,
    controller_check,
    deaf_after,
    discovery_check,
    informer_sync_check,
    infrastructure_check,
    leader_check,
    sources_check,
    unreadable_check,
)
from kcm.actors.app.shared_parts import Assembly
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.system.vitals import Vitals


def system_checks(
    *, assembly: Assembly, vitals: Vitals, clock: Clock, calls: Calls, controllers: Sequence[ControllerSpec]
) -> dict[str, Check]:
    """Return the checks: infrastructure, one for each part that the system has, and one for each controller."""
    silence = assembly.options.generic.watch_silence_limit
    checks: dict[str, Check] = {
        "infrastructure": infrastructure_check(
            vitals=vitals, clock=clock, hung_after=assembly.options.generic.actor_hang_timeout
        )
    }
    if assembly.election is not None:
        checks["leaderElection"] = leader_check(vitals=vitals, election=assembly.election, clock=clock)
    if assembly.own_tables:
        checks["informer-sync"] = informer_sync_check(assembly.own_tables)
    checks["calls"] = calls_check(calls, clock=clock)
    if assembly.listeners:
        checks["sources"] = sources_check(assembly.listeners)
    discovering = [spec.name for spec in controllers if spec.discovers is not None and not spec.discovers.only_shared]
    if discovering:
        checks["discovery"] = discovery_check(
            vitals=vitals,
            controllers=discovering,
            tables=assembly.tables,
            clock=clock,
            deaf_after=deaf_after(assembly.options.health, silence),
        )
    checks["unreadable-objects"] = unreadable_check(
        tables=assembly.tables, vitals=vitals, controllers=[spec.name for spec in controllers]
    )
    for spec in controllers:
        seen = assembly.seen[spec.name]
        checks[spec.name] = controller_check(
            spec.name,
            client=spec.client or spec.name,
            vitals=vitals,
            tables=seen,
            clock=clock,
            thresholds=assembly.options.health,
            silence_limit=silence,
        )
    return checks
