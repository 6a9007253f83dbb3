"""Whatever goes wrong, a Website is reached, stays reached, and never has two Deployments: python -m pytest examples

Each seed draws what people wish, what goes wrong and when. A failure says how it is replayed, in this directory:
python -m kcm.simulate --setting test_website_faults:SETTING --seed 7 --faults "..."
"""

import functools
import random
from collections.abc import Sequence
from typing import Any

import pytest
from test_website import CRDS, manifest
from website_controller import DEPLOYMENTS, WEBSITE, WEBSITES, differences, is_owned, replicas_of

from kcm import BUILT_IN, Object, decode_object
from kcm.testing import (
    Committed,
    Fail,
    Observation,
    Setting,
    SimulatedCluster,
    Wish,
    draw_plan,
    end_state,
    must_hold,
    unsettled,
)

BLOG = "default/blog"


# What people wish: the blog is made, and changed a few times. An act answers whether it could be done already.


def wishes(scenario: int) -> tuple[Wish, ...]:
    chance = random.Random(scenario)
    made = [Wish(1.0, "make the blog", make)]
    times = sorted(chance.uniform(3.0, 30.0) for _ in range(chance.randint(2, 5)))
    return (*made, *(chance.choice((scale, use, remove_deployment, make_anew))(at, chance) for at in times))


def make(cluster: SimulatedCluster) -> bool:
    cluster.create(WEBSITES, manifest("website.yml"))
    return True


def scale(at: float, chance: random.Random) -> Wish:
    return merge(at, {"replicas": chance.randint(0, 5)})


def use(at: float, chance: random.Random) -> Wish:
    return merge(at, {"image": chance.choice(("nginx", "httpd", "caddy"))})


def merge(at: float, spec: dict[str, Any]) -> Wish:
    def act(cluster: SimulatedCluster) -> bool:
        cluster.merge(WEBSITES, BLOG, {"spec": spec})
        return True

    return Wish(at, f"the blog is to have {spec}", act)


def remove_deployment(at: float, _chance: random.Random) -> Wish:
    def act(cluster: SimulatedCluster) -> bool:
        if cluster.get(DEPLOYMENTS, BLOG) is None:
            return False
        cluster.delete(DEPLOYMENTS, BLOG)
        return True

    return Wish(at, "the blog's Deployment is deleted by hand", act)


def make_anew(at: float, _chance: random.Random) -> Wish:
    def act(cluster: SimulatedCluster) -> bool:
        cluster.delete(WEBSITES, BLOG)
        return make(cluster)

    return Wish(at, "the blog is deleted, and another made", act)


# What has to hold at every moment, and what it has to come to.


class OneDeploymentEach:
    """No Website is given a Deployment while it has another."""

    name = "one Deployment each"

    def __init__(self) -> None:
        self._owned: dict[str, set[str]] = {}  # by the Website's uid: the uids of its Deployments

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        for change in observation.changes:
            if change.storage != "deployments.apps":
                continue
            meta = decode_object(change.raw)["metadata"]
            for owner in meta.get("ownerReferences", ()):
                owned = self._owned.setdefault(owner["uid"], set())
                owned.discard(meta["uid"])
                if change.type != "DELETED":
                    owned.add(meta["uid"])
                if len(owned) > 1:
                    fail(f"{owner['name']} has {len(owned)} Deployments")


def not_yet(cluster: SimulatedCluster) -> list[str]:
    """What is not as it is wished; nothing once it has settled. Of Deployments and pods kcm knows itself."""
    found = unsettled(cluster)
    for website in cluster.list(WEBSITES):
        deployment = cluster.get(DEPLOYMENTS, BLOG)
        if deployment is None or not is_owned(deployment, website):
            found.append("the blog has no Deployment")
        elif changes := differences(website, deployment):
            found.append(f"its Deployment is yet to have {changes}")
        if status_of(website).get("ready") != replicas_of(website):
            found.append(f"the blog says {status_of(website)}, and is to have {replicas_of(website)}")
    return found


def comes_to(cluster: SimulatedCluster) -> dict[str, Any]:
    """All that wishes determine: names that are drawn, uids and times are left out."""
    websites = {site["metadata"]["name"]: (site["spec"], status_of(site)) for site in cluster.list(WEBSITES)}
    return {**end_state(cluster), "websites": websites}


def status_of(website: Object) -> Object:
    status: Object = website.get("status", {})
    return status


def invariants(_cluster: SimulatedCluster, _scenario: int) -> Sequence[OneDeploymentEach]:
    return (OneDeploymentEach(),)


SETTING = Setting(
    name="test_website_faults:SETTING",
    controllers=(*BUILT_IN, WEBSITE),
    prepare=lambda cluster: cluster.create(CRDS, manifest("website-crd.yml")),
    wishes=wishes,
    invariants=invariants,
    unsettled=not_yet,
    end_state=comes_to,
    draw=functools.partial(draw_plan, resources=("*", "websites", "deployments")),
)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_goes_wrong_the_website_is_as_it_is_wished(seed: int) -> None:
    must_hold(seed, setting=SETTING)
