"""Number of replicas computed from one metric.

All values are thousandths. A ratio is usage / target: above 1 there are too few replicas.

Source: kubernetes v1.36 pkg/controller/podautoscaler/replica_calculator.go and metrics/utilization.go. Differences: a
number of replicas that exceeds int32 becomes the maximum of int32, where upstream's overflows for some metrics; if no
replicas are reported, the average per replica is the total, where upstream's value is meaningless.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.pods import CannotComputeError, PodGroups
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.samples import MetricSamples
from kcm.protocols.integers import INT32, INT64

MOST_REPLICAS = INT32.stop - 1
MOST_USAGE = INT64.stop - 1
ALL = 100  # percent of a request

Values = Mapping[str, int]  # by the pod's name


class Tolerances(NamedTuple):
    """Deviations of the ratio from 1, down and up, that do not lead to scaling."""

    down: float
    up: float

    def contain(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(NamedTuple):
    """Result of one computation."""

    replicas: int
    usage: int  # for the status: the average per replica, or the total
    utilization: int | None = None  # percent


class Utilization(NamedTuple):
    ratio: float
    percent: int
    average: int


def utilization(values: Values, requests: Values, target: int) -> Utilization:
    """Compute the utilization of the pods that are in both maps. target: percent. Raises CannotComputeError."""
    known = [name for name in values if name in requests]
    asked = sum(requests[name] for name in known)
    if asked == 0:
        raise CannotComputeError("no metrics returned matched known pods")
    total = sum(values[name] for name in known)
    percent = _quotient(total * ALL, asked)
    return Utilization(percent / target, percent, _quotient(total, len(known)))


def utilization_replicas(
    samples: MetricSamples, groups: PodGroups, requests: Values, *, target: int, current: int, tolerances: Tolerances
) -> Proposal:
    """Compute replicas for a target utilization of the requests. Raises CannotComputeError."""
    values = counted(samples, groups)
    seen = utilization(values, requests, target)
    fallback = max(ALL, target)
    replicas = _replicas(
        values,
        groups,
        current=current,
        tolerances=tolerances,
        ratio_of=lambda given: utilization(given, requests, target).ratio,
        of_missing=lambda name: _quotient(requests[name] * fallback, ALL),
    )
    return Proposal(replicas, seen.average, seen.percent)


def average_replicas(
    samples: MetricSamples, groups: PodGroups, *, target: int, current: int, tolerances: Tolerances
) -> Proposal:
    """Compute replicas for a target average per pod. Raises CannotComputeError."""
    values = counted(samples, groups)
    replicas = _replicas(
        values,
        groups,
        current=current,
        tolerances=tolerances,
        ratio_of=lambda given: _average(given) / target,
        of_missing=lambda _name: target,
    )
    return Proposal(replicas, _average(values))


def counted(samples: MetricSamples, groups: PodGroups) -> dict[str, int]:
    """Return the values that count. Raises CannotComputeError without any."""
    out = groups.ignored | groups.unready
    values = {name: sample.value for name, sample in samples.items() if name not in out}
    if not values:
        raise CannotComputeError("did not receive metrics for targeted pods (pods might be unready)")
    return values


def _replicas(
    values: Values,
    groups: PodGroups,
    *,
    current: int,
    tolerances: Tolerances,
    ratio_of: Callable[[Values], float],
    of_missing: Callable[[str], int],
) -> int:
    """Compute replicas from the values, with conservative assumptions for pods without a sample or not ready.

    When scaling down, pods without a sample are assumed to use all of their target; when scaling up, nothing.
    """
    ratio = ratio_of(values)
    unready = groups.unready if ratio > 1.0 else frozenset[str]()
    if not unready and not groups.missing:
        return current if tolerances.contain(ratio) else _whole(ratio * groups.ready)
    assumed = dict(values)
    if ratio < 1.0:
        assumed.update({name: of_missing(name) for name in groups.missing})
    elif ratio > 1.0:
        assumed.update(dict.fromkeys(groups.missing, 0))
    assumed.update(dict.fromkeys(unready, 0))
    new = ratio_of(assumed)
    if tolerances.contain(new) or (ratio < 1.0 < new) or (new < 1.0 < ratio):
        return current
    replicas = _whole(new * len(assumed))
    other_way = replicas > current if new < 1.0 else replicas < current
    return current if other_way else replicas


def total(values: Iterable[int]) -> int:
    """Return the sum over the series of an external metric."""
    return min(sum(values), MOST_USAGE)


def value_replicas(
    usage: int, *, target: int, current: int, ready: Callable[[], int], tolerances: Tolerances
) -> Proposal:
    """Compute replicas for a target of the total value. ready: count the Running and ready pods; may raise."""
    ratio = usage / target
    if current == 0:
        return Proposal(_whole(ratio), usage)
    return Proposal(current if tolerances.contain(ratio) else _whole(ratio * ready()), usage)


def per_replica_replicas(usage: int, *, target: int, reported: int, tolerances: Tolerances) -> Proposal:
    """Compute replicas for a target average of a total value. reported: replicas in the scale's status."""
    if reported and tolerances.contain(usage / (target * reported)):
        replicas = reported
    else:
        replicas = _whole(usage / target)
    if usage >= MOST_USAGE or not reported:
        return Proposal(replicas, min(usage, MOST_USAGE))
    return Proposal(replicas, -(-usage // reported))


def _average(values: Values) -> int:
    return _quotient(sum(values.values()), len(values))


def _whole(replicas: float) -> int:
    return min(math.ceil(replicas), MOST_REPLICAS)


def _quotient(a: int, b: int) -> int:
    """Divide with truncation towards zero, as Go does. b > 0."""
    return a // b if a >= 0 else -(-a // b)
