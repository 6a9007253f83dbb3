"""Health checks, which compare the last vitals of each actor with the clock and the tables.

A check returns None if there is no problem, otherwise the reason in one line. It sends no message to an actor, because
the actor that it checks may hang; see runtime/system/vitals.py.
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
from kcm.actors.reconciliation.actor_names import (
    DISCOVERY,
    ELECTOR,
    MANAGER,
    MIGRATION_ELECTOR,
    controller_name,
    is_controller,
)
from kcm.runtime.calls.listeners import SourceRunner
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.health import HealthNotice
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.view import AnyTable

Check = Callable[[], str | None]

CRASH_LOOP = 3  # recent failures from which on a restarted actor counts as crash-looping
HUNG_AFTER = 30.0  # seconds without new vitals of the manager; the watchdog waits longer
STANDSTILL = 600.0  # seconds that keys may wait while no key is started and no outcome arrives
SYNC_WITHIN = 60.0  # seconds that a new controller may wait for its tables
NAMED = 3  # hung calls, or failed sources, that are named in one line
MOST_NAMED = 5  # objects that are named in one line
LEASE_MARGIN = 20.0  # seconds beyond the lease's duration, as in upstream's leaderElection check


def child_trouble(child: ChildVitals) -> str | None:
    """Check one child of the manager."""
    if child.gave_up:
        return f"failed too often and is left stopped: {child.last_error}"
    if not child.alive:
        if child.started_at is None and not child.failures:
            return None  # not due yet
        return f"is down, to be restarted: {child.last_error or 'not started yet'}"
    if child.failures >= CRASH_LOOP:
        return f"is crash-looping ({child.failures} failures): {child.last_error}"
    return None


def table_trouble(table: AnyTable, *, silence_limit: float, now: float) -> str | None:
    """Check that a table is synced and current. Twice the limit: a silent watch is renewed once before this fails."""
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
    """Return the check of one controller.

    name: its canonical name.
    tables: the tables that it reads, as it sees them.
    """

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
            controller = vitals.of(controller_name(name), ControllerVitals)
            trouble = controller_trouble(controller, now=now, since=child.started_at)
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
    """Return a check for API groups whose discovery fails, and for discovered resources whose tables cannot be read.

    It is a separate check, because a broken CustomResourceDefinition affects only its own table and the controllers
    that read it. A liveness probe that should not restart the process for that excludes it (?exclude=discovery).

    controllers: names of the controllers that discover resources.
    tables: all tables, by Resource.id.
    """

    def troubles(now: float) -> Iterable[str]:
        discovery = vitals.of(DISCOVERY, DiscoveryVitals)
        for stalled in discovery.stalled if discovery is not None else ():
            if now - stalled.since > SYNC_WITHIN:
                yield f"{stalled.what} cannot be discovered: {stalled.why}"
        arriving: dict[str, float] = {}  # Resource.id → since when its table has been arriving
        for name in controllers:
            found = vitals.of(controller_name(name), ControllerVitals)
            if found is not None:
                arriving.update({resource_id: found.arriving.get(resource_id, now) for resource_id in found.discovered})
        for resource_id, since in arriving.items():
            table = tables.get(resource_id)
            if table is not None and (table.synced or now - since > SYNC_WITHIN):
                trouble = table_trouble(table, silence_limit=silence_limit, now=now)
                if trouble is not None:
                    yield trouble

    return lambda: "; ".join(troubles(clock.monotonic())) or None


def unreadable_check(*, tables: Mapping[str, Table], vitals: Vitals, controllers: Iterable[str]) -> Check:
    """Return a check for unreadable objects, because of which controllers hold back creations and deletions.

    Its result is a HealthNotice, because a restart does not repair an object: liveness probes ignore it.

    tables: all tables.
    controllers: names of the controllers whose models may reject objects.
    """

    def check() -> str | None:
        # Without duplicates: several tables may contain an object.
        found = list(
            dict.fromkeys(
                f"{table.resource} {obj.key}: {obj.why}"
                for table in list(tables.values())
                for obj in table.unreadable()
            )
        )
        found += [f"{obj.resource} {obj.key}: {obj.why}" for obj in sorted(misread(vitals, controllers))]
        more = len(found) - MOST_NAMED
        named = "; ".join(found[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
        return HealthNotice(named) if found else None

    return check


def misread(vitals: Vitals, controllers: Iterable[str]) -> set[Misread]:
    """Return the objects that the models of these controllers could not read."""
    found = (vitals.of(controller_name(name), ControllerVitals) for name in controllers)
    return {obj for controller in found if controller is not None for obj in controller.misread}


def leader_check(*, vitals: Vitals, election: Election, clock: Clock) -> Check:
    """Return a check that fails if a leader has not renewed its lease within the lease duration and a margin.

    A process that waits for the lease is healthy while it can read it. If all its requests have failed for the lease
    duration (RBAC forbids them, or the server does not respond), the result is a HealthNotice with verb and resource:
    the check fails, but a liveness probe does not restart the process, which would not help.

    Source: kubernetes v1.36 client-go/tools/leaderelection/{leaderelection,healthzadaptor}.go, Check. Differs: the
    HealthNotice; upstream reports nothing while it waits.
    """

    def trouble(name: str, lease: str) -> str | None:
        elector = vitals.of(name, ElectorVitals)
        now = clock.monotonic()
        if elector is None:
            return None
        if elector.leading:
            late = now - elector.renewed_at > election.lease_duration + LEASE_MARGIN
            return f"failed election to renew leadership on lease {lease}" if late else None
        if elector.failure and now - elector.failing_since >= election.lease_duration:
            return HealthNotice(elector.failure, shown=elector.failure.partition(": ")[0])
        return None

    def check() -> str | None:
        found, migration = trouble(ELECTOR, election.name), election.migration
        return found if found is not None or migration is None else trouble(MIGRATION_ELECTOR, migration.lease)

    return check


def informer_sync_check(tables: Sequence[Table]) -> Check:
    """Return a check for tables of the infrastructure that have not been filled yet.

    Its result is a HealthNotice, because a restart does not help if the server does not serve the resource.

    Source: kubernetes v1.36 apiserver/pkg/server/healthz/healthz.go, NewInformerSyncHealthz.
    """

    def check() -> str | None:
        missing = [str(table.resource) for table in tables if not table.synced]
        return HealthNotice(f"{len(missing)} informers not started yet: {' '.join(missing)}") if missing else None

    return check


def calls_check(calls: Calls, *, clock: Clock) -> Check:
    """Return a check for hung outside calls, including those of a cloud provider.

    It is a separate check: a restart frees the threads of hung calls, but new calls may hang at once. A probe
    that should not restart the process for that excludes it (?exclude=calls).
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
    """Return a check for sources of controllers whose last finished run ended with an error."""

    def check() -> str | None:
        failed = [f"{source.name}: {source.trouble}" for source in listeners if source.trouble]
        more = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        return f"sources fail: {'; '.join(failed[:NAMED])}{more}" if failed else None

    return check


def infrastructure_check(*, vitals: Vitals, clock: Clock, hung_after: float = HUNG_AFTER) -> Check:
    """Return a check of the dispatcher, the recorder, the elector and the informers, and of the manager itself.

    The manager has no supervisor that could report that it hangs.

    hung_after: seconds without new vitals of the manager.
    """

    def check() -> str | None:
        manager = vitals.of(MANAGER, ManagerVitals)
        if manager is None:
            return None
        silence = clock.monotonic() - manager.at
        if silence > hung_after:
            return f"{MANAGER} hangs: it has said nothing for {silence:.0f} s"
        for name, child in manager.children.items():
            if not is_controller(name):
                trouble = child_trouble(child)
                if trouble is not None:
                    return f"{name} {trouble}"
        return None

    return check
