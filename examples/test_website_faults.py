"""The Website controller under faults: python -m pytest examples

Each seed draws user actions and faults. The failure message contains a command that replays it in this directory:
python -m kcm.simulate --setting test_website_faults:SETTING --seed 7 --faults "..."
"""

import functools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from test_website import CRDS, manifest
from website_controller import DEPLOYMENTS, WEBSITE, WEBSITES

from kcm import BUILT_IN, Object
from kcm.objects import controlled_by, decode_object
from kcm.testing import (
    Action,
    Committed,
    Fail,
    Observation,
    Owns,
    Plan,
    Scenario,
    Setting,
    SimulatedCluster,
    Trial,
    UserActions,
    draw_plan,
    must_hold,
    plans,
    user_actions,
    user_creates,
    user_deletes,
    user_merges,
    user_replaces,
)

BLOG = "default/blog"


# User actions: the blog is created and changed a few times.


def actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("websites")
    yield user_creates(1.0, WEBSITES, manifest("website.yml"))
    for at in scenario.times(chance, chance.randint(2, 5)):
        yield chance.choice((scale, use, remove_deployment, recreate))(at, chance)


def scale(at: float, chance: random.Random) -> Action:
    return user_merges(at, WEBSITES, BLOG, {"spec": {"replicas": chance.randint(0, 5)}})


def use(at: float, chance: random.Random) -> Action:
    return user_merges(at, WEBSITES, BLOG, {"spec": {"image": chance.choice(("nginx", "httpd", "caddy"))}})


def remove_deployment(at: float, _chance: random.Random) -> Action:
    return user_deletes(at, DEPLOYMENTS, BLOG)


def recreate(at: float, _chance: random.Random) -> Action:
    return user_replaces(at, WEBSITES, BLOG, manifest("website.yml"))


# Invariant and expected end state.


class OneDeploymentEach:
    """A Website never has two Deployments."""

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


def unsettled(cluster: SimulatedCluster) -> Iterator[str]:
    """Yield differences from the spec. Those of Deployments and pods are checked by kcm's own trials."""
    for website in cluster.list(WEBSITES):
        deployment, wanted = cluster.get(DEPLOYMENTS, BLOG), website["spec"]
        if deployment is None or not controlled_by(deployment, website):
            yield "the blog has no Deployment"
        else:
            (container,) = deployment["spec"]["template"]["spec"]["containers"]
            if (deployment["spec"]["replicas"], container["image"]) != (wanted["replicas"], wanted["image"]):
                yield f"its Deployment does not match {wanted} yet"
        if status_of(website).get("ready") != wanted["replicas"]:
            yield f"the blog's status is {status_of(website)}, not {wanted['replicas']} ready"


def end_state(cluster: SimulatedCluster) -> dict[str, Any]:
    """Return what the user actions determine: no generated names, uids or times."""
    websites = {site["metadata"]["name"]: (site["spec"], status_of(site)) for site in cluster.list(WEBSITES)}
    return {"websites": websites}


def status_of(website: Object) -> Object:
    status: Object = website.get("status", {})
    return status


TRIAL = Trial(
    controller=WEBSITE.name,
    owns=(Owns(WEBSITES, DEPLOYMENTS),),
    actions=actions,
    unsettled=unsettled,
    end_state=end_state,
    invariants=lambda _cluster, _options: (OneDeploymentEach(),),
)

SETTING = Setting(
    name="test_website_faults:SETTING",
    controllers=(*BUILT_IN, WEBSITE),
    trials=(TRIAL,),
    prepare=lambda cluster: cluster.create(CRDS, manifest("website-crd.yml")),
    draw=functools.partial(draw_plan, resources=("*", "websites", "deployments")),
)


@pytest.mark.parametrize("seed", range(4))
def test_website_matches_its_spec_after_faults(seed: int) -> None:
    must_hold(seed, setting=SETTING)


@given(user_actions(SETTING), plans(SETTING))
@settings(deadline=None, max_examples=3)
def test_website_matches_its_spec_after_drawn_user_actions(actions: UserActions, plan: Plan) -> None:
    # hypothesis reduces a failure to the simplest actions and faults.
    must_hold(actions, faults=plan)
