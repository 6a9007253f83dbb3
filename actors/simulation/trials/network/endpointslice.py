"""Simulation trial of the EndpointSlice controller: slices match the pods that Services select."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kcm.actors.controllers.network.endpointslice import EndpointSliceOptions
from kcm.actors.controllers.network.endpointslice.reconciler import MANAGER, MissingNodeError
from kcm.actors.controllers.network.shared.slices import identity_of
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Committed, Fail, Observation, only
from kcm.actors.simulation.invariants.ownership import Owns, storage_of
from kcm.actors.simulation.trials.network.actions import TOPOLOGY_MODE, services
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.settings import options_of
from kcm.actors.simulation.trials.silence import no_node_is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import (
    Object,
    annotations_of,
    controller_of,
    decode_object,
    key_of,
    labels_of,
    name_of,
    owner_reference,
    uid_of,
)
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import ENDPOINT_SLICES, NODES, PODS, REPLICASETS, SERVICES, STATEFULSETS
from kcm.protocols.services import MANAGED_BY, SERVICE_NAME
from kcm.runtime.apiserver.storage.store import DELETED

ZONE = "topology.kubernetes.io/zone"


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions: create and change Services, and falsify or delete their slices."""
    yield from services(scenario)
    chance = scenario.chance("endpointslice actions")
    for at in scenario.times(chance, chance.randint(0, 3)):
        yield _tamper(at, chance)


def _tamper(at: float, chance: random.Random) -> Action:
    """Return the action that falsifies or deletes a slice, if one exists."""
    way, number = chance.choice(("delete", "empty", "relabel", "rename")), chance.randrange(4)

    def do(cluster: SimulatedCluster) -> bool:
        slices = sorted(managed_slices(cluster), key=name_of)
        if slices:
            slice_ = slices[number % len(slices)]
            if way == "delete":
                cluster.delete(ENDPOINT_SLICES, key_of(slice_))
            elif way == "empty":
                cluster.merge(ENDPOINT_SLICES, key_of(slice_), {"endpoints": []})
            else:
                label = MANAGED_BY if way == "relabel" else "tier"
                cluster.merge(ENDPOINT_SLICES, key_of(slice_), {"metadata": {"labels": {label: "somebody"}}})
        return True

    return Action(at, f"{way} a slice", do)


def managed_slices(cluster: SimulatedCluster, manager: str = MANAGER) -> list[Object]:
    return [
        endpoint_slice
        for endpoint_slice in cluster.shown(ENDPOINT_SLICES, NAMESPACE)
        if labels_of(endpoint_slice).get(MANAGED_BY) == manager
    ]


def selecting(cluster: SimulatedCluster) -> Iterator[Object]:
    for service in cluster.shown(SERVICES, NAMESPACE):
        if service["spec"].get("selector"):
            yield service


def wanted_endpoints(cluster: SimulatedCluster, service: Object) -> dict[str, tuple[Any, ...]]:
    """Return the expected endpoints of a Service, by pod name, as (addresses, ready, serving, terminating, node)."""
    selector = service["spec"]["selector"]
    found = {}
    for pod, facts in cluster.shown_pods(NAMESPACE):
        if facts.ips and not is_terminal(facts) and selector.items() <= labels_of(pod).items():
            ready = bool(service["spec"].get("publishNotReadyAddresses")) or (facts.ready and not facts.deleting)
            found[name_of(pod)] = ((facts.ips,), ready, facts.ready, facts.deleting, facts.node)
    return found


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    most = options_of(cluster)[EndpointSliceOptions].max_endpoints
    zones = {name_of(node): labels_of(node).get(ZONE) for node in cluster.shown(NODES)}
    for service in selecting(cluster):
        name = name_of(service)
        slices = [
            endpoint_slice
            for endpoint_slice in managed_slices(cluster)
            if labels_of(endpoint_slice).get(SERVICE_NAME) == name
        ]
        endpoints = [endpoint for slice_ in slices for endpoint in slice_.get("endpoints") or ()]
        shown: dict[str, tuple[Any, ...]] = {}
        for endpoint in endpoints:
            conditions = (endpoint["conditions"].get(field) for field in ("ready", "serving", "terminating"))
            shown[endpoint["targetRef"]["name"]] = (tuple(endpoint["addresses"]), *conditions, endpoint.get("nodeName"))
        wanted = wanted_endpoints(cluster, service)
        if shown != wanted or len(endpoints) != len(shown):
            yield f"service {name}: its slices have {shown}, but its pods are {wanted}"
        elif not slices or any(len(endpoint_slice.get("endpoints") or ()) > most for endpoint_slice in slices):
            yield f"service {name} has {len(slices)} slices, or one of them has more than {most} endpoints"
        else:
            yield from _differences_from_service(service, slices, endpoints, zones)


