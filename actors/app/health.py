"""Health checks, which compare the last vitals of each actor with the clock and the tables.

A check returns None if there is no problem, otherwise the reason in one line. It sends no message to an actor, because
the actor that it checks may hang; see runtime/system/vitals.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kcm.actors.engine.elector import Election
from kcm.actors.engine.vitals import (
    FAILED_KEYS,
    ChildVitals,
    ControllerVitals,
    CoordinatorVitals,
    DeniedRight,
    DiscoveryVitals,
    ElectorVitals,
    InWork,
    ManagerVitals,
    Misread,
    RecorderVitals,
    SourceVitals,
)
from kcm.actors.options.general import HealthThresholds
from kcm.actors.reconciliation.actor_names import (
    DISCOVERY,
    GROUP_COORDINATOR,
    MANAGER,
    MIGRATION_ELECTOR,
    RECORDER,
    controller_name,
    elector_name,
    group_elector_name,
    is_controller,
)
from kcm.runtime.calls.listeners import SourceRunner
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.limiters import StormBrake
from kcm.runtime.serving.health import HealthFailure, HealthNotice, shown_of
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.view import AnyTable

Check = Callable[[], str | None]
BRAKE_CHECK = "storm-brake"


def never(_table: AnyTable) -> bool:
    return False


CRASH_LOOP = 3  # recent failures from which on a restarted actor counts as crash-looping
HUNG_AFTER = 30.0  # seconds without new vitals of the manager; the watchdog waits longer
SYNC_WITHIN = 60.0  # seconds that a new controller may wait for its tables
NAMED = 3  # hung calls, or failed sources, that are named in one line
REFUSED_EVENTS = 3  # refused events in a row, after which a check fails
REFUSED_EVENTS_SHOWN = 600.0  # seconds after the last refused event
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


def table_trouble(table: AnyTable, *, deaf_after: float, now: float) -> str | None:
    """Check that a table is synced and current. deaf_after: its maximum age in seconds."""
    failure = table.failure()
    because = f": {failure}" if failure else ""
    if not table.synced:
        return f"the table of {table} is not synced{because}"
    age = table.age(now)
    if age is not None and age > deaf_after:
        return f"the table of {table} has not heard from the server for {age:.0f} s{because}"
    return None


def deaf_after(thresholds: HealthThresholds, silence_limit: float) -> float:
    """Return the maximum age of a table. By default a silent watch is renewed once before a check fails."""
    return thresholds.deaf_after or 2 * silence_limit


def controller_trouble(
    vitals: ControllerVitals | None, *, now: float, since: float, thresholds: HealthThresholds
) -> str | None:
    """Check a controller by its vitals. since: time of its start, for a controller that does not become ready.

    A result begins with its condition if the controller is stuck, failing or starved.
    """
    if vitals is None:
        return "has not said anything yet"
    if not vitals.ready and now - since > SYNC_WITHIN:
        waiting = ", ".join(vitals.waiting_for_tables) or "its own earlier writes"
        return f"still waits for {waiting}"
    for held in vitals.held:
        named = f"{held.queue} {held.key}".rstrip()
        if held.hangs:
            return _failure("stuck", f"{named} has held up a thread for {now - held.since:.0f} s")
        return _failure("stuck", f"{named} held up a thread {now - held.since:.0f} s ago and is held back")
    if not vitals.ready or vitals.paused:
        return None
    if vitals.denied and thresholds.failing_after:
        return _denied(vitals.denied, now=now)
    for source in vitals.sources:
        if (trouble := failing(source, now=now, thresholds=thresholds)) is not None:
            return trouble
    return starved(vitals, now=now, thresholds=thresholds)


def brake_check(brake: StormBrake, *, clock: Clock) -> Check:
    """Return a check that fails while the storm brake is engaged. No restart releases the cause, so it is a notice."""

    def check() -> str | None:
        state = brake.state
        if state is None:
            return None
        seconds = clock.monotonic() - state.since
        return _notice("engaged", f"for {seconds:.0f} s, {state.reason}; deletions and evictions are held back")

    return check


def stuck(child: ChildVitals, *, now: float, thresholds: HealthThresholds) -> str | None:
    """Check that the actor of a controller does not handle the same message for too long.

    After --actor-hang-timeout the manager replaces the actor; then controller_trouble reports the key that hung.
    """
    seconds = 0.0 if child.busy_since is None else now - child.busy_since
    if not thresholds.stuck_after or seconds < thresholds.stuck_after:
        return None
    return _failure("stuck", f"its actor has been handling the same message for {seconds:.0f} s")


def failing(source: SourceVitals, *, now: float, thresholds: HealthThresholds) -> str | None:
    """Check that not every sync of this work queue or pass fails.

    If only few of many known keys failed, other keys may be fine but had no event, so these failures do not count. The
    result is a HealthNotice, because a restart repairs neither a missing right nor a bug of a controller.
    """
    history = source.history
    seconds = now - history.failing_since
    if (
        not thresholds.failing_after
        or history.failures < thresholds.failing_syncs
        or seconds < thresholds.failing_after
    ):
        return None
    known, failed = source.known_keys(), history.failed_keys
    if known is not None and len(failed) < min(known, FAILED_KEYS):
        return None
    if not known and not source.pending():
        return None  # all failed keys were deleted or dropped
    last = history.succeeded_at
    success = "no success since the start" if last is None else f"the last success was {now - last:.0f} s ago"
    return _notice(
        "failing",
        f"{history.failures} syncs of {source.name} in a row failed, for {seconds:.0f} s; {success}; "
        f"last error: {history.last_error}",
    )


def _denied(rights: Sequence[DeniedRight], *, now: float) -> HealthNotice:
    """Return the result for rights that a controller lacks. Its public part names verb and resource."""
    first, more = rights[0], len(rights) - 1
    where = f" in {first.namespace}" if first.namespace else ""
    cannot = f"cannot {first.verb} {first.resource}"
    others = f"; and {more} more rights" if more else ""
    return HealthNotice(
        f"failing: {cannot}{where}, refused {first.times} times in {now - first.since:.0f} s: {first.message}{others}",
        shown=f"failing: {cannot}",
    )


def refused_events(recorder: RecorderVitals | None, client: str, *, now: float) -> str | None:
    """Check that the server does not refuse the events of this client.

    Events are not retried, so a refusal is reported for REFUSED_EVENTS_SHOWN seconds.
    """
    refused = recorder.refused.get(client) if recorder is not None else None
    if refused is None or refused.times < REFUSED_EVENTS or now - refused.last > REFUSED_EVENTS_SHOWN:
        return None
    cannot = f"cannot {refused.verb} events"
    return HealthNotice(
        f"failing: {cannot}, refused {refused.times} times in {now - refused.since:.0f} s: {refused.message}",
        shown=f"failing: {cannot}",
    )


def starved(vitals: ControllerVitals, *, now: float, thresholds: HealthThresholds) -> str | None:
    """Check that no key waits too long in a work queue.

    The result is a HealthNotice while syncs still begin or receive responses: after a restart all keys wait again.
    """
    limit = thresholds.starved_after
    waiting = [oldest for source in vitals.sources if (oldest := source.oldest_waiting()) is not None]
    if not limit or not waiting:
        return None
    oldest = min(waiting, key=lambda key: key.since)
    seconds = now - max(oldest.since, vitals.may_begin_since)
    if seconds < limit:
        return None
    loads = [source.counted() for source in vitals.sources]
    ready = sum(load.queued + (load.due is not None and load.due <= now) for load in loads)
    text = f"{_named(oldest)} has waited in its queue for {seconds:.0f} s, with {ready} keys ready"
    idle = now - vitals.work.moved
    if idle < limit:
        return _notice("starved", text)
    text += f"; nothing happened for {idle:.0f} s"
    running = [load.longest for load in loads if load.longest is not None]
    if running:
        text += f"; in work: {_named(min(running, key=lambda key: key.since))}"
    return _failure("starved", text)


def deaf(tables: Iterable[AnyTable], *, now: float, deaf_after: float) -> str | None:
    """Check that each table is synced, and was refreshed recently. deaf_after: maximum age in seconds."""
    for table in tables:
        trouble = table_trouble(table, deaf_after=deaf_after, now=now)
        if trouble is not None:
            return _failure("deaf", trouble) if table.synced else trouble
    return None


def _failure(condition: str, text: str) -> HealthFailure:
    return HealthFailure(f"{condition}: {text}", shown=condition)


def _notice(condition: str, text: str) -> HealthNotice:
    return HealthNotice(f"{condition}: {text}", shown=condition)


def _named(in_work: InWork) -> str:
    return f"{in_work.queue} {in_work.key}" if in_work.key else in_work.queue


def controller_check(
    name: str,
    *,
    client: str,
    vitals: Vitals,
    tables: Mapping[str, AnyTable],
    clock: Clock,
    thresholds: HealthThresholds,
    silence_limit: float,
    recorder: str = RECORDER,
    is_away: Callable[[AnyTable], bool] = never,
) -> Check:
    """Return the check of one controller, which distinguishes stuck, deaf, failing and starved controllers.

    name: its canonical name.
    client: name of its API client.
    tables: the tables that it reads, as it sees them.
    silence_limit: seconds after which a watch without events and bookmarks is opened again.
    recorder: actor that writes its events.
    is_away: reports whether the cluster of a table, one of several, does not respond. A restart of the process would
        not help, but stop the controllers of the other clusters, so the result is a HealthNotice then.
    """
    oldest = deaf_after(thresholds, silence_limit)

    def check() -> str | None:
        now = clock.monotonic()
        manager = vitals.of(MANAGER, ManagerVitals)
        child = manager.children.get(controller_name(name)) if manager is not None else None
        if child is None:
            return None  # disabled
        if (trouble := child_trouble(child)) is not None:
            return trouble
        if child.started_at is None:
            return None
        controller = vitals.of(controller_name(name), ControllerVitals)
        away = [table for table in tables.values() if is_away(table)]
        present = [table for table in tables.values() if table not in away]
        trouble = controller_trouble(controller, now=now, since=child.started_at, thresholds=thresholds)
        if away and trouble is not None and controller is not None and not controller.ready and not controller.held:
            trouble = HealthNotice(trouble, shown="deaf")
        of_away = deaf(away, now=now, deaf_after=oldest)
        return _together(
            stuck(child, now=now, thresholds=thresholds),
            trouble,
            refused_events(vitals.of(recorder, RecorderVitals), client, now=now) if thresholds.failing_after else None,
            deaf(present, now=now, deaf_after=oldest),
            None if of_away is None else HealthNotice(of_away, shown="deaf"),
        )

    return check


def has_begun(name: str, vitals: Vitals) -> bool:
    """Report whether the manager has started this controller, once at least, and has not disabled it since.

    Source: kubernetes v1.36 cmd/kube-controller-manager/app/controllermanager.go, BuildControllers: a controller that
    is disabled, by its feature gate for example, has no health check.
    """
    manager = vitals.of(MANAGER, ManagerVitals)
    child = manager.children.get(controller_name(name)) if manager is not None else None
    return child is not None and (child.started_at is not None or child.failures > 0 or child.gave_up)


def _together(*found: str | None) -> str | None:
    """Return the results of several checks as one. It is a HealthNotice if each of them is."""
    troubles = [trouble for trouble in found if trouble is not None]
    if len(troubles) < 2:
        return troubles[0] if troubles else None
    kind = HealthNotice if all(isinstance(trouble, HealthNotice) for trouble in troubles) else HealthFailure
    shown = dict.fromkeys(shown_of(trouble) for trouble in troubles)
    return kind("; ".join(troubles), shown=", ".join(shown))


def discovery_check(
    *,
    vitals: Vitals,
    controllers: Collection[str],
    tables: Mapping[str, Table],
    clock: Clock,
    deaf_after: float,
) -> Check:
    """Return a check for API groups whose discovery fails, and for discovered resources whose tables cannot be read.

    It is a separate check, because a broken CustomResourceDefinition affects only its own table and the controllers
    that read it. A liveness probe that should not restart the process for that excludes it (?exclude=discovery).

    controllers: names of the controllers that discover resources.
    tables: all tables, by Resource.id.
    deaf_after: maximum age of a table in seconds.
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
                trouble = table_trouble(table, deaf_after=deaf_after, now=now)
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


