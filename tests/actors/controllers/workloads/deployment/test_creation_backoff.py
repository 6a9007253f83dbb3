"""A ReplicaSet that is deleted right after its creation is recreated after increasing delays."""

from __future__ import annotations

import itertools

from kcm.actors.controllers.workloads.deployment.objects import Deployment
from kcm.actors.controllers.workloads.deployment.rollout import MIN_LIFETIME, CreationBackoff
from tests.actors.controllers.workloads.deployment.objects import parsed_deployment


def web(*, uid: str = "uid-of-web", generation: int = 1) -> Deployment:
    return parsed_deployment(meta={"uid": uid, "generation": generation})


def gone_at_once(times: int) -> tuple[CreationBackoff, float]:
    """Create the ReplicaSet web-1 repeatedly, as soon as allowed. Return the time of the last creation as well."""
    backoff, now = CreationBackoff(), 100.0
    for _ in range(times):
        now += backoff.seconds_left(web(), "web-1", now)
        backoff.record_creation(web(), "web-1", now)
    return backoff, now


def test_delay_of_recreation_doubles_after_the_first() -> None:
    times = [gone_at_once(times)[1] for times in range(1, 10)]
    assert [later - sooner for sooner, later in itertools.pairwise(times)] == [0, 1, 2, 4, 8, 16, 30, 30]


def test_changed_or_older_replica_set_is_created_again_at_once() -> None:
    backoff, now = gone_at_once(5)
    assert backoff.seconds_left(web(), "web-1", now) > 0
    assert backoff.seconds_left(web(generation=2), "web-1", now) == 0
    assert backoff.seconds_left(web(uid="another"), "web-1", now) == 0
    assert backoff.seconds_left(web(), "web-2", now) == 0
    backoff.record_creation(web(), "web-1", now + MIN_LIFETIME)
    assert backoff.seconds_left(web(), "web-1", now + MIN_LIFETIME) == 0


def test_deleted_deployment_is_forgotten() -> None:
    backoff, now = gone_at_once(5)
    backoff.forget(web().key)
    assert backoff.seconds_left(web(), "web-1", now) == 0
