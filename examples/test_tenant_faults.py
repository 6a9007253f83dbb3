"""The tenant operator under faults. Each seed draws faults and user actions, and has its own directory.

python -m pytest examples/test_tenant_faults.py, or for more seeds, in examples/:
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

# User actions on a tenant. Each function is called with a time.


class Users:
    """Users of one tenant. They skip actions on a tenant that was never created, as in a reduced scenario."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name, self.chance = name, chance
        self._made = False

    def make(self, at: float) -> Iterator[Action]:
        spec = {"namespaces": self._some(SHORT_NAMES), "admins": self._some(USERS), "quota": self._quota()}

        def do(cluster: SimulatedCluster) -> bool:
            there = cluster.get(TENANTS, self.name)
            if there is not None:
                return not is_deleting(there)  # retried until its predecessor is deleted
            cluster.create(TENANTS, {"metadata": {"name": self.name}, "spec": spec})
            self._made = True
            return True

        yield Action(at, f"{self.name} is created: {spec}", do)

    def remove(self, at: float) -> Iterator[Action]:
        def do(cluster: SimulatedCluster) -> bool:
            if cluster.get(TENANTS, self.name) is None:
                return not self._made
            cluster.delete(TENANTS, self.name)
            return True

        yield Action(at, f"{self.name} is deleted", do)

    def recreate(self, at: float) -> Iterator[Action]:
        """Delete the tenant and create it again under the same name."""
        yield from self.remove(at)
        yield from self.make(at)

    def leave_behind(self, at: float) -> Iterator[Action]:
        """Delete the tenant without its namespaces and create it again; the namespaces then have no owner."""

        def do(cluster: SimulatedCluster) -> bool:
            tenant = cluster.get(TENANTS, self.name)
            if tenant is None:
                return not self._made
            release(cluster)
            if any(trouble_of(cluster, tenant)):
                return False  # retried, so that the remaining namespaces do not depend on timing
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

    def tamper(self, at: float) -> Iterator[Action]:
        """Delete or change an object of the tenant, if it has any at that time."""
        resource = self.chance.choice((NAMESPACES, QUOTAS, BINDINGS))
        number, changes = self.chance.random(), self.chance.random() < 0.5

        def do(cluster: SimulatedCluster) -> bool:
            owned = [obj for obj in cluster.list(resource) if owner_of(obj)[0] == self.name]
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
        """Create objects with a finalizer in its namespaces, which then cannot be deleted for a while."""

        def do(cluster: SimulatedCluster) -> bool:
            for namespace in cluster.list(NAMESPACES):
                if owner_of(namespace)[0] == self.name and not is_deleting(namespace):
                    where = {"name": "held", "namespace": namespace["metadata"]["name"], "finalizers": [HELD]}
                    if cluster.get(CONFIGMAPS, f"{where['namespace']}/held") is None:
                        cluster.create(CONFIGMAPS, {"metadata": where})
            return True

        yield Action(at, f"the namespaces of {self.name} cannot be deleted", do)
        yield Action(round(at + self.chance.choice((3.0, 8.0, 15.0)), 2), "they can be deleted again", release)

    def _merge(self, at: float, spec: Any) -> Action:
        def do(cluster: SimulatedCluster) -> bool:
            if cluster.get(TENANTS, self.name) is None:
                return not self._made
            cluster.merge(TENANTS, self.name, {"spec": spec})
            return True

        return Action(at, f"{self.name} is changed to {spec}", do)

    def _some(self, choices: tuple[str, ...]) -> list[str]:
        return self.chance.sample(choices, self.chance.randint(1, len(choices)))

    def _quota(self) -> dict[str, str]:
        return {"pods": self.chance.choice(SIZES)}


def release(cluster: SimulatedCluster) -> bool:
    """Remove the finalizers of `Users.hold`."""
    for held in cluster.list(CONFIGMAPS):
        if held["metadata"].get("finalizers") == [HELD]:
            cluster.merge(CONFIGMAPS, key_of(held), {"metadata": {"finalizers": None}})
    return True


def actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("tenants")
    for name in chance.sample(("acme", "acme2", "zoo"), chance.choice((1, 1, 2))):
        users = Users(name, chance)
        if chance.random() < 0.4:
            yield from conflicting_namespace(f"{name}-{chance.choice(SHORT_NAMES)}", scenario, chance)
        changes = [users.choose_namespaces, users.choose_admins, users.resize, users.tamper, users.tamper, users.hold]
        changes += [users.recreate, users.recreate, users.leave_behind]
        yield from scenario.life(chance, make=users.make, changes=changes, remove=users.remove, most=6)


def conflicting_namespace(name: str, scenario: Scenario, chance: random.Random) -> Iterator[Action]:
    """Create a namespace whose name the tenant needs, for a while or permanently."""

    def make(cluster: SimulatedCluster) -> bool:
        cluster.create(NAMESPACES, {"metadata": {"name": name}})
        return True

    def remove(cluster: SimulatedCluster) -> bool:
        found = cluster.get(NAMESPACES, name)
        if found is not None and not owner_of(found)[0]:
            cluster.delete(NAMESPACES, name)
        return True

    yield Action(0.0, f"another user creates {name}", make)
    if chance.random() < 0.6:
        yield Action(round(chance.uniform(1.0, scenario.seconds), 2), f"the other user deletes {name}", remove)


# Expected end state.


