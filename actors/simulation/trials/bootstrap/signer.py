"""Simulation trial of the cluster-info signer: users change the signed data, change tokens, and falsify signatures."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.controllers.bootstrap.signer import CLUSTER_INFO, CONTENT, NAME, PUBLIC, SIGNATURE
from kcm.actors.controllers.bootstrap.token_secrets import EXPIRATION, NAMESPACE, SIGNS, TOKEN_ID, TOKEN_SECRET, TYPE
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.tokens import OnlySignaturesChange, is_signed_by, key_to_sign_with
from kcm.actors.simulation.trials.bootstrap.tokens import EXPIRING, change_token, create_token, delete_token
from kcm.actors.simulation.trials.identity.actions import if_exists
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object
from kcm.protocols.resources import CONFIGMAPS, SECRETS

TOKENS = ("sign00", "sign01", "sign02")
CHANGES: tuple[tuple[Mapping[str, str | None], str], ...] = (
    ({TOKEN_SECRET: "another"}, "given another token secret"),
    ({TOKEN_SECRET: None}, "left without its token secret"),
    ({TOKEN_ID: "other0"}, "given another token id"),
    ({SIGNS: "false"}, "disabled for signing"),
    ({SIGNS: "true"}, "enabled for signing"),
    ({EXPIRATION: "2999-01-01T00:00:00Z"}, "set to expire in the year 2999"),
)


def _publish(at: float, content: str) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(CONFIGMAPS, CLUSTER_INFO) is None:
            meta = {"name": NAME, "namespace": PUBLIC, "labels": {"by": "user"}}
            cluster.create(CONFIGMAPS, {"metadata": meta, "data": {CONTENT: content, "more": "of the user"}})
        return True

    return Action(at, f"cluster-info is published: {content!r}", do)


def _change_of_info(at: float, chance: random.Random) -> Iterable[Action]:
    match chance.randrange(6):
        case 0 | 1:
            changes, text = {CONTENT: f"clusters at {at}"}, "changed"
        case 2:
            changes, text = {f"{SIGNATURE}{chance.choice(TOKENS)}": "falsified"}, "falsified"
        case 3:
            changes, text = {f"{SIGNATURE}nobody": "forged"}, "given a signature of an unknown token"
        case 4:
            yield if_exists(at, CONFIGMAPS, CLUSTER_INFO, {"data": None}, "emptied")
            yield if_exists(at + 2.0, CONFIGMAPS, CLUSTER_INFO, {"data": {CONTENT: "again"}}, "given content again")
            return
        case _:
            yield if_exists(at, CONFIGMAPS, CLUSTER_INFO, None, "deleted")
            yield _publish(at + 1.0, "published again")
            return
    yield if_exists(at, CONFIGMAPS, CLUSTER_INFO, {"data": changes}, text)


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("bootstrap signer actions")
    born, *times = scenario.times(chance, chance.randint(3, 9), first=1.0)
    yield _publish(born, "clusters")
    for token in chance.sample(TOKENS, chance.randint(1, len(TOKENS))):
        yield create_token(chance.choice(times), token)
    for at in times:
        token = chance.choice(TOKENS)
        match chance.randrange(6):
            case 0 | 1:
                yield from _change_of_info(at, chance)
            case 2:
                yield delete_token(at, token)
                yield create_token(at + 1.5, token)
            case 3:
                yield delete_token(at, token)
            case _:
                yield change_token(at, token, *chance.choice(CHANGES))


def _data(cluster: SimulatedCluster) -> Mapping[str, str]:
    found = cluster.get(CONFIGMAPS, CLUSTER_INFO)
    return {} if found is None else found.get("data") or {}


def _tokens(cluster: SimulatedCluster) -> Mapping[str, bytes]:
    """Return the signing keys of all tokens that must sign cluster-info now, by token id."""
    now = cluster.clock.now()
    secrets: list[Object] = [secret for secret in cluster.shown(SECRETS, NAMESPACE) if secret.get("type") == TYPE]
    return dict(filter(None, (key_to_sign_with(secret, now=now) for secret in secrets)))


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    data, tokens = _data(cluster), _tokens(cluster)
    content = data.get(CONTENT)
    if content is None:
        return
    signatures = {key.removeprefix(SIGNATURE): text for key, text in data.items() if key.startswith(SIGNATURE)}
    for token in sorted(signatures.keys() ^ tokens.keys()):
        yield f"cluster-info is{'' if token in signatures else ' not'} signed by {token}"
    for token in sorted(signatures.keys() & tokens.keys()):
        if not is_signed_by(signatures[token], content, token, tokens[token]):
            yield f"cluster-info has an invalid signature of {token}"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the data of the ConfigMap cluster-info, without signatures of the token cleaner's tokens."""
    theirs = f"{SIGNATURE}{EXPIRING}"
    return {"cluster-info": {key: text for key, text in _data(cluster).items() if not key.startswith(theirs)}}


TRIAL = Trial(
    controller="bootstrap-signer-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda _cluster, _options: (OnlySignaturesChange(),),
)
