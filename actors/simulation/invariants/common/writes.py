"""Invariants of writes: only live actors with the lease write, and none of them writes in a loop."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping

from msgspec import Struct

from kcm.actors.engine.dispatcher.requests import request_for
from kcm.actors.engine.elector.lease import CLIENT
from kcm.actors.faults.writes import THIEF
from kcm.actors.hollow.behaviour import silence
from kcm.actors.reconciliation.actor_names import ELECTOR
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.fault_schedule import LEASE
from kcm.actors.simulation.invariants.observer import (
    Admitted,
    Called,
    Committed,
    Entitled,
    Fail,
    Observation,
    ProcessStarted,
    Sent,
    Submitted,
    decoded,
    facts_of_pod,
    only,
)
from kcm.protocols.csi import requires_attach
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.cloud import CloudCall
from kcm.protocols.messages.commands import Fetch, Get, List, in_words
from kcm.protocols.objects import controller_of, decode_object, is_deleting, make_key, name_of, namespace_of, split_key
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import (
    CSI_DRIVERS,
    LEASES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STATEFULSETS,
    VOLUME_ATTACHMENTS,
    resource_path,
    split_cluster,
    split_path,
)
from kcm.runtime.apiserver.storage.store import DELETED, MODIFIED, StoreChange
from kcm.runtime.client.api import Request

WINDOW, MOST_CALLS = 30.0, 120  # seconds; calls about one object by one client within these seconds
STOLEN = 15.0  # seconds until a leader detects that another identity has taken its lease


class NoWriteByFencedActors:
    """Invariant: a fenced actor sends no request, and the dispatcher sends none for replaced incarnations."""

    name = "no write by a fenced incarnation"
    observes = (ProcessStarted, Submitted, Admitted, Sent)

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str, str, bytes], tuple[str, int]] = {}  # by request: sender and incarnation
        self._current: dict[tuple[str, str], int] = {}  # by process and sender: admitted incarnation

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process, _):
                self._current = {sender: i for sender, i in self._current.items() if sender[0] != process}
                self._asked = {ticket: who for ticket, who in self._asked.items() if ticket[0] != process}
            case Submitted(process, _, submit):
                for command in submit.commands:
                    if not isinstance(command, Get | List | Fetch | Call | CloudCall):
                        request = request_for(command)
                        asked = (process, request.method, request.path, request.body)
                        self._asked[asked] = (submit.sender, submit.incarnation)
            case Admitted(process, name, incarnation):
                self._current[process, name] = incarnation
            case Sent(process, _, request, by_fenced):
                if by_fenced:
                    fail(f"{request.method} {request.path} is sent by a fenced actor")
                who = self._asked.get((process, request.method, request.path, request.body))
                if who is not None and who[1] < self._current.get((process, who[0]), 0):
                    fail(f"{request.method} {request.path} is sent for incarnation {who[1]} of {who[0]}")


class _Lease(Struct):
    holder: str = ""
    renewed_at: float = float("-inf")
    stolen_at: float = float("-inf")


class NoWriteWithoutLease:
    """Invariant: a manager starts no write or external call once its lease has expired or was taken over.

    With several clusters, this is the Lease of the cluster in which the controller is at home. A request that started
    in time may reach the server later; a client cannot prevent this.
    """

    name = "no write without the lease"
    observes = (ProcessStarted, Sent, Called, Entitled, only(Committed, LEASES.name))

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._homes: dict[str, dict[str, str]] = {}  # by process and client: cluster of the Lease
        self._until: dict[tuple[str, str], float] = {}  # by process and cluster: end of the permission to write
        self._leases: dict[str, _Lease] = {}  # by cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process, _):
                specs = self._cluster.processes[process].specs
                self._homes[process] = {spec.client or spec.name: spec.home_cluster for spec in specs}
                self._until = {which: until for which, until in self._until.items() if which[0] != process}
            case Entitled(process, until, cluster, group) if not group:
                self._until[process, cluster] = max(until, self._until.get((process, cluster), until))
            case Committed(changes):
                for change in changes:
                    cluster, storage = split_cluster(change.storage)
                    if storage == LEASES.name and change.key == make_key(*LEASE):
                        self._lease_changed(cluster, decoded(change.raw)["spec"].get("holderIdentity") or "")
            case Sent(process, client, request, _) if request.method != "GET" and client != CLIENT:
                home = self._homes.get(process, {}).get(client, split_path(request.path)[0])
                self._check_start(process, home, f"{request.method} {request.path}", fail)
            case Called(process, call) if not self._cluster.clusters:
                self._check_start(process, "", in_words(call), fail)

    def _lease_changed(self, cluster: str, holder: str) -> None:
        lease = self._leases.setdefault(cluster, _Lease())
        lease.holder, lease.renewed_at = holder, self._cluster.clock.monotonic()
        if holder == THIEF:
            lease.stolen_at = lease.renewed_at

    def _check_start(self, process: str, cluster: str, what: str, fail: Fail) -> None:
        running = self._cluster.processes.get(process)
        given = running.election if running is not None else None
        election = given.get(cluster) if isinstance(given, Mapping) else given
        if election is None:
            return
        groups = running.system.groups if running is not None else None
        who = election.identity if groups is None else groups.identity  # replicas with groups hold it together
        now = self._cluster.clock.monotonic()
        lease, until = self._leases.get(cluster, _Lease()), self._until.get((process, cluster))
        if until is None:
            fail(f"{who} begins {what}, but has never held the lease")
        elif now >= until:
            fail(f"{who} begins {what} {now - until:.2f} s after its permission to write has ended")
        elif now - lease.stolen_at <= STOLEN:
            return
        elif lease.holder != who:
            fail(f"{who} begins {what}, but the holder of the lease is {lease.holder!r}")
        elif now >= lease.renewed_at + election.lease_duration:
            fail(f"{who} begins {what}, but the lease has expired")


_Asked = tuple[str, str, str, bytes]  # process, client, path or call, and body or arguments


class NoHotLoop:
    """Invariant: no client sends more than MOST_CALLS equal requests or external calls within WINDOW seconds.

    Requests for the status of an object have an additional allowance: one for each change of a pod that the status may
    count. These are the owned pods, or for a PodDisruptionBudget all pods in its namespace. A pod that is recreated
    under the same name is another object.
    """

    name = "no hot loop"
    observes = (Sent, Called, only(Committed, PODS.plural))

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._times: dict[_Asked, deque[float]] = {}  # by request or call: its times
        self._of_pods: dict[str, list[_Asked]] = {}  # by path of a pod: requests for it and its subresources
        self._pods: deque[tuple[float, StoreChange]] = deque()  # (time, change) of pods within the window

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Called(process, Call() as call):
                self._count((process, "a controller", in_words(call), call.arguments), fail)
            case Sent(process, client, request) if not request.query.get("watch"):
                made = request.body if request.method == "POST" else b""
                self._count((process, client, request.path, made), fail)
            case Committed(changes):
                now = self._clock.monotonic()
                self._pods.extend((now, change) for change in changes if change.storage == "pods")
                while self._pods and self._pods[0][0] < now - WINDOW:
                    self._pods.popleft()
                for change in changes:
                    if change.storage == "pods" and change.type == DELETED:
                        self._forget(resource_path(PODS.id, *split_key(change.key)))

    def _forget(self, pod: str) -> None:
        for asked in self._of_pods.pop(pod, ()):
            del self._times[asked]

    def _count(self, asked: _Asked, fail: Fail) -> None:
        times = self._times.get(asked)
        if times is None:
            times = self._times[asked] = deque()
            if pod := _POD.match(asked[2]):
                self._of_pods.setdefault(pod[0], []).append(asked)
        now = self._clock.monotonic()
        times.append(now)
        while times and times[0] < now - WINDOW:
            times.popleft()
        if len(times) > MOST_CALLS and len(times) > MOST_CALLS + self._reasons(asked[2], now):
            fail(f"{asked[1]} requested {asked[2]} {len(times)} times within {WINDOW:g} s")

    def _reasons(self, path: str, now: float) -> int:
        """Return the number of changes of pods within the window that justify a status write to this path."""
        written = _STATUS.fullmatch(path)
        if written is None:
            return 0
        recent = (change for at, change in self._pods if at >= now - WINDOW)
        return sum(_concerns(change, *written.groups()) and _counts_otherwise(change) for change in recent)


_POD = re.compile(r"/api/v1/namespaces/[^/]+/pods/[^/]+")
_STATUS = re.compile(r"/apis/(?:policy|apps|batch)/v1/namespaces/([^/]+)/([^/]+)/([^/]+)/status")


def _concerns(change: StoreChange, namespace: str, plural: str, name: str) -> bool:
    """Report whether the status of an object may count the changed pod.

    It may if the object is a PodDisruptionBudget in the pod's namespace, or the pod's owner.
    """
    if split_key(change.key)[0] != namespace:
        return False
    owner = controller_of(decoded(change.raw))
    return plural == POD_DISRUPTION_BUDGETS.plural or (
        owner is not None and (f"{owner.kind.lower()}s", owner.name) == (plural, name)
    )


def _counts_otherwise(change: StoreChange) -> bool:
    """Report whether a pod was created or deleted, or changed its labels, its readiness or its deletion mark."""
    if change.type != MODIFIED:
        return True
    before, after = map(facts_of_pod, (change.previous, change.raw))
    return (before.labels, before.deleting, before.ready) != (after.labels, after.deleting, after.ready)


_UNCOUNTED = ("/events", "/leases", "accessreviews")


class Quiet:
    """Invariant: managers write nothing once the system has settled, which is checked while `on` is set.

    Leases, events and access reviews are not counted. Two writes may be late, as upstream. A StatefulSet may retry the
    creation of a pod with backoff while a pod of another owner with the same name is terminating on a silent node. A
    VolumeAttachment may be deleted that was created before its CSIDriver object, which requires none: when the
    attachment has timed out, or never, if the controller was restarted.
    """

    name = "a settled system writes nothing"
    observes = (Sent,)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.on = False
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        if self.on and isinstance(observation, Sent) and observation.process.startswith("manager"):
            request = observation.request
            if observation.client in (CLIENT, ELECTOR) or not _counts(request):
                return
            if not self._is_kept_waiting(request) and not self._is_unnecessary_attachment(request):
                fail(f"{observation.client} writes {request.method} {request.path}")

    def _is_kept_waiting(self, request: Request) -> bool:
        """Report whether a StatefulSet creates a pod whose name belongs to a terminating pod on a silent node."""
        if request.method != "POST" or not request.path.endswith("/pods"):
            return False
        asked = decode_object(request.body)
        owner = controller_of(asked)
        there = self._cluster.get(PODS, make_key(namespace_of(asked), name_of(asked))) if name_of(asked) else None
        if owner is None or owner.kind != STATEFULSETS.kind or there is None:
            return False
        node = self._cluster.get(NODES, pod_facts(there).node) if pod_facts(there).node else None
        is_silent = node is not None and silence(node, now=self._cluster.clock.now()).silent
        return is_silent and is_deleting(there) and controller_of(there) != owner

    def _is_unnecessary_attachment(self, request: Request) -> bool:
        """Report whether a VolumeAttachment is deleted whose CSI driver does not require attachment."""
        resource, _, name = request.path.rpartition("/")
        if request.method != "DELETE" or not resource.endswith(f"/{VOLUME_ATTACHMENTS.plural}"):
            return False
        attachment = self._cluster.get(VOLUME_ATTACHMENTS, name)
        return attachment is not None and not requires_attach(
            self._cluster.get(CSI_DRIVERS, attachment["spec"]["attacher"])
        )


def _counts(request: Request) -> bool:
    return request.method != "GET" and not any(part in request.path for part in _UNCOUNTED)
