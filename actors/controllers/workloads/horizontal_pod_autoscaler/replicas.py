"""Computation of the number of replicas from the values of one metric.

All metric values are thousandths. A ratio is usage / target: if it is above 1, there are too few replicas.

Source: kubernetes v1.36 pkg/controller/podautoscaler/replica_calculator.go and metrics/utilization.go. Differences:
- A number of replicas that exceeds int32 is limited to the maximum of int32; upstream's overflows for some metrics.
- If the scale reports no replicas, the average per replica is the total; upstream's value is meaningless.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.pods import CannotComputeError, PodGroups
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.samples import MetricSamples
from kcm.protocols.integers import INT32, INT64

MAX_REPLICAS = INT32.stop - 1
MAX_USAGE = INT64.stop - 1
ALL = 100  # percent of a request

Values = Mapping[str, int]  # by the pod's name


class Tolerances(NamedTuple):
    """Deviations of the ratio usage / target from 1 that do not lead to scaling, for scaling down and up."""

    down: float
    up: float

    def contain(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(NamedTuple):
    """Number of replicas that one metric requires, with its present usage for the status."""

    replicas: int
    usage: int  # thousandths: the average per replica, or the total, depending on the metric
    utilization: int | None = None  # usage in percent of the requests; None for targets other than utilization


class Utilization(NamedTuple):
    ratio: float  # percent / target
    percent: int  # usage in percent of the requests
    average: int  # average usage of a pod in thousandths


def utilization(values: Values, requests: Values, target: int) -> Utilization:
    """Compute the total usage of pods in percent of their total requests.

    values, requests: usage and request by pod name, in thousandths. Only pods in both maps are considered.
    target: desired utilization in percent, for the ratio.

    Raises CannotComputeError if there are no such pods, or their requests are 0.
    """
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
    """Compute the number of replicas for a target utilization, as for a Resource metric with averageUtilization.

    samples: usage by pod name
    groups: which of the samples are used, from group_pods
    requests: requests by pod name, in thousandths
    target: desired usage in percent of the requests
    current: present number of replicas

    Raises CannotComputeError if no sample can be used.
    """
    values = usable_values(samples, groups)
    seen = utilization(values, requests, target)
    fallback = max(ALL, target)
    replicas = _replicas(
        values,
        groups,
        current=current,
        tolerances=tolerances,
        ratio_of=lambda given: utilization(given, requests, target).ratio,
        value_of_missing=lambda name: _quotient(requests[name] * fallback, ALL),
    )
    return Proposal(replicas, seen.average, seen.percent)


def average_replicas(
    samples: MetricSamples, groups: PodGroups, *, target: int, current: int, tolerances: Tolerances
) -> Proposal:
    """Compute the number of replicas for a target average per pod, as for a Resource or Pods metric with averageValue.

    samples: usage by pod name
    groups: which of the samples are used, from group_pods
    target: desired average in thousandths
    current: present number of replicas

    Raises CannotComputeError if no sample can be used.
    """
    values = usable_values(samples, groups)
    replicas = _replicas(
        values,
        groups,
        current=current,
        tolerances=tolerances,
        ratio_of=lambda given: _average(given) / target,
        value_of_missing=lambda _name: target,
    )
    return Proposal(replicas, _average(values))


def usable_values(samples: MetricSamples, groups: PodGroups) -> dict[str, int]:
    """Return the sample values by pod name, without pods that are ignored or unready.

    Raises CannotComputeError if no value is left.
    """
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
    value_of_missing: Callable[[str], int],
) -> int:
    """Compute the number of replicas from sample values, with conservative assumptions for other pods.

    If the values require scaling down, pods without a sample are assumed to use their whole target. If the values
    require scaling up, pods without a sample and unready pods are assumed to use nothing. If these assumptions change
    the direction of scaling, the number of replicas stays the same.

    ratio_of: computes usage / target from values by pod name
    value_of_missing: returns the value to assume for a pod when scaling down
    """
    ratio = ratio_of(values)
    unready = groups.unready if ratio > 1.0 else frozenset[str]()
    if not unready and not groups.missing:
        return current if tolerances.contain(ratio) else _round_up(ratio * groups.ready)
    assumed = dict(values)
    if ratio < 1.0:
        assumed.update({name: value_of_missing(name) for name in groups.missing})
    elif ratio > 1.0:
        assumed.update(dict.fromkeys(groups.missing, 0))
    assumed.update(dict.fromkeys(unready, 0))
    new = ratio_of(assumed)
    if tolerances.contain(new) or (ratio < 1.0 < new) or (new < 1.0 < ratio):
        return current
    replicas = _round_up(new * len(assumed))
    direction_changed = replicas > current if new < 1.0 else replicas < current
    return current if direction_changed else replicas


def total(values: Iterable[int]) -> int:
    """Return the sum of the values of all series of an external metric, limited to the maximum of int64."""
    return min(sum(values), MAX_USAGE)


def value_replicas(
    usage: int, *, target: int, current: int, ready: Callable[[], int], tolerances: Tolerances
) -> Proposal:
    """Compute the number of replicas for a metric with a target for its total value (type Value).

    usage, target: thousandths
    current: present number of replicas
    ready: returns the number of running and ready pods; its exceptions are passed on
    """
    ratio = usage / target
    if current == 0:
        return Proposal(_round_up(ratio), usage)
    return Proposal(current if tolerances.contain(ratio) else _round_up(ratio * ready()), usage)


def per_replica_replicas(usage: int, *, target: int, reported: int, tolerances: Tolerances) -> Proposal:
    """Compute the number of replicas for a metric with a target for its value per replica (type AverageValue).

    usage: total value of the metric, in thousandths
    target: desired value per replica, in thousandths
    reported: number of replicas in the status of the scale
    """
    if reported and tolerances.contain(usage / (target * reported)):
        replicas = reported
    else:
        replicas = _round_up(usage / target)
    if usage >= MAX_USAGE or not reported:
        return Proposal(replicas, min(usage, MAX_USAGE))
    return Proposal(replicas, -(-usage // reported))


def _average(values: Values) -> int:
    return _quotient(sum(values.values()), len(values))


def _round_up(replicas: float) -> int:
    return min(math.ceil(replicas), MAX_REPLICAS)


def _quotient(a: int, b: int) -> int:
    """Divide with truncation towards zero, as Go does. b > 0."""
    return a // b if a >= 0 else -(-a // b)