def unsettled(cluster: SimulatedCluster) -> Iterator[str]:
    tenants = cluster.shown(TENANTS)
    for tenant in tenants:
        yield from trouble_of(cluster, tenant)
    uids = {tenant["metadata"]["uid"] for tenant in tenants}
    for uid, account in cluster.outside.accounts():
        if uid not in uids:
            yield f"the directory has account {account.number} of {account.name}, which does not exist"


def trouble_of(cluster: SimulatedCluster, tenant: Object) -> Iterator[str]:
    name, uid, spec = tenant["metadata"]["name"], tenant["metadata"]["uid"], tenant["spec"]
    account = dict(cluster.outside.accounts()).get(uid)
    if is_deleting(tenant):
        yield f"{name} is still being deleted, and it has {account or 'no account any more'}"
        return
    owned = {obj["metadata"]["name"]: obj for obj in cluster.shown(NAMESPACES) if owner_of(obj) == (name, uid)}
    wanted = {f"{name}-{each}" for each in spec["namespaces"]}
    taken = {obj["metadata"]["name"] for obj in cluster.shown(NAMESPACES)} & wanted - owned.keys()
    for each in sorted(owned.keys() - wanted):
        yield f"{each} is not wanted any more"
    for each in sorted(wanted - taken):
        if each not in owned:
            yield f"{name} has no namespace {each}"
        elif is_deleting(owned[each]):
            yield f"{each} is being deleted"
        else:
            quota, binding = cluster.get(QUOTAS, f"{each}/tenant"), cluster.get(BINDINGS, f"{each}/tenant")
            if quota is None or quota["spec"]["hard"] != spec["quota"] or owner_of(quota) != (name, uid):
                yield f"the quota of {each} is {quota and quota['spec']}, not {spec['quota']}"
            if binding is None or admins_of(binding) != spec["admins"] or owner_of(binding) != (name, uid):
                yield f"the admins of {each} are {binding and admins_of(binding)}, not {spec['admins']}"
    status = tenant.get("status", {})
    if status.get("namespaces", []) != sorted(wanted - taken):
        yield f"the status of {name} contains {status.get('namespaces')}, but it has {sorted(owned)}"
    if reason_of(tenant) != ("NameTaken" if taken else "Provided"):
        yield f"{name} reports {reason_of(tenant)}, but {sorted(taken) or 'nothing'} is taken"
    if status.get("observedGeneration") != tenant["metadata"]["generation"]:
        yield f"the status of {name} is not of generation {tenant['metadata']['generation']}"
    if account is None or list(account.members) != spec["admins"]:
        yield f"the directory has {account} of {name}, but its members should be {spec['admins']}"


def end_state(cluster: SimulatedCluster) -> dict[str, Any]:
    namespaces = [obj for obj in cluster.list(NAMESPACES) if obj["metadata"]["name"].partition("-")[2] in SHORT_NAMES]
    return {
        "tenants": {obj["metadata"]["name"]: (obj["spec"], reason_of(obj)) for obj in cluster.list(TENANTS)},
        "namespaces": {obj["metadata"]["name"]: owner_of(obj)[0] for obj in namespaces},
        "quotas": {key_of(obj): obj["spec"] for obj in cluster.list(QUOTAS)},
        "admins": {key_of(obj): admins_of(obj) for obj in cluster.list(BINDINGS) if owner_of(obj)[0]},
        "members": {account.name: account.members for _, account in cluster.outside.accounts()},
    }


def owner_of(obj: Object) -> tuple[str, str]:
    """Return name and uid of the object's controller, which may be deleted; empty without a controller."""
    owners = [owner for owner in obj.get("metadata", {}).get("ownerReferences", []) if owner.get("controller")]
    return (owners[0]["name"], owners[0]["uid"]) if owners else ("", "")


def reason_of(tenant: Object) -> str:
    conditions = tenant.get("status", {}).get("conditions", [])
    return next((condition["reason"] for condition in conditions if condition["type"] == "Ready"), "")


def admins_of(binding: Object) -> list[str]:
    return [subject["name"] for subject in binding.get("subjects", [])]


# Invariants.


class AccountsOfTenants:
    """A tenant has one account, gets its finalizer before that, and is deleted after the account is closed."""

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
                    fail(f"account {account.number} is opened, but {account.name} has no finalizer")
                others = [other.number for _, other in accounts if other.name == account.name and other is not account]
                if others:
                    fail(f"{account.name} gets account {account.number}, but has account {others[0]}")
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.storage == "tenants.example.com" and change.type == "DELETED":
                    deleted = decode_object(change.raw)["metadata"]
                    if (left := dict(accounts).get(deleted["uid"])) is not None:
                        fail(f"{deleted['name']} is deleted before its account {left.number} is closed")


class NothingInNamespacesOfOthers:
    """The operator writes only into namespaces that the tenant owns or owned, not into others with the right name."""

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
                        fail(f"{name} ({uid}) writes {where[1]} into {where[0]}, which it does not own")


# Trial and setting.

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
    outside=lambda environment: Directory(now=environment.clock.monotonic, takes=3.0),
    controllers=lambda directory: (tenant_spec(directory),),
    trials=(TRIAL,),
    prepare=lambda cluster: cluster.create(CRDS, manifest("tenant-crd.yml")),
    fleet=lambda _scenario: Fleet(nodes=0),
    draw=functools.partial(draw_plan, resources=("*", "tenants", "namespaces", "resourcequotas", "rolebindings")),
)


@pytest.mark.parametrize("seed", range(4))
def test_tenant_matches_its_spec_after_faults(seed: int) -> None:
    must_hold(seed, setting=SETTING)
