"""Simulation trial of the bootstrap token cleaner: users create tokens, and change their expiry."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.controllers.bootstrap.token_secrets import EXPIRATION, NAMESPACE, TYPE, expiry_of
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.tokens import CLEANER, expiry
from kcm.actors.simulation.invariants.workloads.lifetimes import NotDeletedBeforeExpiry
from kcm.actors.simulation.trials.actions import unless_gone
from kcm.actors.simulation.trials.bootstrap.tokens import (
    EXPIRING,
    PREFIX,
    change_token,
    create_token,
    delete_token,
    encoded,
    key_of,
)
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import annotations_of, labels_of, name_of
from kcm.protocols.resources import SECRETS
from kcm.protocols.times import format_time

SHORT, EXTENDED, LONG = (0.0, 1.0, 8.0), 20.0, 100_000.0  # seconds until expiry; only LONG is longer than a run
SOON = 1000.0  # seconds; a token that expires later does not expire during the run
LATE = "example.com/extended"  # annotation of tokens whose expiry was postponed


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("token cleaner actions")
    for number in range(chance.randint(1, 4)):
        yield from _life(scenario, chance, f"{EXPIRING}{number:03}")
    yield create_token(2.0, f"{EXPIRING}zzz", lives=0.0, type="Opaque")


def _life(scenario: Scenario, chance: random.Random, token: str) -> Iterator[Action]:
    """Yield the actions on one token: create it, change its expiry, and finally delete it or let it expire.

    Sometimes the expiry is postponed just before the token expires.
    """
    born, *changes, after = scenario.times(chance, chance.randint(2, 4))
    yield create_token(born, token, lives=chance.choice((None, LONG)))
    for at in changes:
        yield _set_expiry(at, token, chance.choice((None, LONG)))
    match chance.randrange(6):
        case 0:
            yield change_token(after, token, {EXPIRATION: "tomorrow"}, "given an invalid expiry")
        case 1:
            yield delete_token(after, token)
        case 2 | 3:
            yield _set_expiry(after, token, chance.choice(SHORT))
        case 4:
            yield _set_expiry(after, token, EXTENDED)
            if chance.random() < 0.8:
                at = round(after + chance.uniform(1.0, 12.0), 2)
                yield unless_gone(
                    _set_expiry(at, token, chance.choice((None, LONG)), late=True), SECRETS, key_of(token)
                )


def _set_expiry(at: float, token: str, seconds: float | None, *, late: bool = False) -> Action:
    """Return the action that lets a token expire after some seconds, or never if `seconds` is None.

    late: mark the token as one whose expiry was postponed.
    """

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(SECRETS, key_of(token)) is None:
            return True
        expiry = None if seconds is None else format_time(cluster.clock.now() + seconds)
        changes: dict[str, Any] = {"data": encoded({EXPIRATION: expiry})}
        if late:
            changes["metadata"] = {"annotations": {LATE: "yes"}}
        cluster.merge(SECRETS, key_of(token), changes)
        return True

    return Action(at, f"token {token} expires {'never' if seconds is None else f'after {seconds:g} s'}", do)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for secret in cluster.shown(SECRETS, NAMESPACE):
        expiry = expiry_of(secret)
        if secret.get("type") == TYPE and expiry is not None and expiry < cluster.clock.now() + SOON:
            yield f"{name_of(secret)} still exists {cluster.clock.now() - expiry:.0f} s after its expiry"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the labels of the remaining tokens, except for tokens whose expiry was postponed.

    A manager whose clock is ahead may delete such a token before its expiry is postponed.
    """
    secrets = (secret for secret in cluster.shown(SECRETS, NAMESPACE) if name_of(secret).startswith(PREFIX + EXPIRING))
    return {name_of(secret): labels_of(secret) for secret in secrets if LATE not in annotations_of(secret)}


def _not_deleted_early(cluster: SimulatedCluster) -> NotDeletedBeforeExpiry:
    return NotDeletedBeforeExpiry(
        cluster, "no token is deleted early", client=CLEANER, storage="secrets", expiry=expiry
    )


TRIAL = Trial(
    controller="token-cleaner-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (_not_deleted_early(cluster),),
    deletes=(SECRETS,),
)
