from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.controllers.workloads.deployment.objects import Deployment, ReplicaSet
from kcm.actors.controllers.workloads.deployment.status import (
    has_progressed,
    has_timed_out,
    is_complete,
    next_check,
    pause_condition,
    rollout_status,
)
from kcm.actors.simulation.driver import NOW
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time, parse_time
from tests.actors.controllers.workloads.deployment.objects import (
    RECREATE,
    parsed_deployment,
    parsed_replica_set,
    progressing,
)

INFINITE = 2147483647
BEFORE = NOW - 7200


def counts(replicas: int = 0, updated: int = 0, ready: int = 0, available: int = 0) -> Object:
    return {
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": available,
    }


def rolling(deadline: int | None, replicas: int, status: Object, *conditions: Object, **spec: Any) -> Deployment:
    if deadline is not None:
        spec["progressDeadlineSeconds"] = deadline
    return parsed_deployment(replicas, strategy=RECREATE, status={**status, "conditions": list(conditions)}, **spec)


@pytest.mark.parametrize(
    "before, after, progress",
    [
        ((10, 4, 4, 4), (10, 6, 4, 4), True),  # updated pods
        ((10, 4, 4, 4), (10, 4, 4, 4), False),
        ((10, 4, 6, 6), (8, 4, 6, 6), True),  # old pods removed
        ((10, 7, 3, 3), (10, 6, 3, 3), False),  # fewer new pods
        ((10, 4, 7, 7), (8, 8, 5, 5), True),  # fewer pods, more new ones
        ((10, 10, 9, 8), (10, 10, 10, 8), True),
        ((10, 10, 10, 9), (10, 10, 10, 10), True),
    ],
)
def test_more_new_or_fewer_old_pods_count_as_progress(
    before: tuple[int, ...], after: tuple[int, ...], progress: bool
) -> None:
    assert has_progressed(counts(*before), counts(*after)) is progress


@pytest.mark.parametrize(
    "replicas, status, complete",
    [
        (5, (5, 5, 5, 5), True),
        (5, (5, 5, 5, 4), False),
        (5, (5, 4, 5, 5), False),
        (5, (6, 5, 5, 5), False),
        (1, (5, 5, 5, 5), False),
        (0, (), True),
    ],
)
def test_deployment_is_complete_if_all_pods_are_updated_and_available(
    replicas: int, status: tuple[int, ...], complete: bool
) -> None:
    assert is_complete(parsed_deployment(replicas), counts(*status)) is complete


def test_status_of_older_generation_is_not_complete() -> None:
    d = parsed_deployment(5, meta={"generation": 2})
    assert not is_complete(d, {**counts(5, 5, 5, 5), "observedGeneration": 1})
    assert is_complete(d, {**counts(5, 5, 5, 5), "observedGeneration": 2})


@pytest.mark.parametrize(
    "deadline, reason, seconds_ago, timed_out",
    [
        (None, "", 11, False),
        (INFINITE, "", 11, False),
        (10, "", 11, True),
        (10, "", 10, False),
        (10, "", 9, False),
        (10, "NewReplicaSetAvailable", 9999, False),
        (10, "ProgressDeadlineExceeded", 0, True),
        (10, "DeploymentResumed", 11, True),
    ],
)
def test_rollout_times_out_after_its_deadline_without_progress(
    deadline: int | None, reason: str, seconds_ago: int, timed_out: bool
) -> None:
    d = rolling(deadline, 3, counts(), progressing(reason, updated_at=NOW - seconds_ago))
    assert has_timed_out(d, d.status, now=NOW) is timed_out


def test_timeout_requires_a_progressing_condition() -> None:
    assert not has_timed_out(rolling(10, 3, counts()), {}, now=NOW)
    timeless = {"type": "Progressing", "status": "True", "lastUpdateTime": None}
    assert has_timed_out(rolling(10, 3, counts()), {"conditions": [timeless]}, now=NOW)


START = parse_time("2017-02-15T18:49:00Z")
STUCK = progressing(updated_at=START)


