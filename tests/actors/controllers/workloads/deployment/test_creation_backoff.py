"""A ReplicaSet that goes as soon as it is there comes ever later, until its Deployment changes."""

from __future__ import annotations

import itertools

from kcm.actors.controllers.workloads.deployment.objects import Deployment
from kcm.actors.controllers.workloads.deployment.rollout import MIN_LIFETIME, CreationBackoff
from tests.actors.controllers.workloads.deployment.objects import parsed_deployment


def web(*, uid: str = "uid-of-web", generation: int = 1) -> Deployment:
    return parsed_deployment(meta={"uid": uid, "generation": generation})


def gone_at_once(times: int) -> tuple[CreationBackoff, float]:
    """The ReplicaSet web-1 was created as often, each time as soon as it might be. And when, last."""
    backoff, now = CreationBackoff(), 100.0
    for _ in range(times):
        now += backoff.seconds_left(web(), "web-1", now)
        backoff.record_creation(web(), "web-1", now)
    return backoff, now


def test_the_first_that_goes_comes_back_at_once_and_later_ones_ever_later() -> None:
    times = [gone_at_once(times)[1] for times in range(1, 10)]
    assert [later - sooner for sooner, later in itertools.pairwise(times)] == [0, 1, 2, 4, 8, 16, 30, 30]


def test_what_has_changed_or_lasted_comes_back_at_once() -> None:
    backoff, now = gone_at_once(5)
    assert backoff.seconds_left(web(), "web-1", now) > 0
    assert backoff.seconds_left(web(generation=2), "web-1", now) == 0
    assert backoff.seconds_left(web(uid="another"), "web-1", now) == 0
    assert backoff.seconds_left(web(), "web-2", now) == 0
    backoff.record_creation(web(), "web-1", now + MIN_LIFETIME)
    assert backoff.seconds_left(web(), "web-1", now + MIN_LIFETIME) == 0


def test_of_a_deployment_that_is_gone_nothing_is_remembered() -> None:
    backoff, now = gone_at_once(5)
    backoff.forget(web().key)
    assert backoff.seconds_left(web(), "web-1", now) == 0
