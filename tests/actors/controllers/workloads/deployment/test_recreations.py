"""A ReplicaSet that goes as soon as it is there comes ever later, until its Deployment changes."""

from __future__ import annotations

import itertools

from kcm.actors.controllers.workloads.deployment.recreations import LASTED, Recreations
from kcm.protocols.objects import Object, key_of
from tests.support.objects import deployment


def web(*, uid: str = "uid-of-web", generation: int = 1) -> Object:
    return deployment(metadata={"name": "web", "namespace": "default", "uid": uid, "generation": generation})


def gone_at_once(times: int) -> tuple[Recreations, float]:
    """The ReplicaSet web-1 was created as often, each time as soon as it might be. And when, last."""
    recreations, now = Recreations(), 100.0
    for _ in range(times):
        now += recreations.wait(web(), "web-1", now)
        recreations.made(web(), "web-1", now)
    return recreations, now


def test_the_first_that_goes_comes_back_at_once_and_later_ones_ever_later() -> None:
    times = [gone_at_once(times)[1] for times in range(1, 10)]
    assert [later - sooner for sooner, later in itertools.pairwise(times)] == [0, 1, 2, 4, 8, 16, 30, 30]


def test_what_has_changed_or_lasted_comes_back_at_once() -> None:
    recreations, now = gone_at_once(5)
    assert recreations.wait(web(), "web-1", now) > 0
    assert recreations.wait(web(generation=2), "web-1", now) == 0
    assert recreations.wait(web(uid="another"), "web-1", now) == 0
    assert recreations.wait(web(), "web-2", now) == 0
    recreations.made(web(), "web-1", now + LASTED)
    assert recreations.wait(web(), "web-1", now + LASTED) == 0


def test_of_a_deployment_that_is_gone_nothing_is_remembered() -> None:
    recreations, now = gone_at_once(5)
    recreations.forget(key_of(web()))
    assert recreations.wait(web(), "web-1", now) == 0