@pytest.mark.parametrize(
    "deadline, status, conditions, seconds_later, delay",
    [
        (None, (3, 3, 0, 2), [STUCK], 30, None),
        (INFINITE, (3, 3, 0, 2), [STUCK], 30, None),
        (60, (3, 3, 0, 2), [], 30, None),
        (60, (3, 3, 0, 3), [STUCK], 30, None),  # complete
        (60, (3, 3, 0, 0), [progressing("ProgressDeadlineExceeded", "False", updated_at=START)], 30, None),
        (60, (3, 3, 0, 1), [progressing("NewReplicaSetAvailable", updated_at=START)], 999, None),
        (60, (3, 3, 0, 1), [STUCK], 30, 31.0),
        (60, (3, 3, 0, 1), [STUCK], 59, 2.0),
        (60, (3, 3, 0, 1), [STUCK], 59.001, 1.0),
        (60, (3, 3, 0, 1), [STUCK], 60, 1.0),
        (60, (3, 3, 0, 1), [STUCK], 61, 1.0),
        (60, (3, 3, 0, 1), [STUCK], 120, 1.0),
        (60, (3, 3, 0, 1), [STUCK], -3600, 61.0),  # the clock was set back meanwhile
    ],
)
def test_stuck_rollout_is_requeued_until_its_deadline(
    deadline: int | None,
    status: tuple[int, ...],
    conditions: Sequence[Object],
    seconds_later: float,
    delay: float | None,
) -> None:
    d = rolling(deadline, 3, counts(*status), *conditions)
    assert next_check(d, now=START + seconds_later) == delay


TIMED_OUT = progressing("ProgressDeadlineExceeded", "False", updated_at=BEFORE, changed_at=BEFORE)
AVAILABLE = progressing("NewReplicaSetAvailable", updated_at=BEFORE, changed_at=BEFORE)
UPDATED = progressing("ReplicaSetUpdated", updated_at=BEFORE, changed_at=BEFORE)


def reporting(name: str, replicas: int, reported: int, available: int) -> ReplicaSet:
    return parsed_replica_set(name, replicas, status={**counts(reported, 0, available), "availableReplicas": available})


ONE_OLD = reporting("bar", 0, 1, 1)


@pytest.mark.parametrize(
    "deadline, before, condition, old, new, wanted",
    [
        # (status, reason, did lastUpdateTime move, did lastTransitionTime move)
        (None, (2, 2, 2, 2), UPDATED, [ONE_OLD], (3, 2, 2), None),
        (60, (3, 3, 3, 3), AVAILABLE, [], (3, 3, 3), ("True", "NewReplicaSetAvailable", False, False)),
        (60, (3, 3, 3, 3), AVAILABLE, [], (3, 3, 1), ("True", "NewReplicaSetAvailable", False, False)),
        (60, (2, 2, 2, 2), UPDATED, [ONE_OLD], (3, 2, 2), ("True", "ReplicaSetUpdated", True, False)),
        (60, (2, 2, 2, 2), TIMED_OUT, [ONE_OLD], (3, 2, 2), ("True", "ReplicaSetUpdated", True, True)),
        (60, (2, 2, 2, 2), None, [ONE_OLD], (3, 2, 2), ("True", "ReplicaSetUpdated", True, True)),
        (60, (3, 3, 3, 3), UPDATED, [], (3, 3, 3), ("True", "NewReplicaSetAvailable", True, False)),
        (60, (3, 3, 3, 3), TIMED_OUT, [], (3, 3, 3), ("True", "NewReplicaSetAvailable", True, True)),
        (60, (3, 3, 3, 3), None, [], (3, 3, 3), ("True", "NewReplicaSetAvailable", True, True)),
        (60, (2, 2, 2, 2), UPDATED, [], (3, 2, 2), ("False", "ProgressDeadlineExceeded", True, True)),
        (60, (2, 2, 2, 2), TIMED_OUT, [], (3, 2, 2), ("False", "ProgressDeadlineExceeded", False, False)),
        (9999, (2, 2, 2, 2), UPDATED, [], (3, 2, 2), ("True", "ReplicaSetUpdated", False, False)),
        (60, (2, 2, 2, 2), None, [], (3, 2, 2), None),
    ],
)
def test_progressing_condition_follows_the_rollout(
    deadline: int | None,
    before: tuple[int, ...],
    condition: Object | None,
    old: Sequence[ReplicaSet],
    new: tuple[int, ...],
    wanted: tuple[Any, ...] | None,
) -> None:
    d = rolling(deadline, 3, counts(*before), *([condition] if condition else []))
    status = rollout_status(d, reporting("foo", *new), old, now=NOW)
    now = find_condition(status["conditions"], "Progressing")
    if wanted is None:
        assert now is None
        return
    earlier, later = format_time(BEFORE), format_time(NOW)
    assert (now["status"], now["reason"]) == wanted[:2]
    assert now["lastUpdateTime"] == (later if wanted[2] else earlier)
    assert now["lastTransitionTime"] == (later if wanted[3] else earlier)


