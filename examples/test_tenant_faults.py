"""The tenant operator in whatever goes wrong: faults, actions of users and a directory of its own for each seed.

python -m pytest examples/test_tenant_faults.py, or for more of it, in examples/:
python -m kcm.simulate --setting test_tenant_faults:SETTING --seeds 1000
"""

import functools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from directory import Directory
from tenant_operator import ACCOUNT, BINDINGS, NAMESPACES, QUOTAS, TENANTS, tenant_spec
from test_website import CRDS, manifest

from kcm import Object, Resource
from kcm.objects import decode_object, is_deleting, key_of
from kcm.testing import (
    Action,
    Committed,
    Fail,
    Fleet,
    Observation,
    Owns,
    Scenario,
    Sent,
    Setting,
    SimulatedCluster,
    Trial,
    draw_plan,
    must_hold,
)

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
SHORT_NAMES, USERS, SIZES = ("dev", "test", "live"), ("anna", "ben", "chloe"), ("1", "5", "20")
HELD = "example.com/held"

# What users do with a tenant, each of them called with a time.


class Users:
    """Of one tenant. What was never made, as a report leaves that out, they need not change."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name, self.chance = name, chance
        self._made = False

    def make(self, at: float) -> Iterator[Action]:
        spec = {"namespaces": self._some(SHORT_NAMES), "admins": self._some(USERS), "quota": self._quota()}

        def do(cluster: SimulatedCluster) -> bool:
            there = cluster.get(TENANTS, self.name)
            if there is not None:
                return not is_deleting(there)  # once its predecessor is gone
            cluster.create(TENANTS, {"metadata": {"name": self.name}, "spec": spec})
            self._made = True
            return True

        yield Action(at, f"{self.name} is made: {spec}", do)

    def remove(self, at: float) -> Iterator[Action]:
        def do(cluster: SimulatedCluster) -> bool:
            if cluster.get(TENANTS, self.name) is None:
                return not self._made
            cluster.delete(TENANTS, self.name)
            return True

        yield Action(at, f"{self.name} is deleted", do)

    def make_anew(self, at: float) -> Iterator[Action]:
        """Of the same name, once the first one is gone."""
        yield from self.remove(at)
        yield from self.make(at)

    def leave_behind(self, at: float) -> Iterator[Action]:
        """Deleted without what it owns, and made anew: the namespaces that it finds are nobody's."""

        def do(cluster: SimulatedCluster) -> bool:
            tenant = cluster.get(TENANTS, self.name)
            if tenant is None:
                return not self._made
            release(cluster)
            if any(trouble_of(cluster, tenant)):
                return False  # which ones are left shall not be chance
            cluster.delete(TENANTS, self.name, policy="Orphan")
            return True

        yield Action(at, f"{self.name} is deleted, and its namespaces are not", do)
        yield from self.make(at)

    def choose_namespaces(self, at: float) -> Iterator[Action]:
        yield self._merge(at, {"namespaces": self._some(SHORT_NAMES)})

    def choose_admins(self, at: float) -> Iterator[Action]:
        yield self._merge(at, {"admins": self._some(USERS)})

    def resize(self, at: float) -> Iterator[Action]:
        yield self._merge(at, {"quota": self._quota()})

    def spoil(self, at: float) -> Iterator[Action]:
        """Something that it owns is deleted or changed by hand, if there is any by then."""
        resource = self.chance.choice((NAMESPACES, QUOTAS, BINDINGS))
        number, changes = self.chance.random(), self.chance.random() < 0.5

        def do(cluster: SimulatedCluster) -> bool:
            owned = [one for one in cluster.list(resource) if owner_of(one)[0] == self.name]
            if owned:
                key = key_of(owned[int(number * len(owned))])
                if not changes or resource is NAMESPACES:
                    cluster.delete(resource, key)
                elif resource is QUOTAS:
                    cluster.merge(QUOTAS, key, {"spec": {"hard": {"pods": "1000"}}})
                else:
                    cluster.merge(BINDINGS, key, {"subjects": []})
            return True

        yield Action(at, f"a {resource.kind} of {self.name} is {'changed' if changes else 'deleted'} by hand", do)

    def hold(self, at: float) -> Iterator[Action]:
        """Something in its namespaces has a finalizer: for a while they cannot go."""

        def do(cluster: SimulatedCluster) -> bool:
            for namespace in cluster.list(NAMESPACES):
                if owner_of(namespace)[0] == self.name and not is_deleting(namespace):
                    where = {"name": "held", "namespace": namespace["metadata"]["name"], "finalizers": [HELD]}
                    if cluster.get(CONFIGMAPS, f"{where['namespace']}/held") is None:
                        cluster.create(CONFIGMAPS, {"metadata": where})
            return True

        yield Action(at, f"the namespaces of {self.name} cannot go", do)
        yield Action(round(at + self.chance.choice((3.0, 8.0, 15.0)), 2), "they can go again", release)

    def _merge(self, at: float, spec: Any) -> Action:
        def do(cluster: SimulatedCluster) -> bool:
            if cluster.get(TENANTS, self.name) is None:
                return not self._made
            cluster.merge(TENANTS, self.name, {"spec": spec})
            return True

        return Action(at, f"{self.name} is to have {spec}", do)

    def _some(self, choices: tuple[str, ...]) -> list[str]:
        return self.chance.sample(choices, self.chance.randint(1, len(choices)))

    def _quota(self) -> dict[str, str]:
        return {"pods": self.chance.choice(SIZES)}


