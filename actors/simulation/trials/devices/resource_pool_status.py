"""Simulation trial of the resource pool status controller.

A driver publishes pools of devices, and users request their status. The status of a request depends on its time, so
only its shape is checked. The end states of runs are not compared: as upstream, a manager whose clock was behind when
it wrote a status deletes the request an hour after the time in the status, which may be in the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.controllers.devices.resource_pool_status import NAME
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Committed, Fail, Observation, decoded, only
from kcm.actors.simulation.invariants.workloads.lifetimes import NotDeletedBeforeExpiry
from kcm.actors.simulation.trials.actions import create, delete, unless_gone
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import name_of
from kcm.protocols.resources import RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES
from kcm.protocols.times import parse_time

HOUR = 3600.0  # seconds
DRIVER, OTHER = "pools.example.com", "other.example.com"
POOLS = ("pool-a", "pool-b")


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("resource pool actions")
    for pool in POOLS:
        yield _if_served(
            create(round(chance.uniform(0.2, 3.0), 2), RESOURCE_SLICES, _slice(pool, chance.randint(0, 4)))
        )
    for number, at in enumerate(scenario.times(chance, chance.randint(1, 5), first=1.0)):
        spec: dict[str, Any] = {"driver": chance.choice((DRIVER, DRIVER, OTHER))}
        if chance.random() < 0.4:
            spec["poolName"] = chance.choice(POOLS)
        if chance.random() < 0.3:
            spec["limit"] = 1
        name = f"request-{number}"
        yield _if_served(create(at, RESOURCE_POOL_STATUS_REQUESTS, {"metadata": {"name": name}, "spec": spec}))
        if chance.random() < 0.2:
            removal = delete(round(at + 1.0, 2), RESOURCE_POOL_STATUS_REQUESTS, name)
            yield _if_served(unless_gone(removal, RESOURCE_POOL_STATUS_REQUESTS, name))


def _slice(pool: str, devices: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"slice-of-{pool}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": f"device-{number}"} for number in range(devices)],
        },
    }


def _serves_requests(cluster: SimulatedCluster) -> bool:
    resource = RESOURCE_POOL_STATUS_REQUESTS
    return cluster.server.registry.find(resource.group, resource.version, resource.plural) is not None


def _if_served(action: Action) -> Action:
    """Return the action; a cluster that does not serve requests skips it."""
    return action._replace(do=lambda cluster: not _serves_requests(cluster) or action.do(cluster))


def _unsettled(cluster: SimulatedCluster) -> Iterator[str]:
    if _serves_requests(cluster):
        for request in cluster.shown(RESOURCE_POOL_STATUS_REQUESTS):
            if request.get("status") is None:
                yield f"request {name_of(request)} has no status"


class StatusesAreComplete:
    """Invariant: the status of a request counts all devices of its pools, and is within its limit."""

    name = "the status of a pool counts its devices"
    observes = (only(Committed, RESOURCE_POOL_STATUS_REQUESTS.name),)

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.storage == RESOURCE_POOL_STATUS_REQUESTS.name:
                    self._check(decoded(change.raw), fail)

    def _check(self, request: Mapping[str, Any], fail: Fail) -> None:
        status, spec = request.get("status"), request["spec"]
        if status is None:
            return
        pools = status.get("pools") or []
        if len(pools) != min(status["poolCount"], spec["limit"]):
            fail(f"request {name_of(request)} shows {len(pools)} of {status['poolCount']} pools")
        for pool in pools:
            if pool["driver"] != spec["driver"] or pool["poolName"] != spec.get("poolName", pool["poolName"]):
                fail(f"request {name_of(request)} shows the pool {pool['poolName']} of {pool['driver']}")
            if pool["totalDevices"] != pool["allocatedDevices"] + pool["availableDevices"]:
                fail(f"request {name_of(request)} shows wrong numbers: {pool}")


def _expiry(request: Mapping[str, Any]) -> float:
    """Return the time from which a request may be deleted: 1 h after its completion, or 24 h after its creation."""
    for condition in (request.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Complete":
            return parse_time(condition["lastTransitionTime"]) + HOUR
    return parse_time(request["metadata"]["creationTimestamp"]) + 24 * HOUR


def not_deleted_early(cluster: SimulatedCluster) -> NotDeletedBeforeExpiry:
    name, storage = "no request for the status of pools is deleted early", RESOURCE_POOL_STATUS_REQUESTS.name
    return NotDeletedBeforeExpiry(cluster, name, client=NAME, storage=storage, expiry=_expiry)


TRIAL = Trial(
    controller=NAME,
    actions=_actions,
    unsettled=_unsettled,
    invariants=lambda cluster, _options: (StatusesAreComplete(), not_deleted_early(cluster)),
    deletes=(RESOURCE_POOL_STATUS_REQUESTS,),
)
