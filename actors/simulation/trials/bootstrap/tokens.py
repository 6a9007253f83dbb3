"""User actions on bootstrap tokens."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from kcm.actors.controllers.bootstrap.token_secrets import EXPIRATION, NAMESPACE, SIGNS, TOKEN_ID, TOKEN_SECRET, TYPE
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.scenario import Action
from kcm.protocols.objects import Key, Object, make_key
from kcm.protocols.resources import SECRETS
from kcm.protocols.times import format_time

PREFIX = "bootstrap-token-"
EXPIRING = "exp"  # prefix of the ids of tokens that may expire during a run


def key_of(token_id: str) -> Key:
    return make_key(NAMESPACE, PREFIX + token_id)


def encoded(data: Mapping[str, str | None]) -> dict[str, str | None]:
    return {field: None if text is None else base64.b64encode(text.encode()).decode() for field, text in data.items()}


def token(token_id: str, *, type: str = TYPE, **more: str) -> Object:
    """Build the Secret of a bootstrap token, with an id, a token secret, and permission to sign.

    more: additional data of the Secret; "_" in a name stands for "-".
    """
    data = {TOKEN_ID: token_id, TOKEN_SECRET: f"secret-of-{token_id}", SIGNS: "true"}
    data |= {field.replace("_", "-"): text for field, text in more.items()}
    meta = {"name": PREFIX + token_id, "namespace": NAMESPACE}
    return {"metadata": meta, "type": type, "data": encoded(data)}


def create_token(
    at: float, token_id: str, *, lives: float | None = None, type: str = TYPE, expiration: str = ""
) -> Action:
    """Return the action that creates a token, unless a token with this id exists.

    lives: seconds until the token expires; None for no expiry.
    type: type of the Secret.
    expiration: text of the expiry if `lives` is None, for example an invalid time.
    """

    def do(cluster: SimulatedCluster) -> bool:
        expiry = expiration if lives is None else format_time(cluster.clock.now() + lives)
        if cluster.get(SECRETS, key_of(token_id)) is None:
            cluster.create(SECRETS, token(token_id, type=type, **({EXPIRATION: expiry} if expiry else {})))
        return True

    expires = expiration or ("never" if lives is None else f"after {lives:g} s")
    return Action(at, f"token {token_id} is created, expires {expires}", do)


def change_token(at: float, token_id: str, data: Mapping[str, str | None], text: str) -> Action:
    """Return the action that changes the data of a token, if it exists. text: description of the change in reports."""

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(SECRETS, key_of(token_id)) is not None:
            cluster.merge(SECRETS, key_of(token_id), {"data": encoded(data)})
        return True

    return Action(at, f"token {token_id} is {text}", do)


def delete_token(at: float, token_id: str) -> Action:
    """Return the action that deletes a token, if it exists."""

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(SECRETS, key_of(token_id)) is not None:
            cluster.delete(SECRETS, key_of(token_id))
        return True

    return Action(at, f"token {token_id} is deleted", do)
