"""Simulation trial of the Endpoints controller: Endpoints match the pods that Services select."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.controllers.network.endpoints.reconciler import MANAGED_BY, MANAGER
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.network.endpointslice import selecting, wanted_endpoints
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, key_of, labels_of, make_key, name_of
from kcm.protocols.resources import ENDPOINTS, SERVICES
from kcm.protocols.services import HEADLESS


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users delete Endpoints. Actions on Services belong to the trial of the EndpointSlice controller.
    """
    chance = scenario.chance("endpoints actions")
    for at in scenario.times(chance, chance.randint(0, 3)):
        number = chance.randrange(4)

        def do(cluster: SimulatedCluster, number: int = number) -> bool:
            managed = sorted(_managed(cluster), key=name_of)
            if managed:
                cluster.delete(ENDPOINTS, key_of(managed[number % len(managed)]))
            return True

        yield Action(at, "endpoints are deleted", do)


def _managed(cluster: SimulatedCluster) -> list[Object]:
    return [
        endpoints_object
        for endpoints_object in cluster.shown(ENDPOINTS, NAMESPACE)
        if labels_of(endpoints_object).get(MANAGED_BY) == MANAGER
    ]


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    there = {name_of(service) for service in cluster.shown(SERVICES, NAMESPACE)}
    for endpoints in _managed(cluster):
        if name_of(endpoints) not in there:
            yield f"endpoints {name_of(endpoints)} exist without a service"
    for service in selecting(cluster):
        name, spec = name_of(service), service["spec"]
        found = cluster.get(ENDPOINTS, make_key(NAMESPACE, name))
        if found is None:
            yield f"service {name} has no endpoints"
            continue
        all_ready, named = bool(spec.get("publishNotReadyAddresses")), not _ports(service)
        wanted = {
            pod: ready
            for pod, (_, ready, _, deleting, _) in wanted_endpoints(cluster, service).items()
            if not named and (all_ready or not deleting)
        }
        shown = _shown(found)
        if shown != {(pod, port): ready for pod, ready in wanted.items() for port in _ports(service)}:
            yield f"service {name}: its endpoints are {shown}, but its pods {wanted}"
        labels = {**labels_of(service), MANAGED_BY: MANAGER, **({HEADLESS: ""} if spec["clusterIP"] == "None" else {})}
        if labels_of(found) != labels:
            yield f"endpoints {name} have labels {labels_of(found)}, not {labels}"


def _shown(endpoints: Object) -> Mapping[tuple[str, Any], bool]:
    """Return whether an Endpoints object has an address as ready, by (name of the pod, (name, number) of the port)."""
    return {
        (address["targetRef"]["name"], (port.get("name") or "", port["port"])): field == "addresses"
        for subset in endpoints.get("subsets") or ()
        for field in ("addresses", "notReadyAddresses")
        for address in subset.get(field) or ()
        for port in subset["ports"]
    }


def _ports(service: Object) -> list[tuple[str, int]]:
    """Return (name, target port) of each port of a Service, except for named target ports, which no pod has."""
    ports = [port for port in service["spec"].get("ports") or () if isinstance(port["targetPort"], int)]
    return [(port.get("name") or "", port["targetPort"]) for port in ports]


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    return {f"has endpoints: {name_of(endpoints)}": True for endpoints in _managed(cluster)}


TRIAL = Trial(
    controller="endpoints-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    deletes=(ENDPOINTS,),
)
