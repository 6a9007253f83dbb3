"""Simulation trial of the device taint eviction controller.

Drivers publish devices and taint them, for a time or until the end; administrators taint them with rules. Every pod
uses one device, through a claim of its own, which is allocated and reserved for the pod when it is created. The pods
run on nodes that no action deletes, and tolerate all taints of nodes.

The end state does not contain pods whose device was tainted only for a time: it depends on timing whether they were
evicted.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.device_taints import (
    CONTROLLER,
    SECOND,
    DeviceEvictionsHaveACause,
    devices_of,
    serves_rules,
)
from kcm.actors.simulation.trials.actions import create, delete, merge, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, is_deleting, key_of, labels_of, make_key, name_of, uid_of
from kcm.protocols.resources import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

LABEL = {"uses": "tainted-devices"}  # labels of the pods of this trial
DRIVER, POOL = "taint.example.com", "pool"
KEYS = ("broken", "hot")
DEVICES = 5
TOLERANT = "tolerant"  # prefix of the names of pods that tolerate all taints of devices
PERIOD = 10.0  # seconds between two updates of a rule's condition
LONGER_THAN_RUNS = 36_000  # seconds of a toleration that outlasts each run, also those that settle after 10 minutes


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("device taint actions")
    nodes = scenario.nodes.keep(chance, 2)
    yield _publish(round(chance.uniform(0.3, 0.9), 2), lambda _devices: None, "devices are published")
    for number in range(chance.randint(2, 6)):
        yield from _pod_actions(scenario, chance, number, chance.choice(nodes))
    for at in scenario.times(chance, chance.randint(2, 8), first=2.0):
        yield _driver_action(chance, at)
    for number in range(chance.randint(0, 2)):
        yield from map(_if_rules_are_served, _rule_actions(scenario, chance, f"rule-{number}"))


def _if_rules_are_served(action: Action) -> Action:
    """Return the action; a cluster that does not serve rules skips it."""
    return action._replace(do=lambda cluster: not serves_rules(cluster) or action.do(cluster))


def _pod_actions(scenario: Scenario, chance: random.Random, number: int, node: str) -> Iterator[Action]:
    """Yield the actions on a pod with a claim: both are created, then the pod may be deleted, or the claim released."""
    tolerant = chance.random() < 0.3
    name = f"{TOLERANT}-{number}" if tolerant else f"device-{number}"
    tolerations = [{"operator": "Exists", "effect": "NoExecute"}] if tolerant else _tolerations(chance)
    made, changed = scenario.times(chance, 2, first=1.0)
    key = make_key(NAMESPACE, name)
    yield _create_user(made, name, node, f"device-{chance.randrange(DEVICES)}", tolerations)
    drawn, at = chance.random(), round(changed + 0.01, 2)
    if tolerant:
        return
    if drawn < 0.15:
        yield unless_gone(delete(at, PODS, key), PODS, key)
    elif drawn < 0.3:
        yield _release(at, key)


def _tolerations(chance: random.Random) -> list[Object]:
    drawn = chance.random()
    if drawn < 0.4:
        return []
    toleration: Object = {
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": chance.choice((0, 4, 12, LONGER_THAN_RUNS)),
    }
    return [toleration] if drawn < 0.7 else [{**toleration, "key": chance.choice(KEYS)}]


def _create_user(at: float, name: str, node: str, device: str, tolerations: list[Object]) -> Action:
    """Return the action that creates a pod and its allocated claim."""
    pod = {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": LABEL},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": node,
            "containers": [{"name": "c", "image": "v1"}],
            "tolerations": [{"operator": "Exists"}],
            "resourceClaims": [{"name": "device", "resourceClaimName": name}],
        },
    }
    request = {"name": "r", "exactly": {"deviceClassName": DRIVER}}
    claim = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"devices": {"requests": [request]}}}
    make = create(at, PODS, pod)

    def do(cluster: SimulatedCluster) -> bool:
        if not make.do(cluster):
            return False
        cluster.create(RESOURCE_CLAIMS, claim)
        found = cluster.get(PODS, make_key(NAMESPACE, name)) or {}
        result = {"request": "r", "driver": DRIVER, "pool": POOL, "device": device, "tolerations": tolerations}
        status = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid_of(found)}],
        }
        cluster.merge(RESOURCE_CLAIMS, make_key(NAMESPACE, name), {"status": status}, subresource="status")
        return True

    return Action(at, f"pod {name} uses {device}", do)


def _release(at: float, key: str) -> Action:
    """Return the action that ends the reservation of a claim, if it still exists."""

    def do(cluster: SimulatedCluster) -> bool:
        claim = cluster.get(RESOURCE_CLAIMS, key)
        if claim is not None and not is_deleting(claim):
            cluster.merge(RESOURCE_CLAIMS, key, {"status": {"reservedFor": None}}, subresource="status")
        return True

    return Action(at, f"claim {key} is released", do)


def _driver_action(chance: random.Random, at: float) -> Action:
    """Return the action of a driver: taint a device, remove its taints, or publish the pool again."""
    number, key, effect = chance.randrange(DEVICES), chance.choice(KEYS), chance.choice(("NoExecute",) * 3 + ("None",))
    drawn = chance.random()
    if drawn < 0.55:
        taint = {"key": key, "effect": effect}
        return _publish(at, lambda devices: _taint(devices[number], taint), f"device-{number} is tainted: {taint}")
    if drawn < 0.8:
        return _publish(at, lambda devices: devices[number].pop("taints", None), f"device-{number} is untainted")
    untaint = f"devices are published again, device-{number} without taints"
    return _publish(at, lambda devices: devices[number].pop("taints", None), untaint, renew=True)


def _taint(device: Object, taint: Object) -> None:
    others = [known for known in device.get("taints") or () if known["key"] != taint["key"]]
    device["taints"] = [*others, taint]


def _publish(at: float, change: Any, text: str, *, renew: bool = False) -> Action:
    """Return the action that changes the devices of the pool.

    renew: whether to publish the devices in a new slice with a higher generation. The slice that it replaces is kept
        until the next renewal, so that the controller sees slices of two generations.
    """

    def do(cluster: SimulatedCluster) -> bool:
        slices = [slice_ for slice_ in cluster.list(RESOURCE_SLICES) if slice_["spec"]["driver"] == DRIVER]
        if not slices:
            devices: list[Object] = [{"name": f"device-{number}"} for number in range(DEVICES)]
            change(devices)
            cluster.create(RESOURCE_SLICES, _slice(1, devices))
            return True
        newest = max(slices, key=lambda slice_: slice_["spec"]["pool"]["generation"])
        devices = newest["spec"]["devices"]
        change(devices)
        if renew:
            cluster.create(RESOURCE_SLICES, _slice(newest["spec"]["pool"]["generation"] + 1, devices))
            for outdated in slices:
                if outdated is not newest:
                    cluster.delete(RESOURCE_SLICES, name_of(outdated))
        else:
            cluster.merge(RESOURCE_SLICES, name_of(newest), {"spec": {"devices": devices}})
        return True

    return Action(at, text, do)


def _slice(generation: int, devices: list[Object]) -> Object:
    pool = {"name": POOL, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "allNodes": True, "devices": devices}
    return {"metadata": {"name": f"slice-{generation}"}, "spec": spec}


def _rule_actions(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions on one rule: it is created, and sometimes changed or deleted."""
    made, changed, removed = scenario.times(chance, 3, first=1.0)
    selector = {"driver": DRIVER, "device": f"device-{chance.randrange(DEVICES)}"}
    effects = [chance.choice(("NoExecute", "NoExecute", "None", "NoSchedule")) for _ in range(2)]
    taint = {"key": chance.choice(KEYS), "effect": effects[0]}
    yield create(
        made, DEVICE_TAINT_RULES, {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}
    )
    if chance.random() < 0.5:
        at = round(changed + 0.01, 2)
        yield merge(at, DEVICE_TAINT_RULES, name, {"spec": {"taint": {"effect": effects[1]}}})
    if chance.random() < 0.3:
        removal = delete(round(removed + 0.02, 2), DEVICE_TAINT_RULES, name)
        yield unless_gone(removal, DEVICE_TAINT_RULES, name)


