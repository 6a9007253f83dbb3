"""Decisions about the pods of a set: the step for each pod, and the pods that an update deletes next.

Source: kubernetes v1.36 pkg/controller/statefulset/stateful_set_control.go (updateStatefulSet, processReplica,
processCondemned, updateStatefulSetAfterInvariantEstablished). Differences:
- In order, a condemned pod that has ended is deleted without waiting for its predecessors. Upstream waits until it runs
  again, which never happens if its Ready condition is still True or if a predecessor has ended as well.
- A pod that does not run is unavailable, even if its Ready condition is True.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from kcm.actors.controllers.workloads.statefulset.fields import StatefulSet
from kcm.actors.controllers.workloads.statefulset.identity import REVISION_LABEL, ordinal_of_key
from kcm.protocols.pods import PodFacts, is_available, is_terminal
from kcm.runtime.tables.table import Entry


class Members(NamedTuple):
    """The pods of a set that exist, by ordinal. condemned: those outside of its ordinals, from the highest down."""

    replicas: Mapping[int, Entry]
    condemned: Mapping[int, Entry]


def members_of(stateful_set: StatefulSet, pods: Iterable[Entry]) -> Members:
    found = {}
    for pod in pods:
        ordinal = ordinal_of_key(pod.key, stateful_set.name)
        if ordinal is not None:
            found[ordinal] = pod
    condemned = sorted((ordinal for ordinal in found if ordinal not in stateful_set.ordinals), reverse=True)
    return Members(
        {ordinal: found[ordinal] for ordinal in sorted(found) if ordinal in stateful_set.ordinals},
        {ordinal: found[ordinal] for ordinal in condemned},
    )


class PodStep(Enum):
    """What is to be done about a pod now. KEEP: nothing but what its identity needs. WAIT: nothing, until it changes.

    REPLACE: it has ended, and is deleted so that another one can have its name.
    """

    CREATE = auto()
    REPLACE = auto()
    WAIT = auto()
    KEEP = auto()
    DELETE = auto()


def step_for_replica(stateful_set: StatefulSet, pod: PodFacts | None, *, now: float) -> PodStep:
    """For a pod that the set wants. In order, every predecessor is available by the time that this is asked."""
    if pod is None:
        return PodStep.CREATE
    if is_terminal(pod):
        return PodStep.WAIT if pod.deleting else PodStep.REPLACE
    if stateful_set.parallel or not (pod.deleting or _is_unready(stateful_set, pod, now=now)):
        return PodStep.KEEP
    return PodStep.WAIT


def step_for_condemned(stateful_set: StatefulSet, pod: PodFacts, *, is_first_unavailable: bool, now: float) -> PodStep:
    """Return the step for a pod outside of the set's ordinals.

    In order, a pod that is not available is deleted only if it is the first unavailable one, or if it has ended.
    """
    if pod.deleting:
        return PodStep.WAIT
    if is_terminal(pod):
        return PodStep.DELETE
    if stateful_set.ordered and _is_unready(stateful_set, pod, now=now) and not is_first_unavailable:
        return PodStep.WAIT
    return PodStep.DELETE


def first_unavailable(stateful_set: StatefulSet, members: Members, *, now: float) -> int | None:
    """Return the lowest ordinal whose pod is missing or unavailable, first of the replicas, then of condemned pods."""
    for ordinal in stateful_set.ordinals:
        if is_unavailable(stateful_set, members.replicas.get(ordinal), now=now):
            return ordinal
    for ordinal in sorted(members.condemned):
        if is_unavailable(stateful_set, members.condemned[ordinal], now=now):
            return ordinal
    return None


def next_for_update(stateful_set: StatefulSet, members: Members, *, update: str, now: float) -> list[int]:
    """The pod that an update deletes next: the highest that is not of this revision, once all above are available."""
    for ordinal in _updated_from_the_top(stateful_set):
        pod = members.replicas.get(ordinal)
        if pod is not None and revision_of(pod) != update and not pod.facts.deleting:
            return [ordinal]
        if is_unavailable(stateful_set, pod, now=now):
            return []
    return []


def some_for_update(stateful_set: StatefulSet, members: Members, *, update: str, now: float) -> list[int]:
    """As next_for_update, but so many that spec.updateStrategy.rollingUpdate.maxUnavailable are unavailable then."""
    left = stateful_set.at_once() - unavailable_replicas(stateful_set, members, now=now)
    old: list[int] = []
    for ordinal in _updated_from_the_top(stateful_set):
        if len(old) >= left:
            break
        pod = members.replicas.get(ordinal)
        if pod is not None and revision_of(pod) != update and not pod.facts.deleting:
            old.append(ordinal)
    return old


def unavailable_replicas(stateful_set: StatefulSet, members: Members, *, now: float) -> int:
    available = sum(not is_unavailable(stateful_set, pod, now=now) for pod in members.replicas.values())
    return stateful_set.replicas - available


def _updated_from_the_top(stateful_set: StatefulSet) -> range:
    return stateful_set.ordinals[stateful_set.partition or 0 :][::-1]


def is_unavailable(stateful_set: StatefulSet, pod: Entry | None, *, now: float) -> bool:
    # Shares _is_unready with step_for_condemned: a condemned pod that is waited for has to be one that can be found
    # by first_unavailable, or it is never deleted.
    return pod is None or pod.facts.deleting or _is_unready(stateful_set, pod.facts, now=now)


def is_running_and_ready(pod: PodFacts) -> bool:
    return pod.phase == "Running" and pod.ready


def _is_unready(stateful_set: StatefulSet, pod: PodFacts, *, now: float) -> bool:
    if not is_running_and_ready(pod):
        return True
    return not is_available(pod, min_ready_seconds=stateful_set.min_ready_seconds, now=now)


def revision_of(pod: Entry) -> str:
    """The name of the ControllerRevision that it was made from; "" without one."""
    labels: Mapping[str, str] = pod.facts.labels
    return labels.get(REVISION_LABEL, "")
