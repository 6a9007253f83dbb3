"""Simulation trial of the token controller: users create, change and delete service accounts and token Secrets."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.identity.token_secrets import ACCOUNT_NAME, TYPE, account_name, account_uid
from kcm.actors.controllers.identity.tokens.reconciler import CA, NAMESPACE, TOKEN, claims
from kcm.actors.controllers.shared.secret_data import data_of
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Fail, Observation, Submitted, only, shown
from kcm.actors.simulation.processes import AUTHORITY
from kcm.actors.simulation.trials.identity.actions import if_exists, in_default
from kcm.actors.simulation.trials.identity.key import signing_key
from kcm.actors.simulation.trials.scenario import NAMESPACE as WHERE
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.messages.commands import Delete
from kcm.protocols.objects import Key, Object, decode_object, make_key, name_of, split_key, uid_of
from kcm.protocols.resources import SECRETS, SERVICE_ACCOUNTS, Resource

NAME = "serviceaccount-token-controller"
ACCOUNTS = ("builder", "runner")
CHANGES = (
    ({"data": {TOKEN: None}}, "left without its token"),
    ({"data": {CA: "b3RoZXI="}}, "given another CA certificate"),
    ({"data": {NAMESPACE: None}}, "left without its namespace"),
    (None, "deleted"),
)


def create_if_missing(at: float, resource: Resource, obj: Object) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, in_default(name_of(obj))) is None:
            cluster.create(resource, obj)
        return True

    return Action(at, f"create {resource.kind} {name_of(obj)}", do)


def token_secret(name: str, account: str) -> Object:
    return {"metadata": {"name": name, "annotations": {ACCOUNT_NAME: account}}, "type": TYPE}


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("token actions")
    for account in ACCOUNTS:
        times = iter(scenario.times(chance, 6))
        yield create_if_missing(next(times), SERVICE_ACCOUNTS, {"metadata": {"name": account}})
        secret = f"{account}-token"
        for at in times:
            match chance.randrange(5):
                case 0 | 1:
                    yield create_if_missing(at, SECRETS, token_secret(secret, account))
                case 2:
                    listed = {"secrets": [{"name": secret}, {"name": "other"}]}
                    yield if_exists(at, SERVICE_ACCOUNTS, in_default(account), listed, "made to list its token")
                case 3:
                    yield if_exists(at, SERVICE_ACCOUNTS, in_default(account), None, "deleted")
                    if chance.random() < 0.5:
                        yield create_if_missing(at + 1.0, SERVICE_ACCOUNTS, {"metadata": {"name": account}})
                case _:
                    changes, text = chance.choice(CHANGES)
                    yield if_exists(at, SECRETS, in_default(secret), changes, text)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for secret in cluster.shown(SECRETS, WHERE):
        if secret["type"] != TYPE:
            continue
        account = cluster.get(SERVICE_ACCOUNTS, in_default(account_name(secret)))
        if account is None:
            yield f"secret {name_of(secret)} exists without its service account"
        elif account_uid(secret) != uid_of(account):
            yield f"secret {name_of(secret)} has the account uid {account_uid(secret)!r}, not {uid_of(account)!r}"
        elif data_of(secret, CA) != AUTHORITY or data_of(secret, NAMESPACE) != WHERE.encode():
            yield f"secret {name_of(secret)} contains another CA certificate or namespace"
        elif signing_key().claims_of(data_of(secret, TOKEN).decode()) != claims(account, secret):
            yield f"secret {name_of(secret)} does not contain a token of its account"


class TokensOfAccountsAreKept:
    """Invariant: no token Secret is deleted while its service account exists on the server."""

    name = "tokens are kept while their account exists"
    observes = (only(Submitted, controller_name(NAME)),)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Submitted(_, system, submit) if submit.sender == controller_name(NAME):
                for command in submit.commands:
                    if isinstance(command, Delete) and command.resource == SECRETS.id:
                        entry = shown(system, command.resource, command.key)
                        if entry is not None and entry.uid == command.uid:
                            self._check(command.key, decode_object(entry.raw), fail)

    def _check(self, key: Key, secret: Object, fail: Fail) -> None:
        account = self._cluster.get(SERVICE_ACCOUNTS, make_key(split_key(key)[0], account_name(secret)))
        if account is None:
            return
        # A Secret without a uid belongs to any account with this name. If the account is older than the Secret, it has
        # existed ever since the Secret was created.
        is_older = _created(account) < _created(secret)
        if uid_of(account) == account_uid(secret) or (is_older and not account_uid(secret)):
            fail(f"secret {key} is deleted, but its account {name_of(account)} exists")


def _created(obj: Object) -> str:
    return str(obj["metadata"]["creationTimestamp"])


def _invariants(cluster: SimulatedCluster, _options: Options) -> Iterable[TokensOfAccountsAreKept]:
    return (TokensOfAccountsAreKept(cluster),)


TRIAL = Trial(controller=NAME, actions=_actions, unsettled=_unsettled, invariants=_invariants, deletes=(SECRETS,))
