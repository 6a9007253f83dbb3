"""Health checks that tell the truth: what each actor last said of itself, against the clock and the tables.

A check answers None when all is well, else why not, in one line. It asks no actor, since the one it is about may be
stuck; see runtime/system/vitals.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actors.engine.elector import Election
from actors.reconciliation.actor_names import ELECTOR, MANAGER, controller_name, is_controller
from runtime.scheduling.clock import Clock
from runtime.system.vitals import Vitals
from runtime.tables.table import Table

Check = Callable[[], str | None]

CRASH_LOOP = 3  # failures that are remembered, from which on a restarted actor counts as crash-looping
STUCK_AFTER = 60.0  # seconds that the manager may say nothing
STANDSTILL = 600.0  # seconds that keys may wait while no other is begun, and no answer comes
SYNC_WITHIN = 60.0  # seconds that a new controller may wait for its tables
LEASE_MARGIN = 20.0  # seconds beyond the lease's duration, as upstream's leaderElection check has it


def child_trouble(child: Mapping[str, Any]) -> str | None:
    """What the manager says of one of its children."""
    if child.get("gave_up"):
        return f"failed too often and is left stopped: {child.get('last_error')}"
    if not child.get("alive"):
        if child.get("started_at") is None and not child.get("failures"):
            return None  # its turn has not come
        return f"is down, to be restarted: {child.get('last_error') or 'not started yet'}"
    if child.get("failures", 0) >= CRASH_LOOP:
        return f"is crash-looping ({child['failures']} failures): {child.get('last_error')}"
    return None


def table_trouble(table: Table, *, silence_limit: float, now: float) -> str | None:
    """A table is deaf once the watch that should have been renewed is silent still."""
    if not table.synced:
        return f"the table of {table.resource} is not synced"
    age = table.age(now)
    if age is not None and age > 2 * silence_limit:
        return f"the table of {table.resource} has not heard from the server for {age:.0f} s"
    return None


def controller_trouble(vitals: Mapping[str, Any], *, now: float, since: float) -> str | None:
    """What a controller says of itself. since: when it was started, for one that does not get ready."""
    if not vitals:
        return "has not said anything yet"
    if not vitals["ready"] and now - since > SYNC_WITHIN:
        waiting = ", ".join(vitals["waiting_for_tables"]) or "its own earlier writes"
        return f"still waits for {waiting}"
    if vitals["ready"] and vitals["queued"] and not vitals["paused"] and now - vitals["moved"] > STANDSTILL:
        return f"is stuck: {vitals['queued']} keys wait, and nothing happened for {now - vitals['moved']:.0f} s"
    return None


def controller_check(
    name: str, *, vitals: Vitals, tables: Mapping[str, Table], clock: Clock, silence_limit: float
) -> Check:
    """The check of one controller. name: canonical. tables: those that it reads."""

    def check() -> str | None:
        now = clock.monotonic()
        child = vitals.of(MANAGER).get("children", {}).get(controller_name(name))
        if child is None:
            return None  # switched off
        trouble = child_trouble(child)
        if trouble is None and child["started_at"] is None:
            return None
        if trouble is None:
            trouble = controller_trouble(vitals.of(controller_name(name)), now=now, since=child["started_at"])
        for table in tables.values():
            trouble = trouble or table_trouble(table, silence_limit=silence_limit, now=now)
        return trouble

    return check


def leader_check(*, vitals: Vitals, election: Election, clock: Clock) -> Check:
    """Fails only while we believe to lead and have not renewed for longer than the lease lasts, and a margin."""

    def check() -> str | None:
        said = vitals.of(ELECTOR)
        if said.get("leading") and clock.monotonic() - said["renewed_at"] > election.lease_duration + LEASE_MARGIN:
            return f"failed election to renew leadership on lease {election.name}"
        return None

    return check


def infrastructure_check(*, vitals: Vitals, clock: Clock) -> Check:
    """The actors that all controllers rest on: dispatcher, recorder, elector, informers; and the manager itself, which
    has nobody else to report that it is stuck.
    """

    def check() -> str | None:
        said = vitals.of(MANAGER)
        if said and clock.monotonic() - said["at"] > STUCK_AFTER:
            return f"{MANAGER} is stuck: it has said nothing for {clock.monotonic() - said['at']:.0f} s"
        children = said.get("children", {})
        for name, child in children.items():
            if not is_controller(name):
                trouble = child_trouble(child)
                if trouble is not None:
                    return f"{name} {trouble}"
        return None

    return check
