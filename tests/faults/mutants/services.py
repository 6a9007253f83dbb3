"""Mutants of the controllers of Services."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from kcm.actors.controllers.cloud.service_lb import SPEC
from kcm.actors.controllers.cloud.service_lb import reconciler as service_lb
from kcm.actors.controllers.cloud.service_lb.reconciler import ServiceLoadBalancerReconciler
from kcm.actors.controllers.network.endpoints import reconciler as endpoints
from kcm.actors.controllers.network.endpoints.reconciler import EndpointsReconciler
from kcm.actors.controllers.network.endpointslice.reconciler import EndpointSliceReconciler
from kcm.actors.simulation.campaign.domain_settings import NODES_SETTING, SERVICES_SETTING
from kcm.actors.simulation.trials.scenario import Fleet
from kcm.protocols.objects import resource_version_of
from kcm.protocols.resources import ENDPOINT_SLICES
from kcm.runtime.simulation.plan import draw_stale_state
from kcm.runtime.tables.tables import Tables
from tests.faults.mutants.mutant import Mutant
from tests.faults.mutants.plans import slow_balancers
from tests.faults.mutants.scenarios import hosts_and_their_service_change


@contextmanager
def slices_are_read_from_a_late_cache() -> Iterator[None]:
    """Slices that were just written are invisible until the watch shows them, and each creation has a new name."""
    build, number = EndpointSliceReconciler.__init__, itertools.count()

    def blind(self: EndpointSliceReconciler, *, tables: Tables, **more: Any) -> None:
        build(self, tables=tables, **more)
        overlay = tables.overlay(ENDPOINT_SLICES.id)
        assert overlay is not None
        self._slices = Tables({ENDPOINT_SLICES.id: overlay.table})[ENDPOINT_SLICES]

    def drawn(_owner: Any, count: int, **_: Any) -> list[str]:
        return [f"drawn-{next(number)}" for _ in range(count)]

    with (
        patch.object(EndpointSliceReconciler, "__init__", blind),
        patch("kcm.actors.controllers.network.shared.slice_writes.generated_names", drawn),
    ):
        yield


@contextmanager
def what_an_update_leaves_as_it_is_counts_as_stale() -> Iterator[None]:
    """The version before an update counts as stale, even if the update changed nothing."""
    write, stale = EndpointsReconciler._write, WeakKeyDictionary[EndpointsReconciler, dict[str, str]]()

    def tracking(self: EndpointsReconciler, key: str, *arguments: Any, **more: Any) -> Any:
        current = self._endpoints.get(key)
        version = "" if current is None else resource_version_of(current)
        if version and stale.setdefault(self, {}).get(key) == version:
            return
        yield from write(self, key, *arguments, **more)
        if version:
            stale[self][key] = version

    with patch.object(EndpointsReconciler, "_write", tracking), patch.object(endpoints, "unversioned", lambda _: None):
        yield


@contextmanager
def load_balancers_are_not_guarded() -> Iterator[None]:
    """Services have no finalizer, so that a deletion is missed by a controller that does not run at that time."""
    with patch.object(service_lb, "has_finalizer", lambda _service: True):
        yield


@contextmanager
def hosts_are_updated_beside_the_queue() -> Iterator[None]:
    """A change of nodes calls the cloud for each load balancer, concurrently with syncs of its Service."""

    def at_once(self: ServiceLoadBalancerReconciler, due: Sequence[str]) -> Any:
        for key in due:
            known = self._balancers.get(key)
            if known is not None:
                yield from self._update_hosts(known.service, known)

    with patch.object(ServiceLoadBalancerReconciler, "_enqueue_services", at_once):
        yield


BALANCERS = replace(NODES_SETTING, controllers=(SPEC,), fleet=lambda _scenario: Fleet())
SERVICES = (
    Mutant(
        name="slices are made again while the watch is late",
        source="kubernetes/kubernetes#93374",
        mutation=slices_are_read_from_a_late_cache,
        setting=replace(SERVICES_SETTING, draw=draw_stale_state),
    ),
    Mutant(
        name="endpoints that an update leaves as they are count as stale",
        source="kubernetes/kubernetes#127370",
        mutation=what_an_update_leaves_as_it_is_counts_as_stale,
        setting=SERVICES_SETTING,
    ),
    Mutant(
        name="a service goes before its load balancer",
        source="kubernetes/kubernetes#53451",
        mutation=load_balancers_are_not_guarded,
        setting=BALANCERS,
    ),
    Mutant(
        name="hosts are updated while their service is in work",
        source="kubernetes/kubernetes#53462",
        mutation=hosts_are_updated_beside_the_queue,
        setting=replace(BALANCERS, actions=hosts_and_their_service_change, draw=slow_balancers),
    ),
)