def release(cluster: SimulatedCluster) -> bool:
    """What is held can go."""
    for held in cluster.list(CONFIGMAPS):
        if held["metadata"].get("finalizers") == [HELD]:
            cluster.merge(CONFIGMAPS, key_of(held), {"metadata": {"finalizers": None}})
    return True


def actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("tenants")
    for name in chance.sample(("acme", "acme2", "zoo"), chance.choice((1, 1, 2))):
        users = Users(name, chance)
        if chance.random() < 0.4:
            yield from strange(f"{name}-{chance.choice(SHORT_NAMES)}", scenario, chance)
        changes = [users.choose_namespaces, users.choose_admins, users.resize, users.spoil, users.spoil, users.hold]
        changes += [users.make_anew, users.make_anew, users.leave_behind]
        yield from scenario.life(chance, make=users.make, changes=changes, remove=users.remove, most=6)


def strange(name: str, scenario: Scenario, chance: random.Random) -> Iterator[Action]:
    """Before the tenant is there a stranger has a namespace that it will want, for good or for a while."""

    def make(cluster: SimulatedCluster) -> bool:
        cluster.create(NAMESPACES, {"metadata": {"name": name}})
        return True

    def remove(cluster: SimulatedCluster) -> bool:
        found = cluster.get(NAMESPACES, name)
        if found is not None and not owner_of(found)[0]:
            cluster.delete(NAMESPACES, name)
        return True

    yield Action(0.0, f"a stranger makes {name}", make)
    if chance.random() < 0.6:
        yield Action(round(chance.uniform(1.0, scenario.seconds), 2), f"the stranger deletes {name}", remove)


# What it has to come to.


def unsettled(cluster: SimulatedCluster) -> Iterator[str]:
    tenants = cluster.shown(TENANTS)
    for tenant in tenants:
        yield from trouble_of(cluster, tenant)
    uids = {tenant["metadata"]["uid"] for tenant in tenants}
    for uid, account in cluster.outside.accounts():
        if uid not in uids:
            yield f"the directory has account {account.number} of {account.name}, which is gone"


def trouble_of(cluster: SimulatedCluster, tenant: Object) -> Iterator[str]:
    name, uid, spec = tenant["metadata"]["name"], tenant["metadata"]["uid"], tenant["spec"]
    account = dict(cluster.outside.accounts()).get(uid)
    if is_deleting(tenant):
        yield f"{name} is still being deleted, and it has {account or 'no account any more'}"
        return
    owned = {one["metadata"]["name"]: one for one in cluster.shown(NAMESPACES) if owner_of(one) == (name, uid)}
    wanted = {f"{name}-{each}" for each in spec["namespaces"]}
    taken = {one["metadata"]["name"] for one in cluster.shown(NAMESPACES)} & wanted - owned.keys()
    for each in sorted(owned.keys() - wanted):
        yield f"{each} is not wanted any more"
    for each in sorted(wanted - taken):
        if each not in owned:
            yield f"{name} has no namespace {each}"
        elif is_deleting(owned[each]):
            yield f"{each} is going"
        else:
            quota, binding = cluster.get(QUOTAS, f"{each}/tenant"), cluster.get(BINDINGS, f"{each}/tenant")
            if quota is None or quota["spec"]["hard"] != spec["quota"] or owner_of(quota) != (name, uid):
                yield f"the quota of {each} is {quota and quota['spec']}, and is to be {spec['quota']}"
            if binding is None or admins_of(binding) != spec["admins"] or owner_of(binding) != (name, uid):
                yield f"the admins of {each} are {binding and admins_of(binding)}, and are to be {spec['admins']}"
    status = tenant.get("status", {})
    if status.get("namespaces", []) != sorted(wanted - taken):
        yield f"{name} says that it has {status.get('namespaces')}, and it has {sorted(owned)}"
    if reason_of(tenant) != ("NameTaken" if taken else "Provided"):
        yield f"{name} says {reason_of(tenant)}, and {sorted(taken) or 'nothing'} is taken"
    if status.get("observedGeneration") != tenant["metadata"]["generation"]:
        yield f"{name} says nothing about generation {tenant['metadata']['generation']}"
    if account is None or list(account.members) != spec["admins"]:
        yield f"the directory has {account} of {name}, and its members are to be {spec['admins']}"


