"""Pods that use tainted devices: when each must be evicted, and an invariant for their evictions.

The times are computed from whole objects, independently of the controller's code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.app.system import ControllerSystem
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import handling_delay
from kcm.actors.simulation.invariants.observer import Committed, Fail, Observation, Submitted, decoded, only
from kcm.protocols.messages.commands import Delete
from kcm.protocols.objects import Object, decode_object, key_of, namespace_of, uid_of
from kcm.protocols.resources import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.storage.store import DELETED

CONTROLLER = "device-taint-eviction-controller"
RESOURCES = (PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_TAINT_RULES)
SECOND = 1.0  # resolution of timeAdded, and of conditions


class Devices:
    """Claims, slices and rules, which determine evictions."""

    def __init__(self, claims: Iterable[Object], slices: Iterable[Object], rules: Iterable[Object]) -> None:
        self.claims = {key_of(claim): claim for claim in claims}
        self.rules = list(rules)
        self._slices = list(slices)
        self._newest: dict[tuple[str, str], int] = {}
        for slice_ in self._slices:
            pool = _pool(slice_)
            generation = slice_["spec"]["pool"]["generation"]
            self._newest[pool] = max(generation, self._newest.get(pool, generation))

    def evictions(self, pod: Object) -> Iterator[tuple[float, str]]:
        """Yield the time of each eviction that a taint requires, with the rule's name or "" for a taint in a slice."""
        if not pod["spec"].get("nodeName"):
            return
        for entry in pod["spec"].get("resourceClaims") or ():
            claim = self.claims.get(f"{namespace_of(pod)}/{entry.get('resourceClaimName')}")
            status = (claim or {}).get("status") or {}
            if uid_of(pod) in {consumer.get("uid") for consumer in status.get("reservedFor") or ()}:
                for result in ((status.get("allocation") or {}).get("devices") or {}).get("results") or ():
                    for taint, rule in self._taints(result):
                        when = _due(result.get("tolerations") or (), taint)
                        if when is not None:
                            yield when, rule

    def _taints(self, result: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
        for slice_ in self._slices:
            pool = _pool(slice_)
            if pool == (result["driver"], result["pool"]):
                if slice_["spec"]["pool"]["generation"] == self._newest[pool]:
                    for device in slice_["spec"].get("devices") or ():
                        if device["name"] == result["device"]:
                            yield from ((taint, "") for taint in device.get("taints") or ())
        for rule in self.rules:
            selector = rule["spec"].get("deviceSelector")
            if selector is not None and all(result[name] == value for name, value in selector.items()):
                yield rule["spec"]["taint"], rule["metadata"]["name"]


def _pool(slice_: Object) -> tuple[str, str]:
    return slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]


def _due(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, Any]) -> float | None:
    if taint["effect"] != "NoExecute":
        return None
    seconds = [
        toleration.get("tolerationSeconds")
        for toleration in tolerations
        if toleration.get("effect") == "NoExecute" and toleration.get("key") in (None, taint["key"])
    ]
    if None in seconds:
        return None
    return parse_time(taint["timeAdded"]) + min((max(0, delay) for delay in seconds if delay is not None), default=0)


def devices_of(cluster: SimulatedCluster) -> Devices:
    """Return the objects on the server. There are no rules if they are not served."""
    rules = cluster.shown(DEVICE_TAINT_RULES) if serves_rules(cluster) else ()
    return Devices(cluster.shown(RESOURCE_CLAIMS), cluster.shown(RESOURCE_SLICES), rules)


def serves_rules(cluster: SimulatedCluster) -> bool:
    group, version = DEVICE_TAINT_RULES.group, DEVICE_TAINT_RULES.version
    return cluster.server.registry.find(group, version, DEVICE_TAINT_RULES.plural) is not None


class DeviceEvictionsHaveACause:
    """Invariant: a pod is deleted only if a taint of a device that it uses requires this by now.

    It suffices that the caches of the process contain the cause, or that it existed on the server a moment ago, because
    a cache may advance between the decision and its observation.
    """

    name = "evictions from tainted devices have a cause"
    observes = (
        only(Committed, *(resource.name for resource in RESOURCES)),
        only(Submitted, controller_name(CONTROLLER)),
    )

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._moment = SECOND + handling_delay(cluster.injector.faults)
        self._objects: dict[str, dict[str, Object]] = {_storage(resource): {} for resource in RESOURCES}
        self._caused: dict[str, float] = {}  # by uid of a pod, when a cause of its eviction was last seen

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                known = [change for change in changes if change.storage in self._objects]
                if known:
                    self._note_causes()  # before the changes
                for change in known:
                    if change.type == DELETED:
                        self._objects[change.storage].pop(change.key, None)
                    else:
                        self._objects[change.storage][change.key] = decoded(change.raw)
            case Submitted(_, system, submit) if submit.sender == controller_name(CONTROLLER):
                self._note_causes()
                for command in submit.commands:
                    if isinstance(command, Delete) and command.resource == PODS.id:
                        self._check(system, command, fail)

    def _note_causes(self) -> None:
        claims, slices, rules = (self._objects[_storage(resource)].values() for resource in RESOURCES[1:])
        devices = Devices(claims, slices, rules)
        for pod in self._objects[_storage(PODS)].values():
            if pod["spec"].get("resourceClaims") and _is_due(devices, pod, self._clock.now()):
                self._caused[uid_of(pod)] = self._clock.monotonic()

    def _check(self, system: ControllerSystem, command: Delete, fail: Fail) -> None:
        if self._clock.monotonic() - self._caused.get(command.uid or "", -self._moment) < self._moment:
            return
        claims, slices, rules = (_cached(system, resource) for resource in RESOURCES[1:])
        devices = Devices(claims, slices, rules)
        pods = [pod for pod in _cached(system, PODS) if uid_of(pod) == command.uid]
        if not any(_is_due(devices, pod, system.clock.now()) for pod in pods):
            fail(f"pod {command.key} is deleted, but no taint of its devices requires this")


def _is_due(devices: Devices, pod: Object, now: float) -> bool:
    return any(when <= now for when, _ in devices.evictions(pod))


def _storage(resource: Resource) -> str:
    return resource.name


def _cached(system: ControllerSystem, resource: Resource) -> list[Object]:
    """Return the objects of a resource in the caches of a process."""
    tables = [table for table in system.tables.values() if table.resource.id == resource.id]
    return [decode_object(entry.raw) for table in tables[:1] for entry in table.entries()]
