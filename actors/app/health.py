"""Health checks that tell the truth: what each actor last said of itself, against the clock and the tables.

A check returns None when all is well, else why not, in one line. It asks no actor, since the one it is about may be
stuck; see runtime/system/vitals.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kcm.actors.engine.elector import Election
from kcm.actors.engine.vitals import (
    ChildVitals,
    ControllerVitals,
    DiscoveryVitals,
    ElectorVitals,
    InWork,
    ManagerVitals,
    Misread,
)
from kcm.actors.reconciliation.actor_names import DISCOVERY, ELECTOR, MANAGER, controller_name, is_controller
from kcm.runtime.calls.listeners import SourceRunner
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.health import HealthNotice
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.view import AnyTable

Check = Callable[[], str | None]

CRASH_LOOP = 3  # failures that are remembered, from which on a restarted actor counts as crash-looping
HUNG_AFTER = 30.0  # seconds that the manager may say nothing; the watchdog waits longer
STANDSTILL = 600.0  # seconds that keys may wait while no other is begun, and no answer comes
SYNC_WITHIN = 60.0  # seconds that a new controller may wait for its tables
NAMED = 3  # calls that hang
MOST_NAMED = 5  # objects in one line
LEASE_MARGIN = 20.0  # seconds beyond the lease's duration, as upstream's leaderElection check has it


def child_trouble(child: ChildVitals) -> str | None:
    """Check one child of the manager."""
    if child.gave_up:
        return f"failed too often and is left stopped: {child.last_error}"
    if not child.alive:
        if child.started_at is None and not child.failures:
            return None  # its turn has not come
        return f"is down, to be restarted: {child.last_error or 'not started yet'}"
    if child.failures >= CRASH_LOOP:
        return f"is crash-looping ({child.failures} failures): {child.last_error}"
    return None


def table_trouble(table: AnyTable, *, silence_limit: float, now: float) -> str | None:
    """A table is deaf once the watch that should have been renewed is silent still."""
    if not table.synced:
        return f"the table of {table} is not synced"
    age = table.age(now)
    if age is not None and age > 2 * silence_limit:
        return f"the table of {table} has not heard from the server for {age:.0f} s"
    return None


def controller_trouble(vitals: ControllerVitals | None, *, now: float, since: float) -> str | None:
    """Check a controller by its vitals. since: time of its start, for a controller that does not become ready."""
    if vitals is None:
        return "has not said anything yet"
    if not vitals.ready and now - since > SYNC_WITHIN:
        waiting = ", ".join(vitals.waiting_for_tables) or "its own earlier writes"
        return f"still waits for {waiting}"
    for held in vitals.held:
        named = f"{held.queue} {held.key}".rstrip()
        if held.hangs:
            return f"hangs: {named} has held up a thread for {now - held.since:.0f} s"
        return f"hung: {named} held up a thread {now - held.since:.0f} s ago and is held back"
    if vitals.ready and vitals.queued and not vitals.paused and now - vitals.moved > STANDSTILL:
        stuck = f"is stuck: {vitals.queued} keys wait, and nothing happened for {now - vitals.moved:.0f} s"
        return stuck if vitals.longest is None else f"{stuck}; in work for longest: {_named(vitals.longest)}"
    return None


def _named(in_work: InWork) -> str:
    return f"{in_work.queue} {in_work.key}" if in_work.key else in_work.queue


def controller_check(
    name: str, *, vitals: Vitals, tables: Mapping[str, AnyTable], clock: Clock, silence_limit: float
) -> Check:
    """The check of one controller. name: canonical. tables: what it reads, as it sees it."""

    def check() -> str | None:
        now = clock.monotonic()
        manager = vitals.of(MANAGER, ManagerVitals)
        child = manager.children.get(controller_name(name)) if manager is not None else None
        if child is None:
            return None  # disabled
        trouble = child_trouble(child)
        if trouble is None and child.started_at is None:
            return None
        if trouble is None and child.started_at is not None:
            said = vitals.of(controller_name(name), ControllerVitals)
            trouble = controller_trouble(said, now=now, since=child.started_at)
        for table in tables.values():
            trouble = trouble or table_trouble(table, silence_limit=silence_limit, now=now)
        return trouble

    return check


def discovery_check(
    *,
    vitals: Vitals,
    controllers: Collection[str],
    tables: Mapping[str, Table],
    clock: Clock,
    silence_limit: float,
) -> Check:
    """Names the API groups that cannot be discovered, and the discovered resources whose tables cannot be read.

    A check of its own: one broken CustomResourceDefinition stalls its own table and what rests on it, and a probe that
    is to restart nothing for that leaves this check out (?exclude=discovery). controllers: the names of those that
    discover. tables: all, by Resource.id.
    """

    def troubles(now: float) -> Iterable[str]:
        discovery = vitals.of(DISCOVERY, DiscoveryVitals)
        for stalled in discovery.stalled if discovery is not None else ():
            if now - stalled.since > SYNC_WITHIN:
                yield f"{stalled.what} cannot be discovered: {stalled.why}"
        arriving: dict[str, float] = {}  # since when
        for name in controllers:
            said = vitals.of(controller_name(name), ControllerVitals)
            if said is not None:
                arriving.update({resource_id: said.arriving.get(resource_id, now) for resource_id in said.discovered})
        for resource_id, since in arriving.items():
            table = tables.get(resource_id)
            if table is not None and (table.synced or now - since > SYNC_WITHIN):
                trouble = table_trouble(table, silence_limit=silence_limit, now=now)
                if trouble is not None:
                    yield trouble

    return lambda: "; ".join(troubles(clock.monotonic())) or None


def unreadable_check(*, tables: Mapping[str, Table], vitals: Vitals, controllers: Iterable[str]) -> Check:
    """Names the objects that are there and cannot be read: what they may count for is held back. tables: all there are.
    controllers: those whose models may not read what a table shows.

    A HealthNotice: no restart mends it, and a liveness probe is to restart nothing for it.
    """

    def check() -> str | None:
        # Several tables may hold an object.
        found = list(
            dict.fromkeys(
                f"{table.resource} {one.key}: {one.why}"
                for table in list(tables.values())
                for one in table.unreadable()
            )
        )
        found += [f"{one.resource} {one.key}: {one.why}" for one in sorted(misread(vitals, controllers))]
        more = len(found) - MOST_NAMED
        named = "; ".join(found[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
        return HealthNotice(named) if found else None

    return check


def misread(vitals: Vitals, controllers: Iterable[str]) -> set[Misread]:
    """Return the objects that the models of these controllers could not read."""
    said = (vitals.of(controller_name(name), ControllerVitals) for name in controllers)
    return {one for each in said if each is not None for one in each.misread}


def leader_check(*, vitals: Vitals, election: Election, clock: Clock) -> Check:
    """Return a check that fails if a leader has not renewed for longer than the lease lasts, and a margin.

    A process that waits for the lease is healthy as long as its tries come to an end. If they have all failed for as
    long as a lease lasts, as RBAC forbids them or the server does not answer, the check is a HealthNotice: it names
    verb and resource and counts as failed, but a liveness probe does not restart the process, which would not help.

    Source: kubernetes v1.36 client-go/tools/leaderelection/{leaderelection,healthzadaptor}.go, Check. Differs: the
    HealthNotice; upstream reports nothing while it waits.
    """

    def check() -> str | None:
        said = vitals.of(ELECTOR, ElectorVitals)
        now = clock.monotonic()
        if said is None:
            return None
        if said.leading:
            late = now - said.renewed_at > election.lease_duration + LEASE_MARGIN
            return f"failed election to renew leadership on lease {election.name}" if late else None
        if said.failure and now - said.failing_since >= election.lease_duration:
            return HealthNotice(said.failure, shown=said.failure.partition(": ")[0])
        return None

    return check


def calls_check(calls: Calls, *, clock: Clock) -> Check:
    """Names the calls of what is outside that hang, those of a cloud provider among them.

    A check of its own: to end the process frees the threads that they hold, but calls may hang again at once. A probe
    that is to restart nothing for that leaves this check out (?exclude=calls).
    """

    def check() -> str | None:
        hung, now = calls.hung(), clock.monotonic()
        if not hung:
            return None
        named = ", ".join(f"{call.what} for {now - call.since:.0f} s" for call in hung[:NAMED])
        more = f" and {len(hung) - NAMED} more" if len(hung) > NAMED else ""
        return f"calls hang: {named}{more}"

    return check


def sources_check(listeners: Sequence[SourceRunner]) -> Check:
    """Names the sources of controllers that failed, and have not lasted for a while since."""

    def check() -> str | None:
        failed = [f"{one.name}: {one.trouble}" for one in listeners if one.trouble]
        more = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        return f"sources fail: {'; '.join(failed[:NAMED])}{more}" if failed else None

    return check


def infrastructure_check(*, vitals: Vitals, clock: Clock, hung_after: float = HUNG_AFTER) -> Check:
    """hung_after: seconds that an actor may say nothing.

    The actors that all controllers rest on: dispatcher, recorder, elector, informers; and the manager itself, which
    has no supervisor to report that it is stuck.
    """

    def check() -> str | None:
        said = vitals.of(MANAGER, ManagerVitals)
        if said is None:
            return None
        silence = clock.monotonic() - said.at
        if silence > hung_after:
            return f"{MANAGER} hangs: it has said nothing for {silence:.0f} s"
        for name, child in said.children.items():
            if not is_controller(name):
                trouble = child_trouble(child)
                if trouble is not None:
                    return f"{name} {trouble}"
        return None

    return check