def leader_check(*, vitals: Vitals, election: Election, clock: Clock, cluster: str = "") -> Check:
    """Return a check that fails if a leader has not renewed its lease within the lease duration and a margin.

    A process that waits for the lease is healthy while it can read it. If all its requests have failed for the lease
    duration (RBAC forbids them, or the server does not respond), the result is a HealthNotice with verb and resource:
    the check fails, but a liveness probe does not restart the process, which would not help.

    cluster: where the Lease is, in a program that works on several.

    With groups of controllers, the Leases of the groups and those of the replicas are checked as well.

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

    leases = {elector_name(cluster): election.name}
    if election.migration is not None:
        leases[MIGRATION_ELECTOR] = election.migration.lease
    if election.groups is not None:
        from kcm.actors.engine.elector.groups import group_lease  # few managers have groups

        names = [group.name for group in election.groups.groups]
        leases |= {group_elector_name(name): group_lease(election.name, name) for name in names}

    def uncoordinated() -> str | None:
        coordinator = vitals.of(GROUP_COORDINATOR, CoordinatorVitals)
        if coordinator is None or not coordinator.failure:
            return None
        if clock.monotonic() - coordinator.failing_since < election.lease_duration:
            return None
        return HealthNotice(coordinator.failure, shown=coordinator.failure.partition(": ")[0])

    def check() -> str | None:
        found = (trouble(name, lease) for name, lease in leases.items())
        return next((text for text in found if text is not None), None) or uncoordinated()

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
