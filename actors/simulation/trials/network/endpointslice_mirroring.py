"""Simulation trial of the controller that mirrors Endpoints without a selector to EndpointSlices."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from kcm.actors.controllers.network.endpointslice_mirroring.mirrors import MANAGER, is_mirrored
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.ownership import Owns
from kcm.actors.simulation.trials.actions import create, merge
from kcm.actors.simulation.trials.network.endpointslice import managed_slices
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, key_of, labels_of, make_key, name_of, owner_reference
from kcm.protocols.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from kcm.protocols.services import SERVICE_NAME, SKIP_MIRROR

NAME = "outside"
KEY = make_key(NAMESPACE, NAME)
ADDRESSES = ("192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1")
PORTS = ({"port": 5432, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"})


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users create a Service without a selector and its Endpoints, change these, and falsify their slices.

    This is done in half of the scenarios.
    """
    chance = scenario.chance("mirroring actions")
    if chance.random() < 0.5:
        return
    meta = {"name": NAME, "namespace": NAMESPACE}
    yield create(1.0, SERVICES, {"metadata": meta, "spec": {"ports": [{"port": 5432}]}})
    yield create(chance.choice((0.5, 1.5)), ENDPOINTS, {"metadata": meta, "subsets": _subsets(chance)})
    changes = (_rewrite, _rewrite, _label, _skip, _tamper_with_slice)
    for at in scenario.times(chance, chance.randint(1, 5)):
        yield from chance.choice(changes)(chance, at)


def _subsets(chance: random.Random) -> list[Object]:
    ips = chance.sample(ADDRESSES, chance.randint(0, len(ADDRESSES)))
    ready = chance.randint(0, len(ips))
    some = {"addresses": [{"ip": ip} for ip in ips[:ready]], "notReadyAddresses": [{"ip": ip} for ip in ips[ready:]]}
    ports = chance.sample(PORTS, chance.randint(1, 2))
    named = [{**port, "name": str(port["port"])} for port in ports] if len(ports) > 1 else ports
    return [{**{field: found for field, found in some.items() if found}, "ports": named}] if ips else []


def _rewrite(chance: random.Random, at: float) -> Iterator[Action]:
    yield merge(at, ENDPOINTS, KEY, {"subsets": _subsets(chance)})


def _label(chance: random.Random, at: float) -> Iterator[Action]:
    changes = {"labels": {"tier": chance.choice(("back", None))}, "annotations": {"note": chance.choice(("x", None))}}
    yield merge(at, ENDPOINTS, KEY, {"metadata": changes})


def _skip(chance: random.Random, at: float) -> Iterator[Action]:
    yield merge(at, ENDPOINTS, KEY, {"metadata": {"labels": {SKIP_MIRROR: chance.choice(("true", "false", None))}}})


def _tamper_with_slice(chance: random.Random, at: float) -> Iterator[Action]:
    """Yield the action that falsifies or deletes a mirrored slice, if one exists."""
    way = chance.choice(("delete", "empty"))
    yield Action(at, f"{way} a mirrored slice", partial(_tamper, way))


def _tamper(way: str, cluster: SimulatedCluster) -> bool:
    for slice_ in managed_slices(cluster, MANAGER)[:1]:
        if way == "delete":
            cluster.delete(ENDPOINT_SLICES, key_of(slice_))
        else:
            cluster.merge(ENDPOINT_SLICES, key_of(slice_), {"endpoints": []})
    return True


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    slices = [
        endpoint_slice
        for endpoint_slice in managed_slices(cluster, MANAGER)
        if labels_of(endpoint_slice)[SERVICE_NAME] == NAME
    ]
    service, endpoints = cluster.get(SERVICES, KEY), cluster.get(ENDPOINTS, KEY)
    wanted: set[Any] = set()
    if service is not None and endpoints is not None and is_mirrored(endpoints):
        wanted = set(_of_endpoints(endpoints))
        owner = owner_reference(endpoints, api_version="v1", kind="Endpoints")
        for endpoint_slice in slices:
            if endpoint_slice["metadata"]["ownerReferences"] != [owner]:
                yield f"mirrored slice {name_of(endpoint_slice)} is not owned by the endpoints"
            if not labels_of(endpoints).items() <= labels_of(endpoint_slice).items():
                found = labels_of(endpoint_slice)
                yield f"mirrored slice {name_of(endpoint_slice)} has labels {found}, not {labels_of(endpoints)}"
    shown = [endpoint for endpoint_slice in slices for endpoint in _of_slice(endpoint_slice)]
    if set(shown) != wanted or len(shown) != len(wanted):
        yield f"mirrored slices of {NAME} have {sorted(shown)}, not {sorted(wanted)}"


def _of_endpoints(endpoints: Object) -> Iterator[tuple[str, int, bool]]:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            for field in ("addresses", "notReadyAddresses"):
                for address in subset.get(field) or ():
                    yield address["ip"], port["port"], field == "addresses"


def _of_slice(slice_: Object) -> Iterator[tuple[str, int, bool]]:
    for endpoint in slice_.get("endpoints") or ():
        for port in slice_.get("ports") or ():
            for address in endpoint["addresses"]:
                yield address, port["port"], endpoint["conditions"]["ready"]


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    mirrors = managed_slices(cluster, MANAGER)
    return {"mirrored": sorted(endpoint for mirror in mirrors for endpoint in _of_slice(mirror))}


TRIAL = Trial(
    controller="endpointslice-mirroring-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    owns=(Owns(ENDPOINTS, ENDPOINT_SLICES),),
)
