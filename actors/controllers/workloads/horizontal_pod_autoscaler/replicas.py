"""How many replicas one metric asks for.

All values are thousandths. A ratio is what there is by what there should be: above 1 there are too few replicas.

Source: kubernetes v1.36 pkg/controller/podautoscaler/replica_calculator.go and metrics/utilization.go. Differences: a
number of replicas that int32 does not hold is the largest that it holds, there for some metrics a negative one; where
no replicas are reported an average over them is the whole value, there a number without meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.pods import CannotComputeError, Groups
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.samples import Samples
from kcm.protocols.integers import INT32, INT64

MOST_REPLICAS = INT32.stop - 1
MOST_USAGE = INT64.stop - 1
ALL = 100  # percent of a request

Values = Mapping[str, int]  # by the pod's name


class Tolerances(NamedTuple):
    """By how much a ratio may be off, down and up, before anything is done about it."""

    down: float
    up: float

    def hold(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Proposal(NamedTuple):
    """usage: what the status reports: of each replica on average, or altogether. utilization: in percent."""

    replicas: int
    usage: int
    utilization: int | None = None


class Utilization(NamedTuple):
    ratio: float
    percent: int
    average: int


def utilization(values: Values, requests: Values, target: int) -> Utilization:
    """Of the pods that are in both. target: in percent. Raises CannotComputeError."""
    known = [name for name in values if name in requests]
    asked = sum(requests[name] for name in known)
    if asked == 0:
        raise CannotComputeError("no metrics returned matched known pods")
    total = sum(values[name] for name in known)
    percent = _quotient(total * ALL, asked)
    return Utilization(percent / target, percent, _quotient(total, len(known)))


def utilization_replicas(
    samples: Samples, groups: Groups, requests: Values, *, target: int, current: int, tolerances: Tolerances
) -> Proposal:
    """For an average utilization of what the pods ask for. Raises CannotComputeError."""
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
    samples: Samples, groups: Groups, *, target: int, current: int, tolerances: Tolerances
) -> Proposal:
    """For an average value of each pod. Raises CannotComputeError."""
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


def counted(samples: Samples, groups: Groups) -> dict[str, int]:
    """The values that count. Raises CannotComputeError if none does."""
    out = groups.ignored | groups.unready
    values = {name: sample.value for name, sample in samples.items() if name not in out}
    if not values:
        raise CannotComputeError("did not receive metrics for targeted pods (pods might be unready)")
    return values


def _replicas(
    values: Values,
    groups: Groups,
    *,
    current: int,
    tolerances: Tolerances,
    ratio_of: Callable[[Values], float],
    of_missing: Callable[[str], int],
) -> int:
    """What is not known is assumed such that less is done: of pods that have no sample, or are not ready yet."""
    ratio = ratio_of(values)
    unready = groups.unready if ratio > 1.0 else frozenset[str]()
    if not unready and not groups.missing:
        return current if tolerances.hold(ratio) else _whole(ratio * groups.ready)
    assumed = dict(values)
    if ratio < 1.0:
        assumed.update({name: of_missing(name) for name in groups.missing})
    elif ratio > 1.0:
        assumed.update(dict.fromkeys(groups.missing, 0))
    assumed.update(dict.fromkeys(unready, 0))
    new = ratio_of(assumed)
    if tolerances.hold(new) or (ratio < 1.0 < new) or (new < 1.0 < ratio):
        return current
    replicas = _whole(new * len(assumed))
    other_way = replicas > current if new < 1.0 else replicas < current
    return current if other_way else replicas


def total(values: Iterable[int]) -> int:
    """Of an external metric's series."""
    return min(sum(values), MOST_USAGE)


def value_replicas(
    usage: int, *, target: int, current: int, ready: Callable[[], int], tolerances: Tolerances
) -> Proposal:
    """For a value that is about all replicas together. ready: counts the pods that run and are ready; it may raise."""
    ratio = usage / target
    if current == 0:
        return Proposal(_whole(ratio), usage)
    return Proposal(current if tolerances.hold(ratio) else _whole(ratio * ready()), usage)


def per_replica_replicas(usage: int, *, target: int, reported: int, tolerances: Tolerances) -> Proposal:
    """For a value that is to be shared by the replicas. reported: how many there are, by the scale's status."""
    if reported and tolerances.hold(usage / (target * reported)):
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
    """As Go divides: towards zero. b > 0."""
    return a // b if a >= 0 else -(-a // b)
