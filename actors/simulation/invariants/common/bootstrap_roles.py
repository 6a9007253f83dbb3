"""Rights that kube-apiserver's bootstrap roles grant to each controller's service account, and an invariant for them.

With --use-service-account-credentials a request beyond these rights is rejected.

Source: the roles system:controller:… and system:kube-controller-manager in runtime/apiserver/bootstrap/policy.py;
tests/e2e/test_bootstrap_roles.py compares them with those of a real API server. The group extensions is ignored,
because it serves no resources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from typing import NamedTuple

from kcm.actors.engine.elector.lease import CLIENT as ELECTIONS
from kcm.actors.reconciliation.actor_names import INFORMERS
from kcm.actors.simulation.invariants.observer import Fail, Observation, Sent
from kcm.protocols.objects import Object, name_of
from kcm.runtime.apiserver.bootstrap.devices import with_pool_status, with_taint_rules
from kcm.runtime.apiserver.bootstrap.policy import bootstrap_policy
from kcm.runtime.apiserver.bootstrap.versions import with_collector, with_migrator
from kcm.runtime.apiserver.bootstrap.workloads import with_group_claims, with_workloads
from kcm.runtime.apiserver.registry.policy_rules import rules_in
from kcm.runtime.client.api import Request

MANAGER = "kube-controller-manager"  # client with the rights of the manager's own user
# Clients that act as the manager's user with any flags.
AS_MANAGER = frozenset({INFORMERS, "tokens-controller"})

OF_ALL_USERS = "selfsubjectaccessreviews"  # system:basic-user grants it

_CONTROLLER, _MANAGER = "system:controller:", "system:kube-controller-manager"  # prefix of role names, and a role name
# Role in kube-system of the manager's user, for its Leases; electors send requests to no other namespace.
_LOCKING = "system::leader-locking-kube-controller-manager"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class Right(NamedTuple):
    """Permission for one verb on a resource.

    group: API group; "*" for all.
    resource: "resource" or "resource/subresource"; "*" for all.
    name: name of the only permitted object; "" for all objects.
    """

    verb: str
    group: str
    resource: str
    name: str = ""


@cache
def roles(*, gated: bool = False) -> Mapping[str, frozenset[Right]]:
    """Return the rights of each client by its name.

    gated: include the rights for the feature gates GenericWorkload, WorkloadWithJob, DRADeviceTaintRules,
        DRAResourcePoolStatus, StorageVersionMigrator and StorageVersionAPI.
    """
    policy = bootstrap_policy()
    if gated:
        policy = with_pool_status(with_taint_rules(with_group_claims(with_workloads(policy))))
        policy = with_migrator(with_collector(policy))
    named = {name_of(role): role for role in policy if role["kind"] == "ClusterRole"}
    of_clients = {name.removeprefix(_CONTROLLER): role for name, role in named.items() if name.startswith(_CONTROLLER)}
    rights = {client: frozenset(_rights(role)) for client, role in {**of_clients, MANAGER: named[_MANAGER]}.items()}
    locking = next(role for role in policy if role["kind"] == "Role" and name_of(role) == _LOCKING)
    return {**rights, ELECTIONS: rights[MANAGER] | frozenset(_rights(locking))}


@cache
def _rights_of(client: str) -> tuple[frozenset[Right], bool] | None:
    """Return the rights of a client with feature gates, and whether some are for named objects; None without a role."""
    rights = roles(gated=True).get(MANAGER if client in AS_MANAGER else client)
    return None if rights is None else (rights, any(right.name for right in rights))


def _rights(role: Object) -> Iterator[Right]:
    for rule in rules_in(role):
        for verb, group, resource, name in product(rule.verbs, rule.groups, rule.resources, rule.names or ("",)):
            if group != "extensions":
                yield Right(verb, group, resource, name)


def wanted_right(request: Request) -> Right | None:
    """Return the right that a request requires; None for a request outside resources, such as discovery."""
    root, *parts = request.path.strip("/").split("/")
    group = parts.pop(0) if root == "apis" and parts else ""
    if root not in ("api", "apis") or len(parts) < 2:
        return None
    parts = parts[1:]
    if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in ("status", "finalize"):
        parts = parts[2:]
    resource, name, *below = [*parts, ""] if len(parts) == 1 else parts
    verb = _VERBS.get(request.method, "")
    if request.method == "DELETE":
        verb = "delete" if name else "deletecollection"
    elif request.method == "GET":
        verb = "get" if name else "watch" if request.query.get("watch") else "list"
    return Right(verb, group, "/".join([resource, *below]), name)


def may(rights: frozenset[Right], wanted: Right) -> bool:
    subresource = wanted.resource.partition("/")[2]
    resources = {wanted.resource, "*", f"*/{subresource}"}
    return any(
        Right(wanted.verb, group, resource, name) in rights
        for group in {wanted.group, "*"}
        for resource in resources
        for name in {wanted.name, ""}
    )


class WithinItsRole:
    """Invariant: the bootstrap role of a client permits each of its requests. Clients without a role are exempt."""

    name = "requests are within bootstrap roles"
    observes = (Sent,)

    def __init__(self) -> None:
        self._known: dict[tuple[str, Right], bool] = {}

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Sent):
            return
        client, request = observation.client, observation.request
        found = _rights_of(client)
        wanted = None if found is None else wanted_right(request)
        if found is None or wanted is None or wanted.resource == OF_ALL_USERS:
            return
        rights, has_names = found
        if not has_names:
            wanted = wanted._replace(name="")
        if (client, wanted) not in self._known:
            self._known[client, wanted] = may(rights, wanted)
        if not self._known[client, wanted]:
            fail(f"{client} may not {wanted.verb} {wanted.resource}: {request.method} {request.path}")
