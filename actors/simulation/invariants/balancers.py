"""Invariants of cloud load balancers."""

from __future__ import annotations

from kcm.actors.controllers.cloud.service_lb.load_balancers import has_finalizer
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Committed, Fail, Observation, decoded, only
from kcm.actors.simulation.invariants.ownership import storage_of
from kcm.protocols.objects import uid_of
from kcm.protocols.resources import SERVICES
from kcm.runtime.apiserver.storage.store import DELETED
from kcm.runtime.cloud.fake import FakeCloud


class BalancersAreGuarded:
    """Invariant: a Service is not deleted and keeps its finalizer while the cloud has a load balancer for it."""

    name = "load balancers are cleaned up first"
    observes = (only(Committed, storage_of(SERVICES)),)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cloud = cluster.cloud

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed) or not isinstance(self._cloud, FakeCloud):
            return
        for change in observation.changes:
            if change.storage == storage_of(SERVICES):
                service = decoded(change.raw)
                unguarded = change.type == DELETED or not has_finalizer(service)
                if unguarded and uid_of(service) in self._cloud.load_balancers.nodes:
                    fail(f"service {change.key} has a load balancer, but was deleted or lost its finalizer")