@pytest.mark.parametrize(
    "before, new, replicas, message",
    [
        ((3, 2, 2, 2), ("foo", 3, 3, 3), 3, 'ReplicaSet "foo" has successfully progressed.'),
        ((3, 2, 2, 1), ("foo", 3, 3, 2), 3, 'ReplicaSet "foo" is progressing.'),
        ((3, 3, 2, 2), ("foo", 3, 3, 2), 3, 'ReplicaSet "foo" has timed out progressing.'),
        ((3, 3, 3, 3), None, 0, 'Deployment "web" has successfully progressed.'),
        ((5, 0, 0, 0), None, 3, 'Deployment "web" is progressing.'),
        ((0, 0, 0, 0), None, 3, 'Deployment "web" has timed out progressing.'),
    ],
)
def test_message_names_the_new_replica_set_or_the_deployment(
    before: tuple[int, ...], new: tuple[Any, ...] | None, replicas: int, message: str
) -> None:
    d = rolling(60, replicas, counts(*before), progressing("", updated_at=BEFORE))
    status = rollout_status(d, reporting(*new) if new else None, [], now=NOW)
    assert find_condition(status["conditions"], "Progressing")["message"] == message


FAILURE = {
    "type": "ReplicaFailure",
    "status": "True",
    "reason": "FailedCreate",
    "message": "quota",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def test_replica_failure_is_copied_and_removed_with_its_cause() -> None:
    failing = parsed_replica_set("old", 1, status={"conditions": [FAILURE]})
    reported = rollout_status(parsed_deployment(), None, [failing], now=NOW)
    found = find_condition(reported["conditions"], "ReplicaFailure")
    assert found == {**FAILURE, "lastUpdateTime": FAILURE["lastTransitionTime"]}
    after = rollout_status(parsed_deployment(status=reported), None, [], now=NOW)
    assert find_condition(after["conditions"], "ReplicaFailure") is None


@pytest.mark.parametrize(
    "deadline, paused, reason, wanted",
    [
        (None, True, "", None),
        (INFINITE, True, "", None),
        (60, True, None, ("DeploymentPaused", "Deployment is paused")),
        (60, True, "NewReplicaSetAvailable", ("DeploymentPaused", "Deployment is paused")),
        (60, True, "DeploymentPaused", None),
        (60, True, "ProgressDeadlineExceeded", None),
        (60, False, "DeploymentPaused", ("DeploymentResumed", "Deployment is resumed")),
        (60, False, "DeploymentResumed", None),
        (60, False, None, None),
    ],
)
def test_pause_condition_is_written_once_and_only_with_deadline(
    deadline: int | None, paused: bool, reason: str | None, wanted: tuple[str, ...] | None
) -> None:
    conditions = [] if reason is None else [progressing(reason)]
    d = rolling(deadline, 3, counts(), *conditions, paused=paused)
    found = pause_condition(d, now=NOW)
    if wanted is None:
        assert found is None
    else:
        assert found == {
            "type": "Progressing",
            "status": "Unknown",
            "reason": wanted[0],
            "message": wanted[1],
            "lastUpdateTime": format_time(NOW),
            "lastTransitionTime": format_time(NOW),
        }
