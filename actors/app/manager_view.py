"""State of a running manager for explanations: its vitals, its tables and the decisions of its controllers.

It sends no message, so that it also describes controllers that hang; see decisions.py and runtime/system/vitals.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kcm.actors.app.controller_plans import client_of, elector_of, queue_name
from kcm.actors.app.health import deaf_after, table_trouble
from kcm.actors.app.shared_parts import Assembly
from kcm.actors.controllers.nodes.node_lifecycle.zone_eviction_queue import zone_queue_name
from kcm.actors.controllers.nodes.node_lifecycle.zones import ZONES
from kcm.actors.engine.controller import DecisionMemory, SyncDecision
from kcm.actors.engine.vitals import (
    ChildVitals,
    ControllerVitals,
    DispatcherVitals,
    ElectorVitals,
    ManagerVitals,
    ZoneQueueVitals,
    ZonesVitals,
)
from kcm.actors.explanation.manager_state import ControllerState, KeyReport, LeadershipState, ZoneReport
from kcm.actors.reconciliation import itself
from kcm.actors.reconciliation.actor_names import (
    DISPATCHER,
    ELECTOR,
    MANAGER,
    cluster_of_elector,
    controller_name,
    elector_name,
)
from kcm.actors.reconciliation.specs import AnyQueue, ControllerSpec
from kcm.protocols.messages.commands import in_words

MOST_AWAITED = 5  # commands of one key


class SystemView:
    """Implements kcm.actors.explanation.manager_state.ManagerView. Called from any thread.

    enabled: names of the controllers that the options enable.
    cluster: where the objects are, in a program that works on several clusters; "" in one with a single cluster.
    """

    def __init__(
        self,
        assembly: Assembly,
        controllers: Sequence[ControllerSpec],
        enabled: Sequence[str],
        *,
        cluster: str = "",
    ) -> None:
        self._assembly, self._enabled, self._cluster = assembly, frozenset(enabled), cluster
        self._specs = {spec.name: spec for spec in controllers}
        self._queues: dict[tuple[str, str], list[str]] = {}  # whose keys name objects, by controller and resource
        for spec in controllers:
            for queue in spec.queues:
                for resource_id in _named_by(queue):
                    self._queues.setdefault((spec.name, resource_id), []).append(queue_name(spec, queue))

    def leadership(self) -> LeadershipState:
        assembly = self._assembly
        manager = assembly.vitals.of(MANAGER, ManagerVitals)
        name = self._elector(manager)
        elector = assembly.vitals.of(name, ElectorVitals)
        election = assembly.elections.get(cluster_of_elector(name)) if assembly.clusters else assembly.election
        draining = manager is not None and manager.draining
        brake = assembly.brake.state if assembly.brake is not None else None
        reason, since = ("", None) if brake is None else (brake.reason, self._at(brake.since))
        if not assembly.has_lease:
            return LeadershipState(draining=draining, brake=reason, brake_since=since)
        failing_since = None if elector is None or not elector.failure else self._at(elector.failing_since)
        return LeadershipState(
            elects=True,
            leading=manager is not None and (name in manager.leads if assembly.clusters else manager.leading),
            holder=elector.holder if elector is not None else "",
            identity=election.identity if election is not None else "",
            failure=elector.failure if elector is not None else "",
            failing_since=failing_since,
            draining=draining,
            brake=reason,
            brake_since=since,
        )

    def _elector(self, manager: ManagerVitals | None) -> str:
        """Return the elector that decides about controllers of the cluster's objects: one without its lease, if any."""
        if not self._assembly.clusters:
            return ELECTOR
        names = [
            elector_of(self._assembly, spec)
            for spec in self._specs.values()
            if any(watch.resource.cluster == self._cluster for queue in spec.queues for watch in queue.watches)
        ]
        leads = manager.leads if manager is not None else frozenset()
        return next((name for name in names if name not in leads), names[0] if names else elector_name(self._cluster))

    def zone(self, name: str) -> ZoneReport | None:
        vitals = self._assembly.vitals
        zones = vitals.of(ZONES, ZonesVitals)
        state = zones.zones.get(name) if zones is not None else None
        if state is None:
            return None
        queue = vitals.of(zone_queue_name(name), ZoneQueueVitals)
        if queue is None:
            return ZoneReport(state=state.state, spared=state.spared)
        return ZoneReport(
            state=state.state,
            spared=state.spared,
            qps=queue.qps,
            is_set=queue.override is not None,
            paused=queue.paused,
            waiting=queue.waiting,
            next_nodes=queue.next_nodes,
            due=self._at(queue.due),
        )

    def interested(self, resource_id: str) -> list[str]:
        wanted = self._on_cluster(resource_id)
        return [name for name, resource in self._queues if resource == wanted and name in self._enabled]

    def _on_cluster(self, resource_id: str) -> str:
        return f"{self._cluster}:{resource_id}" if self._cluster else resource_id

    def controller(self, name: str) -> ControllerState:
        spec = self._specs.get(name)
        if spec is None:
            return ControllerState(name=name, known=False)
        manager = self._assembly.vitals.of(MANAGER, ManagerVitals)
        child = manager.children.get(controller_name(name)) if manager is not None else None
        if child is None:
            elsewhere = self._assembly.elsewhere(name) if name in self._enabled else None
            # Before its lease a manager has no controllers, whether they are enabled or not.
            is_shown = manager is None or not manager.leading or elsewhere is not None
            return ControllerState(
                name=name, enabled=name in self._enabled and is_shown, alive=False, elsewhere=elsewhere
            )
        return self._state(spec, child)

    def _state(self, spec: ControllerSpec, child: ChildVitals) -> ControllerState:
        name, client = spec.name, client_of(spec)
        vitals = self._assembly.vitals.of(controller_name(name), ControllerVitals)
        dispatcher = self._assembly.vitals.of(DISPATCHER, DispatcherVitals)
        return ControllerState(
            name=name,
            alive=child.alive,
            started=self._at(child.started_at),
            ready=vitals is not None and vitals.ready,
            paused=vitals is not None and vitals.paused,
            waiting_for=vitals.waiting_for_tables if vitals is not None and not vitals.ready else (),
            gave_up=child.gave_up,
            failures=child.failures,
            last_error=child.last_error,
            busy_since=self._at(child.busy_since),
            held=tuple(f"{held.queue} {held.key}" for held in vitals.held) if vitals is not None else (),
            denied=tuple(self._denied(vitals)) if vitals is not None else (),
            tables=tuple(self._troubled_tables(name)),
            client=client,
            throttled=len(dispatcher.queues.get(client, ())) if dispatcher is not None else 0,
        )

    @staticmethod
    def _denied(vitals: ControllerVitals) -> Iterator[str]:
        for right in vitals.denied:
            where = f" in {right.namespace}" if right.namespace else ""
            yield f"cannot {right.verb} {right.resource}{where}: {right.message}"

    def _troubled_tables(self, name: str) -> Iterator[str]:
        options, now = self._assembly.options, self._assembly.clock.monotonic()
        oldest = deaf_after(options.health, options.generic.watch_silence_limit)
        for table in self._assembly.seen[name].values():
            trouble = table_trouble(table, deaf_after=oldest, now=now)
            if trouble is not None:
                yield trouble

    def keys(self, name: str, resource_id: str, key: str) -> list[KeyReport]:
        decisions = self._assembly.decisions.get(name)
        if decisions is None:
            return []
        queues = self._queues.get((name, self._on_cluster(resource_id)), ())
        return [report for queue in queues for report in self._reports(name, decisions, queue, key)]

    def _reports(self, name: str, decisions: DecisionMemory, queue: str, key: str) -> list[KeyReport]:
        decision = _shown(decisions, queue, key)
        vitals = self._assembly.vitals.of(controller_name(name), ControllerVitals)
        sources = vitals.sources if vitals is not None else ()
        state = next((source.state_of(key) for source in sources if source.name == queue), None)
        if decision is None and state is None:
            return []
        awaited = decisions.awaited(queue, key) if state is not None and state.taken is not None else []
        report = self._decided(queue, decision)
        if state is None:
            return [report]
        return [
            KeyReport(
                queue=queue,
                queued=self._at(state.queued),
                due=self._at(state.due),
                taken=self._at(state.taken),
                failures=state.failures,
                awaited=tuple(in_words(command) for command in awaited[:MOST_AWAITED]),
                began=report.began,
                ended=report.ended,
                reasons=report.reasons,
                commands=report.commands,
                refusals=report.refusals,
                error=report.error,
                again=report.again,
            )
        ]

    def _decided(self, queue: str, decision: SyncDecision | None) -> KeyReport:
        if decision is None:
            return KeyReport(queue=queue)
        commands = [str(command) for command in decision.commands]
        if decision.more:
            commands.append(f"and {decision.more} more")
        return KeyReport(
            queue=queue,
            began=self._at(decision.began),
            ended=self._at(decision.ended),
            reasons=decision.reasons,
            commands=tuple(commands),
            refusals=tuple(command.message for command in decision.commands if command.message),
            error=decision.error,
            again=decision.again,
        )

    def _at(self, monotonic: float | None) -> float | None:
        """Return a monotonic time in Unix seconds."""
        if monotonic is None:
            return None
        clock = self._assembly.clock
        return clock.now() - (clock.monotonic() - monotonic)


def _shown(decisions: DecisionMemory, queue: str, key: str) -> SyncDecision | None:
    """Return the latest decision about a key, or the one before it if the latest found nothing to do.

    After most writes their own events enqueue the key once more. Then the sync that wrote is the one of interest.
    """
    latest = next((decision for decision in decisions.of(key) if decision.queue == queue), None)
    if latest is None or latest.reasons or latest.sent or latest.error or latest.again is not None:
        return latest
    of_key = (found for found in reversed(decisions.recent()) if found.queue == queue and str(found.key) == key)
    before = next(of_key, None)
    return before if before is not None and before.sent and not before.error and before.again is None else latest


def _named_by(queue: AnyQueue) -> list[str]:
    """Return the resources whose objects the keys of a queue may name: by default that of its first watch."""
    named = [watch.resource.id for watch in queue.watches if watch.to is itself]
    return list(dict.fromkeys(named)) or [watch.resource.id for watch in queue.watches[:1]]