def _pods(cluster: SimulatedCluster) -> list[Object]:
    """Return the pods of this trial that are not being deleted."""
    pods = cluster.shown(PODS, NAMESPACE)
    # The server adds labels with the zone of the node.
    return [pod for pod in pods if LABEL.items() <= labels_of(pod).items() and not is_deleting(pod)]


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    devices, now = devices_of(cluster), cluster.clock.now()
    pending: dict[str, int] = {}
    for pod in _pods(cluster):
        times = list(devices.evictions(pod))
        if any(when <= now - SECOND for when, _ in times):
            yield f"pod {name_of(pod)} must be evicted because of the taints of its device"
        for name in {name for _, name in times if name}:
            pending[name] = pending.get(name, 0) + 1
    for rule in devices.rules:
        yield from _wrong_condition(rule, pending.get(name_of(rule), 0))


def _wrong_condition(rule: Object, pending: int) -> Iterator[str]:
    condition = find_condition((rule.get("status") or {}).get("conditions"), "EvictionInProgress")
    generation = rule["metadata"]["generation"]
    if condition is None or condition["observedGeneration"] != generation:
        yield f"rule {name_of(rule)} has no condition for generation {generation}"
        return
    effect, reason = rule["spec"]["taint"]["effect"], condition["reason"]
    if effect == "NoExecute":
        known = ("PodsPendingEviction",) if pending else ("Completed", "NotStarted")
        counted = f"{pending} pod" in condition["message"]
        if reason not in known or (pending and not counted):
            yield f"rule {name_of(rule)}: {reason} {condition['message']!r}, but {pending} pods are pending"
    elif reason != {"None": "NoEffect"}.get(effect, "OtherEffect"):
        yield f"rule {name_of(rule)}: {reason}, but its effect is {effect}"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    return {"tolerant pods": sorted(key_of(pod) for pod in _pods(cluster) if name_of(pod).startswith(TOLERANT))}


TRIAL = Trial(
    controller=CONTROLLER,
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (DeviceEvictionsHaveACause(cluster),),
    deletes=(PODS,),
)
