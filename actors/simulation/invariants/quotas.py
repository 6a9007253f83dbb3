"""That no quota is exceeded, by what the server holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.simulation import SimulatedCluster
from actors.simulation.invariants.observing import Committed, Fail, Observation
from protocols.objects import Object, name_of, namespace_of, split_key
from protocols.quantities import Quantity
from protocols.quota.amounts import read_amounts
from protocols.quota.calculation import calculate_usage
from protocols.quota.evaluators import Evaluator
from protocols.quota.pods import Pods
from protocols.quota.services import Services
from protocols.quota.volume_claims import VolumeClaims
from protocols.resources import CONFIGMAPS, PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SECRETS, SERVICES
from runtime.apiserver.storage.store import ADDED

COUNTED = {resource.name: resource for resource in (PODS, SERVICES, PERSISTENT_VOLUME_CLAIMS, CONFIGMAPS, SECRETS)}


def really_used(
    cluster: SimulatedCluster, quota: Object, names: Iterable[str], *, ago: float = 0.0
) -> Mapping[str, Quantity]:
    """What the quota's namespace uses, by what the server holds now. ago: seconds; pods that should be gone since then
    count.
    """
    evaluators = [
        Pods(lambda: cluster.clock.now() - ago),
        Services(),
        VolumeClaims(),
        Evaluator("configmaps"),
        Evaluator("secrets"),
    ]
    namespace = namespace_of(quota)

    def listed(evaluator: Evaluator) -> list[Object]:
        return cluster.list(COUNTED[evaluator.resource], namespace)

    usage = calculate_usage(quota, names, evaluators, listed)
    if usage.errors:
        raise usage.errors[0]
    return usage.used


class QuotasHold:
    """Nothing is created beyond the limits that a quota's status says are in force.

    There may be more than a quota allows: it was there before, or the limits were higher. Then there is no more of it.
    """

    name = "quotas hold"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.type == ADDED and change.storage in COUNTED:
                    self._look(change.storage, split_key(change.key)[0], fail)

    def _look(self, resource: str, namespace: str, fail: Fail) -> None:
        for quota in self._cluster.list(RESOURCE_QUOTAS, namespace):
            status = quota.get("status") or {}
            hard, known = read_amounts(status.get("hard")), read_amounts(status.get("used"))
            used = really_used(self._cluster, quota, known.keys() & hard.keys())
            for name, quantity in used.items():
                if quantity.value > hard[name].value and quantity.value > known[name].value:
                    fail(
                        f"of {resource} one is created, and {name} of quota {name_of(quota)} comes to {quantity}: it "
                        f"says that {known[name]} are used of {hard[name]}"
                    )
