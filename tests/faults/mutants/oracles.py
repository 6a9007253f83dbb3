"""Invariants for the settings of mutants; they are valid in every run, but useful only for certain bugs."""

from __future__ import annotations

from collections import deque

from kcm.actors.reconciliation.actor_names import INFORMERS
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import InferredSyncs
from kcm.actors.simulation.invariants.observer import (
    Admitted,
    Fail,
    Handled,
    Observation,
    OutcomeReceived,
    ProcessStarted,
    Sent,
    Submitted,
)
from kcm.protocols.conditions import find_condition
from kcm.protocols.messages.commands import Create, Patch, Update
from kcm.protocols.nodes import LEASE_NAMESPACE
from kcm.protocols.objects import (
    Key,
    Object,
    controller_of,
    decode_object,
    is_deleting,
    key_of,
    make_key,
    metadata,
    name_of,
    split_key,
    uid_of,
)
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import (
    DEPLOYMENTS,
    LEASES,
    NODES,
    PODS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    Resource,
    resource_path,
)
from kcm.protocols.times import parse_time
from kcm.runtime.tables.table import OWNER, Table

CALM = 60.0  # seconds after the last fault
FRESH = 12.0  # seconds; slightly more than the renewal interval
WINDOW, MOST_PODS = 60.0, 60
OWNERS: dict[str, Resource] = {each.kind: each for each in (REPLICASETS, REPLICATION_CONTROLLERS)}


class NothingListedAgain:
    """After the faults, informers watch and do not list repeatedly. Only paged lists are counted."""

    name = "a watch needs no new lists"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._calm_from = max((fault.until or 0.0 for fault in cluster.injector.faults), default=0.0) + CALM
        self._lists: dict[tuple[str, str], int] = {}

    def observe(self, observation: Observation, fail: Fail) -> None:
        if (
            isinstance(observation, Sent)
            and observation.client == INFORMERS
            and self._clock.monotonic() >= self._calm_from
        ):
            if "watch" not in observation.request.query and "continue" not in observation.request.query:
                path = observation.request.path
                lists = self._lists[observation.process, path] = self._lists.get((observation.process, path), 0) + 1
                if lists > 2:
                    fail(f"{path} is listed for the {lists}. time since the faults are over")


class NoFlood:
    """Owners do not create pods in rapid succession, however often the pods fail."""

    name = "no flood of pods"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._made: dict[str, deque[float]] = {}

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Submitted):
            return
        for command in observation.submit.commands:
            owner = controller_of(decode_object(command.body)) if isinstance(command, Create) else None
            if owner is not None and command.resource == PODS.id:
                now, made = self._clock.monotonic(), self._made.setdefault(owner.uid, deque())
                made.append(now)
                while made[0] < now - WINDOW:
                    made.popleft()
                if len(made) > MOST_PODS:
                    fail(f"{owner.kind} {owner.name} asks for its {len(made)}. pod within {WINDOW:g} s")


class OwnersLive:
    """No pod is created for an owner known to be deleted at the beginning of the sync.

    No pod is adopted by a deleted owner, unless its last live read preceded the deletion.
    """

    name = "pods are made and adopted for owners that live"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._looked: dict[
            tuple[str, str], str
        ] = {}  # (process, path) → uid that was read live, unless the object was terminating
        self._syncs: InferredSyncs[bool] = InferredSyncs(cluster)  # whether the owner was known to be terminating

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Handled(process, _, request, response) if request.method == "GET" and response.status == 200:
                obj = decode_object(response.body)
                self._looked[process, request.path] = "" if is_deleting(obj) else uid_of(obj)
            case OutcomeReceived(command=command) if command is not None:
                self._syncs.settled(command)
            case ProcessStarted(process, _):
                self._syncs.started(process)
            case Admitted():
                self._syncs.admitted(*observation)
            case Submitted(process, system, submit):
                for command in submit.commands:
                    if command.resource != PODS.id or not isinstance(command, Create | Patch):
                        continue
                    owner = controller_of(decode_object(command.body))
                    if owner is None or owner.kind not in OWNERS:
                        continue
                    namespace = command.namespace if isinstance(command, Create) else command.key.split("/")[0]
                    resource, key = OWNERS[owner.kind], make_key(namespace, owner.name)
                    if isinstance(command, Create):
                        shown = system.tables[resource.id].get(key)
                        known = shown is not None and shown.uid == owner.uid and is_deleting(decode_object(shown.raw))
                        if self._syncs.submitted(
                            process, submit.sender, owner.uid, (command,), lambda known=known: known
                        ):
                            fail(f"a pod is created for {owner.kind} {key}, which is known to be going")
                    elif self._is_gone(resource, key, owner.uid):
                        path = resource_path(resource.id, namespace, owner.name)
                        if self._looked.get((process, path)) != owner.uid:
                            fail(f"{command.key} is adopted for {owner.kind} {key}, which is gone")

    def _is_gone(self, resource: Resource, key: Key, uid: str) -> bool:
        live = self._cluster.get(resource, key)
        return live is None or uid_of(live) != uid or is_deleting(live)


class OnlySilentNodesAreGivenUp:
    """No node is marked as unknown that has just renewed its Lease. For runs in which watches are not late."""

    name = "only silent nodes are given up"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Submitted):
            return
        for command in observation.submit.commands:
            if isinstance(command, Update) and command.resource == NODES.id and command.subresource == "status":
                ready = find_condition(decode_object(command.body)["status"]["conditions"], "Ready")
                lease = self._cluster.get(LEASES, make_key(LEASE_NAMESPACE, command.key))
                if ready is None or ready["status"] != "Unknown" or lease is None:
                    continue
                age = self._cluster.clock.now() - parse_time(lease["spec"]["renewTime"])
                if age < FRESH:
                    fail(f"{command.key} is given up, and has renewed its Lease {age:.0f} s ago")


class RecreateWaits:
    """Recreate creates no new pod while the tables contain an old one that may still run."""

    name = "Recreate waits for the last old pod"

    def __init__(self, _cluster: SimulatedCluster) -> None:
        pass

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Submitted):
            return
        for command in observation.submit.commands:
            if not isinstance(command, Create | Update) or command.resource != REPLICASETS.id or command.subresource:
                continue
            asked = decode_object(command.body)
            owner = controller_of(asked)
            if owner is None or owner.kind != DEPLOYMENTS.kind or not asked["spec"].get("replicas"):
                continue
            tables = observation.system.tables
            shown = tables[DEPLOYMENTS.id].get(make_key(metadata(asked)["namespace"], owner.name))
            if shown is None or (decode_object(shown.raw)["spec"].get("strategy") or {}).get("type") != "Recreate":
                continue
            for other in tables[REPLICASETS.id].indexed(OWNER, owner.uid):
                running = [pod.key for pod in tables[PODS.id].indexed(OWNER, other.uid) if not is_terminal(pod.facts)]
                if running and split_key(other.key)[1] != name_of(asked) and grows(asked, tables[REPLICASETS.id]):
                    fail(f"{name_of(asked)} is to have pods, and of {other.key} there are {running}")


def grows(asked: Object, replica_sets: Table) -> bool:
    """Report whether a write increases spec.replicas, compared to the table."""
    shown = replica_sets.get(key_of(asked))
    return shown is None or asked["spec"]["replicas"] > decode_object(shown.raw)["spec"].get("replicas", 1)
