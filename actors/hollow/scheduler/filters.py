"""Filters of nodes for one attempt to schedule a pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from kcm.actors.hollow.scheduler.demand import Demand
from kcm.actors.hollow.scheduler.devices.claims import PodDevices
from kcm.actors.hollow.scheduler.devices.requested_devices import NO_DEVICES, RequestedDevices
from kcm.actors.hollow.scheduler.neighbours import NOT_SPREAD, REPELLED, REPELLED_BY_OTHERS, Neighbours
from kcm.actors.hollow.scheduler.node_fit import INSUFFICIENT, NO_PORTS, TOO_MANY_PODS, NodeUsage, NodeView, misfits
from kcm.actors.hollow.scheduler.volume_limits import TOO_MANY_VOLUMES, USED_BY_ANOTHER_POD
from kcm.actors.hollow.scheduler.volumes import NOTHING, Claimed, PodVolumes
from kcm.protocols.objects import Key, Object
from kcm.runtime.tables.table import Entry

_CAUSED_BY_PODS = frozenset(
    {NO_PORTS, TOO_MANY_PODS, TOO_MANY_VOLUMES, USED_BY_ANOTHER_POD, NOT_SPREAD, REPELLED, REPELLED_BY_OTHERS}
)


class SchedulingAttempt(NamedTuple):
    """Pod to schedule, with what it needs. neighbours: None if no other pods matter."""

    key: Key
    entry: Entry
    pod: Object
    demand: Demand
    claimed: Claimed = NOTHING
    devices: RequestedDevices = NO_DEVICES
    neighbours: Neighbours | None = None


class Rejection(NamedTuple):
    """Node that cannot be used, and the reasons in kube-scheduler's words."""

    node: NodeView
    reasons: Sequence[str]


class Filters:
    """Filters of the pod itself, its volumes, other pods and its devices, in the order of kube-scheduler."""

    def __init__(self, volumes: PodVolumes | None, devices: PodDevices | None) -> None:
        self._volumes, self._devices = volumes, devices

    def misfits(
        self, attempt: SchedulingAttempt, node: NodeView, usage: NodeUsage, removed: Collection[Key] = ()
    ) -> Sequence[str]:
        """Return the reasons why the pod does not fit the node; empty if it fits.

        removed: pods of the node that are assumed not to exist, and that the usage does not contain.

        Raises AllocationError if a claim or DeviceClass of the pod is invalid.
        """
        why: Sequence[str] = misfits(attempt.demand, node, usage)
        if why and attempt.devices.extended:
            why = [reason for reason in why if not attempt.devices.delegates(reason.removeprefix(INSUFFICIENT), node)]
        if not why and self._volumes is not None and attempt.claimed is not NOTHING:
            why = self._volumes.misfits(attempt.claimed, node, usage)
        if not why and attempt.neighbours is not None:
            why = attempt.neighbours.misfits(node, removed)
        if not why and self._devices is not None and attempt.devices is not NO_DEVICES:
            why = self._devices.misfits(attempt.devices, attempt.pod, node)
        return why


def counted(rejections: Iterable[Rejection]) -> Counter[str]:
    """Return the number of nodes by reason."""
    return Counter(reason for rejection in rejections for reason in rejection.reasons)


def may_be_preempted(demand: Demand, node: NodeView, reasons: Iterable[str]) -> bool:
    """Report whether the pod may fit the node after other pods are removed from it.

    It cannot if it requests more of a resource than the whole node has, or if another reason does not depend on pods.

    reasons: why the pod does not fit the node now.
    """
    for reason in reasons:
        if reason in _CAUSED_BY_PODS:
            continue
        resource = reason.removeprefix(INSUFFICIENT)
        if resource == reason or dict(demand.requests).get(resource, 0) > node.allocatable.get(resource, 0):
            return False
    return True
