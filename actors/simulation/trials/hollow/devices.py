"""Simulation trial of hollow devices and of preemption.

Users annotate nodes with devices, create pods with claims of their own or shared ones, or with an extended resource,
delete them, and create urgent pods for which others are preempted.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from kcm.actors.hollow.device_pools import DEVICES, device_pools, slices_of
from kcm.actors.hollow.scheduler.devices.claim_facts import claim_references, devices_of
from kcm.actors.hollow.scheduler.devices.extended_resources import extended_names
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.devices import DevicesAllocatedOnce, PriorityOfVictims
from kcm.actors.simulation.trials.actions import create, delete, merge, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, NOTHING, Action, Scenario
from kcm.actors.simulation.trials.silence import is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.node_affinity import terms_of
from kcm.protocols.objects import Object, is_deleting, labels_of, make_key, name_of
from kcm.protocols.pod_resources import pod_requests
from kcm.protocols.pods import is_terminal, pod_facts
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.quota.amounts import ZERO
from kcm.protocols.resource_claims import allocation_of
from kcm.protocols.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from kcm.protocols.tolerations import find_toleration

PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io", version="v1", plural="priorityclasses", kind="PriorityClass", namespaced=False
)
DRIVER, EXTENDED = "gpu.example.com", "example.com/gpu"
ROOM = {"uses": "room"}  # labels of pods that compete for the CPU of nodes
USER = {"uses": "hollow-devices"}  # labels of pods with claims
TEMPLATE, SHARED = "one-gpu", "shared-gpu"
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("device actions")
    expression = f'device.driver == "{DRIVER}"'
    spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": EXTENDED}
    yield create(round(chance.uniform(0.1, 0.5), 2), DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": spec})
    yield create(0.5, PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
    demand = {"spec": {"devices": {"requests": [REQUEST]}}}
    yield create(0.5, RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": TEMPLATE}, "spec": demand})
    yield create(1.0, RESOURCE_CLAIMS, {"metadata": {"name": SHARED}, "spec": demand["spec"]})
    for node in scenario.nodes.keep(chance, 3):
        for at in scenario.times(chance, chance.randint(1, 2), first=1.0):
            yield merge(at, NODES, node, {"metadata": {"annotations": {DEVICES: f"{DRIVER}={chance.randint(1, 2)}"}}})
    for number in range(chance.randint(3, 7)):
        yield from _device_user(scenario, chance, f"gpu-user-{number}")
    for number in range(chance.randint(1, scenario.fleet.nodes + 2)):
        yield create(2.0, PODS, _pod(scenario, f"large-{number}", cpu="20"))
    for number, at in enumerate(scenario.times(chance, chance.randint(0, 2), first=6.0)):
        yield create(at, PODS, _pod(scenario, f"urgent-{number}", cpu="20", priorityClassName="urgent"))


def _device_user(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions on a pod with one or two claims, or an extended resource: create it, and often delete it."""
    made, removed = scenario.times(chance, 2, first=1.5)
    entries: list[Object] = [{"name": "own", "resourceClaimTemplateName": TEMPLATE}]
    drawn = chance.random()
    if drawn < 0.3:
        entries = [{"name": "shared", "resourceClaimName": SHARED}]
    elif drawn < 0.5:
        entries.append({"name": "second", "resourceClaimTemplateName": TEMPLATE})
    pod = _pod(scenario, name, resourceClaims=entries)
    if scenario.chance(f"extended resource of {name}").random() < 0.3:
        pod = _pod(scenario, name, requests={EXTENDED: "1"})
    yield create(made, PODS, {**pod, "metadata": {"name": name, "labels": USER}})
    if chance.random() < 0.5:
        key = make_key(NAMESPACE, name)
        yield unless_gone(delete(round(removed + 0.01, 2), PODS, key), PODS, key)


