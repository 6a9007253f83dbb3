"""Chooses the next step for each pod of a set, and the pods that a rolling update deletes next.

Source: kubernetes v1.36 pkg/controller/statefulset/stateful_set_control.go (updateStatefulSet, processReplica,
processCondemned, updateStatefulSetAfterInvariantEstablished). Differences:

- With OrderedReady, a terminal condemned pod is deleted without waiting for its predecessors. Upstream waits until the
  pod runs again, which never happens if its Ready condition is still True or if a predecessor is terminal as well.
- A pod that is not running counts as unavailable, even if its Ready condition is True.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from kcm.actors.controllers.workloads.statefulset.identity import REVISION_LABEL, ordinal_of_key
from kcm.actors.controllers.workloads.statefulset.objects import StatefulSet
from kcm.protocols.pods import PodFacts, is_available, is_terminal
from kcm.runtime.tables.table import Entry


class Members(NamedTuple):
    """Existing pods of a set, by ordinal."""

    replicas: Mapping[int, Entry]
    condemned: Mapping[int, Entry]  # outside of the set's ordinals, in descending order


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
    """The next step for one pod."""

    CREATE = auto()
    REPLACE = auto()  # delete a terminal pod, so that a new pod can have its name
    WAIT = auto()  # until the pod changes
    KEEP = auto()  # correct only its identity
    DELETE = auto()


def step_for_replica(stateful_set: StatefulSet, pod: PodFacts | None, *, now: float) -> PodStep:
    """Return the next step for an ordinal within spec.replicas; the pod is None if it is missing.

    Source: processReplica.

    With OrderedReady, the caller must ensure that all predecessors are available.
    """
    if pod is None:
        return PodStep.CREATE
    if is_terminal(pod):
        return PodStep.WAIT if pod.deleting else PodStep.REPLACE
    if stateful_set.parallel or not (pod.deleting or _is_unready(stateful_set, pod, now=now)):
        return PodStep.KEEP
    return PodStep.WAIT


def step_for_condemned(stateful_set: StatefulSet, pod: PodFacts, *, is_first_unavailable: bool, now: float) -> PodStep:
    """Return the next step for a condemned pod, whose ordinal is outside the set's ordinals. Source: processCondemned.

    With OrderedReady, an unavailable pod is deleted only if it is terminal or the set's first unavailable pod.
    """
    if pod.deleting:
        return PodStep.WAIT
    if is_terminal(pod):
        return PodStep.DELETE
    if stateful_set.ordered and _is_unready(stateful_set, pod, now=now) and not is_first_unavailable:
        return PodStep.WAIT
    return PodStep.DELETE


def first_unavailable(stateful_set: StatefulSet, members: Members, *, now: float) -> int | None:
    """Return the lowest ordinal with a missing or unavailable pod; only if there is none, of an unavailable
    condemned pod.
    """
    for ordinal in stateful_set.ordinals:
        if is_unavailable(stateful_set, members.replicas.get(ordinal), now=now):
            return ordinal
    for ordinal in sorted(members.condemned):
        if is_unavailable(stateful_set, members.condemned[ordinal], now=now):
            return ordinal
    return None


def next_for_update(stateful_set: StatefulSet, members: Members, *, update: str, now: float) -> list[int]:
    """Return the pod that an update deletes next: the outdated pod with the highest ordinal.

    Empty if a pod with a higher ordinal is unavailable. update: name of the update revision.
    """
    for ordinal in _updated_from_the_top(stateful_set):
        pod = members.replicas.get(ordinal)
        if pod is not None and revision_of(pod) != update and not pod.facts.deleting:
            return [ordinal]
        if is_unavailable(stateful_set, pod, now=now):
            return []
    return []


def some_for_update(stateful_set: StatefulSet, members: Members, *, update: str, now: float) -> list[int]:
    """Return the pods that an update deletes next, with the highest ordinals first, limited by maxUnavailable.

    update: name of the update revision.
    """
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
    # Shares _is_unready with step_for_condemned: otherwise first_unavailable may not find a condemned pod for which
    # step_for_condemned returns WAIT, and the pod would never be deleted.
    return pod is None or pod.facts.deleting or _is_unready(stateful_set, pod.facts, now=now)


def is_running_and_ready(pod: PodFacts) -> bool:
    return pod.phase == "Running" and pod.ready


def _is_unready(stateful_set: StatefulSet, pod: PodFacts, *, now: float) -> bool:
    if not is_running_and_ready(pod):
        return True
    return not is_available(pod, min_ready_seconds=stateful_set.min_ready_seconds, now=now)


def revision_of(pod: Entry) -> str:
    """Return the name of the ControllerRevision in the pod's label; "" if it is missing."""
    labels: Mapping[str, str] = pod.facts.labels
    return labels.get(REVISION_LABEL, "")