def end_state(cluster: SimulatedCluster) -> dict[str, Any]:
    namespaces = [one for one in cluster.list(NAMESPACES) if one["metadata"]["name"].partition("-")[2] in SHORT_NAMES]
    return {
        "tenants": {one["metadata"]["name"]: (one["spec"], reason_of(one)) for one in cluster.list(TENANTS)},
        "namespaces": {one["metadata"]["name"]: owner_of(one)[0] for one in namespaces},
        "quotas": {key_of(one): one["spec"] for one in cluster.list(QUOTAS)},
        "admins": {key_of(one): admins_of(one) for one in cluster.list(BINDINGS) if owner_of(one)[0]},
        "members": {account.name: account.members for _, account in cluster.outside.accounts()},
    }


def owner_of(obj: Object) -> tuple[str, str]:
    """Name and uid of its controller, which may be gone; empty if it has none."""
    owners = [owner for owner in obj.get("metadata", {}).get("ownerReferences", []) if owner.get("controller")]
    return (owners[0]["name"], owners[0]["uid"]) if owners else ("", "")


def reason_of(tenant: Object) -> str:
    conditions = tenant.get("status", {}).get("conditions", [])
    return next((one["reason"] for one in conditions if one["type"] == "Ready"), "")


def admins_of(binding: Object) -> list[str]:
    return [subject["name"] for subject in binding.get("subjects", [])]


# What has to hold at every moment.


class AccountsOfTenants:
    """A tenant has one account, has the finalizer before that, and goes after it."""

    name = "one account, for as long as there is a tenant"

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._known: set[int] = set()

    def observe(self, observation: Observation, fail: Fail) -> None:
        accounts = self._cluster.outside.accounts()
        for _, account in accounts:
            if account.number not in self._known:
                self._known.add(account.number)
                tenant = self._cluster.get(TENANTS, account.name)
                if tenant is None or ACCOUNT not in tenant["metadata"].get("finalizers", []):
                    fail(f"account {account.number} is opened, and {account.name} has no finalizer that has it closed")
                others = [other.number for _, other in accounts if other.name == account.name and other is not account]
                if others:
                    fail(f"{account.name} is given account {account.number}, and has account {others[0]}")
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.storage == "tenants.example.com" and change.type == "DELETED":
                    gone = decode_object(change.raw)["metadata"]
                    if (left := dict(accounts).get(gone["uid"])) is not None:
                        fail(f"{gone['name']} is gone before account {left.number} of it is closed")


class NothingInNamespacesOfOthers:
    """What belongs in a namespace is not written into one that has the right name, and was never the tenant's."""

    name = "nothing is written into namespaces of others"

    def __init__(self) -> None:
        self._owners: dict[str, set[str]] = {}  # by namespace: the uids of all tenants that ever owned it

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Committed(changes):
                for change in changes:
                    if change.storage == "namespaces":
                        self._owners.setdefault(change.key, set()).add(owner_of(decode_object(change.raw))[1])
            case Sent(client="tenant-controller", request=request) if request.method in ("POST", "PUT", "PATCH"):
                where = request.path.partition("/namespaces/")[2].split("/")
                if where[1:2] in (["resourcequotas"], ["rolebindings"]):
                    name, uid = owner_of(decode_object(request.body))
                    if uid and uid not in self._owners.get(where[0], ()):
                        fail(f"{name} ({uid}) writes {where[1]} into {where[0]}, which is not its own")


# All of it together.

TRIAL = Trial(
    controller="tenant-controller",
    owns=(Owns(TENANTS, NAMESPACES), Owns(TENANTS, QUOTAS), Owns(TENANTS, BINDINGS)),
    actions=actions,
    unsettled=unsettled,
    end_state=end_state,
    invariants=lambda cluster, _options: (AccountsOfTenants(cluster), NothingInNamespacesOfOthers()),
)

SETTING = Setting(
    name="test_tenant_faults:SETTING",
    outside=lambda around: Directory(now=around.clock.monotonic, takes=3.0),
    controllers=lambda directory: (tenant_spec(directory),),
    trials=(TRIAL,),
    prepare=lambda cluster: cluster.create(CRDS, manifest("tenant-crd.yml")),
    fleet=lambda _scenario: Fleet(nodes=0),
    draw=functools.partial(draw_plan, resources=("*", "tenants", "namespaces", "resourcequotas", "rolebindings")),
)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_goes_wrong_the_tenant_is_as_its_spec_says(seed: int) -> None:
    must_hold(seed, setting=SETTING)
