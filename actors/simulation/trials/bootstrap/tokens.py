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
    """Build a bootstrap token. more: data besides id, secret and signing usage, by its key with "_" for "-"."""
    data = {TOKEN_ID: token_id, TOKEN_SECRET: f"secret-of-{token_id}", SIGNS: "true"}
    data |= {field.replace("_", "-"): text for field, text in more.items()}
    meta = {"name": PREFIX + token_id, "namespace": NAMESPACE}
    return {"metadata": meta, "type": type, "data": encoded(data)}


def create_token(
    at: float, token_id: str, *, lives: float | None = None, type: str = TYPE, expiration: str = ""
) -> Action:
    """Create a token unless one with this id exists.

    lives: seconds until it expires; None for no expiry.
    expiration: text to use instead of a time.
    """

    def do(cluster: SimulatedCluster) -> bool:
        expiry = expiration if lives is None else format_time(cluster.clock.now() + lives)
        if cluster.get(SECRETS, key_of(token_id)) is None:
            cluster.create(SECRETS, token(token_id, type=type, **({EXPIRATION: expiry} if expiry else {})))
        return True

    life = expiration or ("for ever" if lives is None else f"for {lives:g} s")
    return Action(at, f"token {token_id} is made, {life}", do)


def change_token(at: float, token_id: str, data: Mapping[str, str | None], text: str) -> Action:
    """Change the token's data if it exists."""

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(SECRETS, key_of(token_id)) is not None:
            cluster.merge(SECRETS, key_of(token_id), {"data": encoded(data)})
        return True

    return Action(at, f"token {token_id} is {text}", do)


def delete_token(at: float, token_id: str) -> Action:
    """Delete the token if it exists."""

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(SECRETS, key_of(token_id)) is not None:
            cluster.delete(SECRETS, key_of(token_id))
        return True

    return Action(at, f"token {token_id} is deleted", do)