def _pod(scenario: Scenario, name: str, *, cpu: str = "", requests: Mapping[str, str] = NOTHING, **spec: Any) -> Object:
    container: Object = {"name": "c", "image": "v1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    if requests:
        container["resources"] = {"requests": requests, "limits": requests}
    whole = {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 1, **spec}
    return {"metadata": {"name": name, "labels": ROOM}, "spec": {**whole, **scenario.pod}}


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    nodes = {name_of(node): node for node in cluster.shown(NODES)}
    slices = {name_of(slice_): slice_ for slice_ in _slices(cluster)}
    for node in nodes.values():
        if not is_silent(node):
            yield from _wrong_slices(node, slices)
    free = _free_devices(cluster, slices.values(), nodes)
    claims = {name_of(claim): claim for claim in cluster.shown(RESOURCE_CLAIMS, NAMESPACE)}
    for pod in cluster.shown(PODS, NAMESPACE):
        facts = pod_facts(pod)
        if facts.node or facts.deleting or is_terminal(facts):
            continue
        if labels_of(pod) == ROOM:
            if pod["spec"].get("priority") and _has_room(cluster, pod, nodes.values()):
                yield f"pod {name_of(pod)} has priority, but is not bound"
            continue
        if labels_of(pod) != USER:
            continue
        used = [claims.get(reference.name or "") for reference in claim_references(pod)]
        wanted = len(extended_names(pod))
        if not (used or wanted) or any(claim is None or is_deleting(claim) for claim in used):
            continue
        allocations = [allocation_of(claim) for claim in used if claim is not None]
        missing = allocations.count(None) + wanted
        for name, number in free.items():
            if number >= missing and all(_is_usable(allocation, name) for allocation in allocations):
                yield f"pod {name_of(pod)} is not bound, but {number} devices of {name} are free"
                break


def _has_room(cluster: SimulatedCluster, pod: Object, nodes: Iterable[Object]) -> bool:
    """Report whether the CPU of a node suffices for a pod and for the pods on the node that it may not preempt.

    Nodes with a taint that repels the pod do not count. Where users silence nodes, all others may be occupied.
    """
    free = {name_of(node): _allocatable_cpu(node) for node in nodes if not _repels(node, pod)}
    for other, facts in cluster.shown_pods():
        is_protected = (other["spec"].get("priority") or 0) >= pod["spec"]["priority"]
        if is_protected and facts.node in free and not is_terminal(facts):
            free[facts.node] -= pod_requests(other).get("cpu", ZERO).value
    return max(free.values(), default=Decimal(-1)) >= pod_requests(pod)["cpu"].value


def _allocatable_cpu(node: Object) -> Decimal:
    return parse_quantity(((node.get("status") or {}).get("allocatable") or {}).get("cpu", 0))


def _repels(node: Object, pod: Object) -> bool:
    taints = node.get("spec", {}).get("taints") or ()
    return any(
        taint["effect"] != "PreferNoSchedule" and find_toleration(pod["spec"].get("tolerations"), taint) is None
        for taint in taints
    )


def _is_usable(allocation: Mapping[str, Any] | None, node: str) -> bool:
    """Report whether a pod on the node may use a claim with this allocation; None if it is not allocated."""
    selector = (allocation or {}).get("nodeSelector")
    return selector is None or any(term.matches(node, {}) for term in terms_of(selector))


def _slices(cluster: SimulatedCluster) -> list[Object]:
    """Return the slices that the hollow device driver has published."""
    return [slice_ for slice_ in cluster.shown(RESOURCE_SLICES) if slice_["spec"]["driver"] == DRIVER]


def _wrong_slices(node: Object, slices: Mapping[str, Object]) -> Iterator[str]:
    for pool in device_pools(node):
        for wanted in slices_of(pool, node, generation=1):
            found = slices.get(name_of(wanted))
            if found is None or found["spec"].get("devices") != wanted["spec"]["devices"]:
                yield f"ResourceSlice {name_of(wanted)} does not have the devices of {name_of(node)}"


def _free_devices(
    cluster: SimulatedCluster, slices: Iterable[Object], nodes: Mapping[str, Object]
) -> Mapping[str, int]:
    """Return the number of devices that are not allocated, by node."""
    used = {
        device
        for claim in cluster.shown(RESOURCE_CLAIMS, NAMESPACE)
        for device, _ in devices_of(allocation_of(claim) or {})
    }
    free: dict[str, int] = {}
    for slice_ in slices:
        node = slice_["spec"].get("nodeName")
        if node in nodes and not nodes[node].get("spec", {}).get("taints"):
            pool = slice_["spec"]["pool"]["name"]
            names = {device["name"] for device in slice_["spec"].get("devices") or ()}
            free[node] = len(names - {device.device for device in used if device.pool == pool})
    return free


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    # A permanently silent node may not have published its last annotation.
    silent = {name_of(node) for node in cluster.shown(NODES) if is_silent(node)}
    return {
        "devices": sorted(
            (name_of(slice_), len(slice_["spec"].get("devices") or ()))
            for slice_ in _slices(cluster)
            if slice_["spec"].get("nodeName") not in silent
        )
    }


TRIAL = Trial(
    controller="hollow-devices-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda _cluster, _options: (DevicesAllocatedOnce(), PriorityOfVictims()),
    deletes=(RESOURCE_SLICES,),
)