def _differences_from_service(
    service: Object, slices: Sequence[Object], endpoints: Sequence[Object], zones: Mapping[str, str | None]
) -> Iterable[str]:
    name = name_of(service)
    owner = owner_reference(service, api_version="v1", kind="Service")
    for slice_ in slices:
        free = {label: value for label, value in labels_of(slice_).items() if "kubernetes.io/" not in label}
        if free != labels_of(service) or slice_["metadata"]["ownerReferences"] != [owner]:
            yield f"slice {name_of(slice_)} has labels {free} or owners other than {name}"
        ports = sorted((port["name"], port["protocol"], port["port"]) for port in slice_.get("ports") or ())
        if slice_.get("endpoints") and ports != _ports(service):
            yield f"slice {name_of(slice_)} has ports {ports}, but {name} has {_ports(service)}"
    if annotations_of(service).get(TOPOLOGY_MODE) == "Auto":
        return
    distribution = service["spec"].get("trafficDistribution")
    for endpoint in endpoints:
        # An endpoint that is published before it is ready may have been created before its node, and then has no zone.
        zone = endpoint.get("zone")
        if zone != zones.get(endpoint["nodeName"]) and (
            zone is not None or not service["spec"].get("publishNotReadyAddresses")
        ):
            node = endpoint["nodeName"]
            yield f"an endpoint of {name} is in {zone}, but its node {node} in {zones.get(node)}"
        hints: Object = {}
        if distribution and endpoint["conditions"]["ready"]:
            if zone is not None:
                hints["forZones"] = [{"name": zone}]
            if distribution == "PreferSameNode":
                hints["forNodes"] = [{"name": endpoint["nodeName"]}]
        if (endpoint["conditions"]["ready"] or not distribution) and (endpoint.get("hints") or {}) != hints:
            yield f"an endpoint of {name} has hints {endpoint.get('hints')}, but {distribution} requires {hints}"


def _ports(service: Object) -> list[tuple[str, str, int]]:
    """Return (name, protocol, target port) of a Service's ports, except for named target ports, which no pod has."""
    ports = [port for port in service["spec"].get("ports") or () if isinstance(port["targetPort"], int)]
    return sorted((port.get("name") or "", port["protocol"], port["targetPort"]) for port in ports)


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the number of endpoints of each Service, without their names, which depend on timing.

    Pods without an owner are excluded, because it depends on timing whether an owner adopted them before its deletion.
    If a node is silent, pods of Deployments and StatefulSets are excluded as well, because these workloads may wait for
    pods that terminate there.
    """
    rolled_out = {
        uid_of(replicaset)
        for replicaset in cluster.shown(REPLICASETS, NAMESPACE)
        if controller_of(replicaset) is not None
    }
    in_order = {uid_of(statefulset) for statefulset in cluster.shown(STATEFULSETS, NAMESPACE)}
    held_up = set() if no_node_is_silent(cluster) else rolled_out | in_order
    owners = {name_of(pod): controller_of(pod) for pod in cluster.shown(PODS, NAMESPACE)}
    counted = {name for name, owner in owners.items() if owner is not None and owner.uid not in held_up}
    return {
        f"endpoints of {name_of(service)}": sum(
            not endpoint["conditions"].get("terminating") and endpoint["targetRef"]["name"] in counted
            for endpoint_slice in managed_slices(cluster)
            if labels_of(endpoint_slice).get(SERVICE_NAME) == name_of(service)
            for endpoint in endpoint_slice.get("endpoints") or ()
        )
        for service in selecting(cluster)
    }


class EndpointsAreInOneSlice:
    """Invariant: no two managed slices of a Service contain the same endpoint with the same ports."""

    name = "an endpoint is in one slice"
    observes = (only(Committed, storage_of(ENDPOINT_SLICES)),)

    def __init__(self) -> None:
        self._slices: dict[str, tuple[Any, frozenset[Any]]] = {}  # by key: (owner, type and ports, endpoints)

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        for change in observation.changes:
            if change.storage != storage_of(ENDPOINT_SLICES):
                continue
            self._slices.pop(change.key, None)
            slice_ = decode_object(change.raw)
            if change.type == DELETED or labels_of(slice_).get(MANAGED_BY) != MANAGER:
                continue
            owner = [reference.get("uid") for reference in slice_["metadata"].get("ownerReferences") or ()]
            whose = (owner, slice_["addressType"], slice_.get("ports"))
            endpoints = frozenset(map(identity_of, slice_.get("endpoints") or ()))
            for key, (other, others) in self._slices.items():
                if other == whose and endpoints & others:
                    fail(f"slices {key} and {change.key} both have {sorted(endpoints & others)}")
            self._slices[change.key] = whose, endpoints


def _invariants(_cluster: SimulatedCluster, _options: Options) -> Iterable[EndpointsAreInOneSlice]:
    return (EndpointsAreInOneSlice(),)


TRIAL = Trial(
    controller="endpointslice-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=_invariants,
    owns=(Owns(SERVICES, ENDPOINT_SLICES),),
    raises=(MissingNodeError,),  # for pods of a deleted node, until they are deleted
)
