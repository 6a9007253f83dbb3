"""Invariants of evictions: nodes are tainted within the rate of their zone, and pods are evicted only for taints.

A decision is checked when it is made, against the nodes that the deciding process has observed: in its informer cache,
in live reads, and in the outcomes of its own commands (node_views.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.actors.controllers.nodes.node_lifecycle.zones import EvictionLimits
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import handling_delay
from kcm.actors.simulation.invariants.nodes.node_views import LIFECYCLE, NodesByProcess, no_execute
from kcm.actors.simulation.invariants.observer import (
    Committed,
    Fail,
    Observation,
    ProcessStarted,
    Submitted,
    decoded,
    facts_of_pod,
)
from kcm.protocols.messages.commands import Delete, Patch, Submit
from kcm.protocols.nodes import NO_EXECUTE, NO_EXECUTE_KEYS, node_facts, taint_keys
from kcm.protocols.objects import Key, decode_object
from kcm.protocols.resources import NODES, PODS
from kcm.protocols.tolerations import find_toleration
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange

EVICTION = controller_name("taint-eviction-controller")
# Maximum age of the information that a taint is based on, in seconds: the period of the node monitor, the wait in the
# queue of the zone, and a delayed message.
OLD = 15.0
ROUNDING = 0.01  # seconds


class TaintsWithinTheRate:
    """Invariant: nodes are tainted NoExecute no faster than the eviction rate of their zone, and not at all at rate 0.

    The rate limiter is a token bucket of size one. A token may be used late, so that the next one follows soon: in any
    period, at most one more node is tainted than a full bucket permits. As upstream, a process that resumes after a
    pause may use a token before it monitors the nodes again, because it cannot detect that its information is old.
    """

    name = "zones are evicted at their rate"

    def __init__(self, cluster: SimulatedCluster, limits: EvictionLimits) -> None:
        self._clock = cluster.clock
        self._views = NodesByProcess(cluster, limits)
        self._old = OLD + handling_delay(cluster.injector.faults)
        self._tainted_at: dict[str, float] = {}  # by uid of a node: time of its taint on the server
        # By process: incarnation of the controller, and by uid of a node the zone and the time of a submitted taint.
        self._asked: dict[str, tuple[int, dict[str, tuple[str, float]]]] = {}

    def observe(self, observation: Observation, fail: Fail) -> None:
        self._views.observe(observation)
        match observation:
            case ProcessStarted(process, _):
                self._asked.pop(process, None)
            case Committed(changes):
                for change in changes:
                    if change.storage == NODES.plural:
                        self._committed(change)
            case Submitted(process, _, submit) if submit.sender == LIFECYCLE:
                for command in submit.commands:
                    if isinstance(command, Patch) and command.resource == NODES.id and not command.subresource:
                        self._patched(process, submit, command, fail)

    def _committed(self, change: StoreChange) -> None:
        facts = node_facts(decoded(change.raw))
        if change.type == DELETED or not facts.no_execute:
            self._tainted_at.pop(facts.uid, None)
        else:
            self._tainted_at.setdefault(facts.uid, self._clock.monotonic())

    def _patched(self, process: str, submit: Submit, command: Patch, fail: Fail) -> None:
        taints = (decode_object(command.body).get("spec") or {}).get("taints") or ()
        view = self._views.of(process)
        node = view.node(submit.sender, command.key)
        if node is None or not taint_keys(taints, NO_EXECUTE) & NO_EXECUTE_KEYS:
            return
        facts = node_facts(node)
        if facts.no_execute:
            return
        self._views.sample()
        now, zone = self._clock.monotonic(), facts.zone
        incarnation, asked = self._asked.get(process, (0, {}))
        if incarnation != submit.incarnation:
            asked = {}
        asked[facts.uid] = (zone, now)
        self._asked[process] = submit.incarnation, asked
        if view.highest_rate(zone, now - self._old) == 0:
            fail(f"{command.key} is tainted, but the eviction rate of {zone} is 0")
            return
        times = {uid: when for uid, (where, when) in asked.items() if where == zone}
        for entry in view.system.tables[NODES.id].entries():
            if entry.facts.zone == zone and entry.facts.no_execute and entry.uid not in times:
                times[entry.uid] = self._tainted_at.get(entry.uid, now)
        for first in sorted(times.values()):
            allowed = int(view.highest_rate(zone, first - self._old) * (now - first + ROUNDING)) + 2
            tainted = sum(1 for when in times.values() if when >= first)
            if tainted > allowed:
                fail(f"{command.key} is one of {tainted} nodes of {zone} tainted within {now - first:.3f} s")
                return


class EvictionsHaveACause:
    """Invariant: taint eviction deletes a pod only if its node has a NoExecute taint and its toleration has ended."""

    name = "evictions have a cause"

    def __init__(self, cluster: SimulatedCluster, limits: EvictionLimits) -> None:
        self._clock = cluster.clock
        self._views = NodesByProcess(cluster, limits)
        self._bound_at: dict[Key, tuple[str, float]] = {}  # by key of a pod: its uid, and the time of its binding

    def observe(self, observation: Observation, fail: Fail) -> None:
        self._views.observe(observation)
        match observation:
            case Committed(changes):
                for change in changes:
                    if change.storage == PODS.plural:
                        self._committed(change)
            case Submitted(process, _, submit) if submit.sender == EVICTION:
                self._views.sample()  # the eviction may be based on a state before the latest writes
                for command in submit.commands:
                    if isinstance(command, Delete) and command.resource == PODS.id:
                        self._deleted(process, submit.sender, command, fail)

    def _committed(self, change: StoreChange) -> None:
        if change.type == DELETED:
            self._bound_at.pop(change.key, None)
            return
        pod = decoded(change.raw)
        if pod["spec"].get("nodeName") and self._bound_at.get(change.key, ("",))[0] != pod["metadata"]["uid"]:
            self._bound_at[change.key] = pod["metadata"]["uid"], self._clock.monotonic()

    def _deleted(self, process: str, sender: str, command: Delete, fail: Fail) -> None:
        view = self._views.of(process)
        entry = view.system.tables[PODS.id].get(command.key)
        if entry is None or entry.uid != command.uid:
            return
        pod, name = decoded(entry.raw), facts_of_pod(entry.raw).node
        node = view.node(sender, name)
        if node is None:
            return  # as upstream, the toleration continues to elapse while the node does not exist
        if not no_execute(node):
            fail(f"{command.key} is evicted from {name}, which is not tainted")
            return
        tainted = view.tainted.get(name)
        if tainted is None:
            return  # only a live read has returned the taint, so its time is unknown
        tolerations = pod["spec"].get("tolerations") or ()
        due = min(_stay(tolerations, taints) for taints in {*tainted.seen, no_execute(node)})
        since = max(tainted.since, self._bound_at.get(command.key, ("", 0.0))[1])
        if self._clock.monotonic() - since < due - ROUNDING:
            stayed = self._clock.monotonic() - since
            fail(f"{command.key} is evicted from {name} after {stayed:.1f} s, but tolerates its taints for {due:g} s")


def _stay(tolerations: Sequence[Mapping[str, Any]], taints: Sequence[tuple[str, str, str]]) -> float:
    """Return the number of seconds for which all the taints are tolerated; infinity for no limit."""
    seconds = float("inf")
    for key, value, effect in taints:
        toleration = find_toleration(tolerations, {"key": key, "value": value, "effect": effect})
        if toleration is None:
            return 0.0
        if toleration.get("tolerationSeconds") is not None:
            seconds = min(seconds, max(0.0, float(toleration["tolerationSeconds"])))
    return seconds
