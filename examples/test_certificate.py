"""The certificate operator and its webhooks in the simulator, also under faults: python -m pytest examples"""

import functools
import random
from collections.abc import Iterator

import pytest
from certificate_operator import BETA, CERTIFICATES, SECRETS, certificate_spec, complete
from test_website import CRDS, manifest

from kcm import Object
from kcm.objects import controlled_by, is_deleting
from kcm.outcomes import CommandError, Invalid
from kcm.testing import (
    Action,
    Owns,
    Scenario,
    Setting,
    SimulatedCluster,
    Trial,
    check_roundtrips,
    draw_plan,
    must_hold,
    user_creates,
    user_deletes,
    user_merges,
)


def issue(names: list[str], days: int, now: float) -> dict[str, str]:
    """Issue texts instead of certificates, which are the same in each run."""
    return {"tls.crt": f"{names} {days} {now}", "tls.key": "key"}


SPEC = certificate_spec(issue)


def certificate(name: str, *names: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"names": list(names)}}


def with_operator(world: SimulatedCluster) -> SimulatedCluster:
    world.create(CRDS, manifest("certificate-crd.yml"))
    world.manager(controllers=(SPEC,))
    world.run_for(10)
    return world


def test_a_certificate_has_defaults_and_a_secret(world: SimulatedCluster) -> None:
    made = with_operator(world).create(CERTIFICATES, certificate("shop", "shop.example.com"))
    assert made["spec"] == {"names": ["shop.example.com"], "days": 90, "secretName": "shop-tls"}
    assert world.run_until(lambda: world.get(SECRETS, "default/shop-tls") is not None, within=10)


def test_a_name_belongs_to_one_certificate(world: SimulatedCluster) -> None:
    with_operator(world).create(CERTIFICATES, certificate("shop", "shop.example.com", "www.example.com"))
    world.run_for(1)
    with pytest.raises(CommandError) as caught:
        world.create(CERTIFICATES, certificate("other", "www.example.com"))
    assert isinstance(caught.value.failure, Invalid)
    world.merge(CERTIFICATES, "default/shop", {"spec": {"days": 30}})


def test_both_versions_show_the_same_certificate(world: SimulatedCluster) -> None:
    spec = {"domain": "a.example.com", "moreDomains": ["b.example.com"]}
    with_operator(world).create(BETA, {"metadata": {"name": "old"}, "spec": spec})
    stored = world.get(CERTIFICATES, "default/old")
    assert stored is not None
    assert stored["spec"]["names"] == ["a.example.com", "b.example.com"]
    assert (
        check_roundtrips(
            SPEC, stored, {"kind": "Certificate", "apiVersion": BETA.api_version, "metadata": {}, "spec": spec}
        )
        == 2
    )


# Under faults: crashes, lost responses, late watches, and webhooks that are down, slow or without a valid certificate.


def actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("certificates")
    for number in range(3):
        names = [f"{number}.example.com", f"www.{number}.example.com"]
        yield user_creates(12.0 + number, CERTIFICATES, certificate(f"c{number}", *names[: chance.randint(1, 2)]))
    for at in scenario.times(chance, chance.randint(1, 4)):
        yield chance.choice((extend, remove_secret))(max(at, 16.0), chance)


def extend(at: float, chance: random.Random) -> Action:
    return user_merges(
        at, CERTIFICATES, f"default/c{chance.randint(0, 2)}", {"spec": {"days": chance.randint(10, 300)}}
    )


def remove_secret(at: float, chance: random.Random) -> Action:
    return user_deletes(at, SECRETS, f"default/c{chance.randint(0, 2)}-tls")


def unsettled(cluster: SimulatedCluster) -> Iterator[str]:
    for found in cluster.list(CERTIFICATES):
        spec = complete(found["metadata"]["name"], found["spec"])
        secret = cluster.get(SECRETS, f"default/{spec['secretName']}")
        if secret is None or is_deleting(secret) or not controlled_by(secret, found):
            yield f"{spec['secretName']} does not exist"
        elif f"{','.join(spec['names'])} {spec['days']}|" not in str(secret["metadata"].get("annotations")):
            yield f"{spec['secretName']} is of another spec"


TRIAL = Trial(controller=SPEC.name, owns=(Owns(CERTIFICATES, SECRETS),), actions=actions, unsettled=unsettled)
SETTING = Setting(
    name="test_certificate:SETTING",
    controllers=(SPEC,),
    trials=(TRIAL,),
    prepare=lambda cluster: cluster.create(CRDS, manifest("certificate-crd.yml")),
    draw=functools.partial(draw_plan, resources=("*", "certificates", "secrets")),
    calls=True,
)


@pytest.mark.parametrize("seed", range(4))
def test_secrets_match_the_certificates_after_faults(seed: int) -> None:
    must_hold(seed, setting=SETTING)
