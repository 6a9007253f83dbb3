"""The DNS operator on virtual time, under faults, and on a running API server with its provider over HTTP.

python -m pytest examples/test_dns.py, or for more seeds, in examples/:
python -m kcm.simulate --setting test_dns:SETTING --seeds 1000
"""

import functools
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dns_operator import PUBLISHED, RECORDS, dns_spec
from dns_service import DnsClient, MemoryZone
from kubernetes import client, config
from remote_checks import OneForEach, change, create, define, lose_status, serving, until
from test_website import CRDS

from kcm import ControllerSystem, Object, api_transport
from kcm.manifests import custom_resource_definitions
from kcm.objects import is_deleting
from kcm.outcomes import CommandError, Invalid
from kcm.testing import Action, Fleet, Scenario, Setting, SimulatedCluster, Trial, draw_plan, must_hold

ADDRESSES = ("192.0.2.1", "192.0.2.2", "192.0.2.3")
NAMES = ("www.example.com", "api.example.com")
(DEFINITION,) = custom_resource_definitions([dns_spec()])


def prepare(cluster: SimulatedCluster) -> None:
    cluster.create(CRDS, DEFINITION)


# User actions.


def publish(at: float, name: str, chance: random.Random) -> Action:
    return create(at, RECORDS, name, {"name": chance.choice(NAMES), "values": some(chance)})


def some(chance: random.Random) -> list[str]:
    return chance.sample(ADDRESSES, chance.randint(1, len(ADDRESSES)))


def edit_at_the_provider(at: float, name: str) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        cluster.outside.edit(f"{name} A", ("203.0.113.9",))
        return True

    return Action(at, f"{name} is edited at the provider", do)


def life_of(name: str, scenario: Scenario, chance: random.Random) -> Iterator[Action]:
    yield from scenario.life(
        chance,
        make=lambda at: iter([publish(at, name, chance)]),
        changes=[
            lambda at: iter([change(at, RECORDS, name, {"spec": {"values": some(chance)}})]),
            lambda at: iter([change(at, RECORDS, name, {"spec": {"ttl": chance.choice((60, 300, 3600))}})]),
            lambda at: iter([edit_at_the_provider(at, chance.choice(NAMES))]),
            lambda at: iter([lose_status(at, RECORDS, name)]),
        ],
        remove=lambda at: iter([change(at, RECORDS, name, None)]),
        most=6,
    )


def actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("records")
    for name in ("first", "second")[: chance.randint(1, 2)]:
        yield from life_of(name, scenario, chance)


# Expected end state.


def unsettled(cluster: SimulatedCluster) -> Iterator[str]:
    """Yield differences. Of two DnsRecords with the same name one is Active and the other Taken."""
    stored = cluster.outside.stored()
    owners = {record.title: number for number, record in stored.items()}
    for found in cluster.shown(RECORDS):
        name, uid, spec, status = (found["metadata"]["name"], found["metadata"]["uid"], found["spec"], status_of(found))
        title = title_of(found)
        if is_deleting(found):
            yield f"{name} is still being deleted, and the provider has {stored.pop(uid, None) or 'no record of it'}"
            continue
        record = stored.pop(uid, None)
        if record is None and title not in owners:
            yield f"the provider has no record {title}"
        elif record is not None and (record.values, record.ttl) != (tuple(spec["values"]), spec["ttl"]):
            yield f"{title} has {record.values} for {record.ttl} s, not {spec['values']} for {spec['ttl']} s"
        state = "Taken" if record is None else "Active"
        if (status.get("state"), status.get("observedGeneration")) != (state, found["metadata"]["generation"]):
            yield f"{name} reports {status}, and is {state} in generation {found['metadata']['generation']}"
    for number, record in stored.items():
        yield f"the provider has record {number} of {record.title}, which no DnsRecord has"


def title_of(found: Object) -> str:
    return f"{found['spec']['name']} {found['spec']['type']}"


def status_of(found: Object) -> Object:
    status: Object = found.get("status", {})
    return status


def end_state(cluster: SimulatedCluster) -> dict[str, Any]:
    """Return what the user actions determine; which of two DnsRecords gets a name depends on times."""
    records = cluster.list(RECORDS)
    return {
        "records": {each["metadata"]["name"]: each["spec"] for each in records},
        "states": Counter((title_of(each), status_of(each).get("state")) for each in records),
    }


TRIAL = Trial(
    controller="dns-controller",
    actions=actions,
    unsettled=unsettled,
    end_state=end_state,
    invariants=lambda cluster, _options: (OneForEach(cluster, RECORDS, PUBLISHED, "record"),),
)

SETTING = Setting(
    name="test_dns:SETTING",
    outside=lambda environment: MemoryZone(now=environment.clock.monotonic, takes=3.0),
    controllers=lambda zone: (dns_spec(zone),),
    trials=(TRIAL,),
    prepare=prepare,
    fleet=lambda _scenario: Fleet(nodes=0),
    draw=functools.partial(draw_plan, resources=("*", "dnsrecords")),
)


@pytest.mark.parametrize("seed", range(4))
def test_zone_matches_the_records_after_faults(seed: int) -> None:
    must_hold(seed, setting=SETTING)


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "www.example.com", "values": []},
        {"name": "not a name", "values": ["192.0.2.1"]},
        {"name": "www.example.com", "values": ["a.example.com", "b.example.com"], "type": "CNAME"},
        {"name": "www.example.com", "values": ["192.0.2.1"], "ttl": 1},
    ],
)
def test_invalid_record_is_rejected_by_its_schema(world: SimulatedCluster, spec: Object) -> None:
    prepare(world)
    with pytest.raises(CommandError) as caught:
        world.create(RECORDS, {"metadata": {"name": "a"}, "spec": spec})
    assert isinstance(caught.value.failure, Invalid)


def test_record_is_published_changed_and_deleted_over_http(kubeconfig: Path) -> None:
    zone = MemoryZone()
    with serving(zone) as url, config.new_client_from_config(str(kubeconfig)) as api:
        define(api, DEFINITION)
        where = ("example.com", "v1", "default", "dnsrecords")
        records: Any = client.CustomObjectsApi(api)
        spec = dns_spec(DnsClient(url))
        with api_transport(kubeconfig) as transport, ControllerSystem(transport=transport, controllers=(spec,)):
            body = {"apiVersion": RECORDS.api_version, "kind": "DnsRecord", "metadata": {"name": "www"}}
            values = {"name": "www.example.com", "values": ["192.0.2.1"]}
            records.create_namespaced_custom_object(*where, {**body, "spec": values})

            def state() -> tuple[Any, Any]:
                found = records.get_namespaced_custom_object(*where, "www")
                return found.get("status", {}).get("state"), found.get("status", {}).get("observedGeneration")

            until(lambda: state() == ("Active", 1))
            (record,) = zone.stored().values()
            assert (record.title, record.values, record.ttl) == ("www.example.com A", ("192.0.2.1",), 300)
            records.patch_namespaced_custom_object(*where, "www", {"spec": {"values": ["192.0.2.2"]}})
            until(lambda: state() == ("Active", 2))
            (record,) = zone.stored().values()
            assert record.values == ("192.0.2.2",)
            records.delete_namespaced_custom_object(*where, "www")
            until(lambda: not records.list_namespaced_custom_object(*where)["items"])
            assert zone.stored() == {}
