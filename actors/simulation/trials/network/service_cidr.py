"""Simulation trial of the service CIDR controller: ServiceCIDRs are ready, and are deleted once they are not needed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.controllers.network.service_cidr import FINALIZER, IS_READY, IS_TERMINATING, blocking_address, lasting
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.service_cidrs import AddressesKeepTheirRange, ClusterIpsAreReserved
from kcm.actors.simulation.trials.actions import create, delete, merge, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, finalizers_of, is_deleting, make_key, name_of
from kcm.protocols.resources import IP_ADDRESSES, SERVICE_CIDRS, SERVICES
from kcm.protocols.service_cidrs import READY, contains_address, is_ready, networks_of, parse_address

OTHERS = "example.com/hold"  # finalizer of another controller


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users create a ServiceCIDR and Services with addresses from it, and delete the ServiceCIDR. It stays until the
    Services are deleted, or another ServiceCIDR contains their addresses.
    """
    chance = scenario.chance("service CIDR actions")
    for number in range(chance.randint(1, 2)):
        yield from _Story(scenario, chance, number).actions()


class _Story:
    """Actions on the ServiceCIDRs of one range, in the order of their times."""

    def __init__(self, scenario: Scenario, chance: random.Random, number: int) -> None:
        self._chance, self._number = chance, number
        self._name = f"range-{number}"
        self._times = iter(scenario.times(chance, 14))
        self._addresses: list[str] = []

    def actions(self) -> Iterator[Action]:
        yield self._create(self._name, "0.0/24")
        for number in range(self._chance.randint(0, 2)):
            yield self._serve(number)
        if self._chance.random() < 0.5:
            yield self._falsify()
        if self._chance.random() < 0.2:
            return
        yield _delete(next(self._times), self._name)
        ending = self._chance.choice(("services", "larger", "equal", "smaller", "both", "both", "nothing"))
        if ending == "services":
            yield from self._end_services()
        elif ending in ("larger", "both"):
            yield self._create(f"{self._name}-larger", "0.0/16")
        elif ending == "smaller":
            yield self._create(f"{self._name}-smaller", "0.0/30")  # it has no address of a Service
        elif ending == "equal":
            yield self._create(f"{self._name}-equal", "0.0/24")
        if ending in ("larger", "equal", "smaller") and self._chance.random() < 0.5:
            yield _delete(next(self._times), f"{self._name}-{ending}")
            if self._chance.random() < 0.5:
                yield from self._end_services()
        if ending == "both":
            # Both ServiceCIDRs with the addresses are being deleted at the same time.
            yield _delete(next(self._times), f"{self._name}-larger")

    def _cidr(self, rest: str) -> str:
        return f"10.{150 + self._number}.{rest}"

    def _create(self, name: str, rest: str) -> Action:
        finalizers = [OTHERS] if self._chance.random() < 0.25 else []
        body: Object = {"metadata": {"name": name, "finalizers": finalizers}, "spec": {"cidrs": [self._cidr(rest)]}}
        return create(next(self._times), SERVICE_CIDRS, body)

    def _serve(self, number: int) -> Action:
        """Create a Service with an address of the range, or an IPAddress as the API server would."""
        address = self._cidr(f"0.{5 + number}")
        if self._chance.random() < 0.7:
            name = f"served-{self._number}-{number}"
            self._addresses.append(name)
            spec: Object = {"clusterIP": address, "ports": [{"port": 80}]}
            body = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
            return _if_available(create(next(self._times), SERVICES, body), address)
        parent = {"group": "gateway.networking.k8s.io", "resource": "gateways", "name": "web", "namespace": NAMESPACE}
        return create(next(self._times), IP_ADDRESSES, {"metadata": {"name": address}, "spec": {"parentRef": parent}})

    def _end_services(self) -> Iterator[Action]:
        for name in self._addresses:
            yield delete(next(self._times), SERVICES, make_key(NAMESPACE, name))

    def _falsify(self) -> Action:
        """Remove the finalizer of the controller, which adds it again."""
        changes = {"metadata": {"finalizers": None}}
        action = merge(next(self._times), SERVICE_CIDRS, self._name, changes, "loses its finalizers")
        return unless_gone(action, SERVICE_CIDRS, self._name)


def _if_available(action: Action, text: str) -> Action:
    """Return a copy of the action that is skipped if the address is in no ServiceCIDR that is ready.

    It always is, unless the creation of the ServiceCIDR was removed when a failure was reduced to fewer actions.
    """
    address = parse_address(text)
    assert address is not None

    def do(cluster: SimulatedCluster) -> bool:
        networks = [
            network for found in cluster.list(SERVICE_CIDRS) if is_ready(found) for network in networks_of(found)
        ]
        return not any(contains_address(network, address) for network in networks) or action.do(cluster)

    return action._replace(do=do)


def _delete(at: float, name: str) -> Action:
    """Return the action that deletes a ServiceCIDR, once the controller has added its finalizer.

    Otherwise it would depend on the controller's speed whether the deletion is immediate.
    """
    action = delete(at, SERVICE_CIDRS, name)

    def do(cluster: SimulatedCluster) -> bool:
        found = cluster.get(SERVICE_CIDRS, name)
        return found is not None and FINALIZER in finalizers_of(found) and action.do(cluster)

    return action._replace(do=do)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    service_cidrs, addresses = cluster.shown(SERVICE_CIDRS), cluster.shown(IP_ADDRESSES)
    for found in service_cidrs:
        name = name_of(found)
        blocked = blocking_address(found, lasting(found, service_cidrs), addresses)
        if is_deleting(found) and not blocked:
            if FINALIZER in finalizers_of(found):
                yield f"{name} is not needed, but still exists"
            continue
        if not is_deleting(found) and FINALIZER not in finalizers_of(found):
            yield f"{name} is not protected"
        wanted = IS_TERMINATING if is_deleting(found) else IS_READY
        if FINALIZER not in finalizers_of(found):
            continue
        ready = find_condition((found.get("status") or {}).get("conditions"), READY) or {}
        if any(ready.get(field) != getattr(wanted, field) for field in wanted.__struct_fields__):
            yield f"{name} has condition {ready}, not {wanted}"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the number of ServiceCIDRs of each range by their state, without those that another finalizer alone holds.

    If two of them that contain the same address are deleted, it depends on timing which one keeps its finalizer.
    """
    states = Counter(
        f"{name_of(found)[: len('range-0')]}: {'terminating' if is_deleting(found) else 'ready'} service CIDRs"
        for found in cluster.shown(SERVICE_CIDRS)
        if FINALIZER in finalizers_of(found)
    )
    return dict(states)


TRIAL = Trial(
    controller="service-cidr-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (AddressesKeepTheirRange(cluster), ClusterIpsAreReserved()),
)
