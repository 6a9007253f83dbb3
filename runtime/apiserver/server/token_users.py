"""Authentication of bearer tokens."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from kcm.protocols.messages.commands import PatchType
from kcm.protocols.objects import name_of, namespace_of, uid_of
from kcm.protocols.resources import SECRETS, resource_path
from kcm.runtime.apiserver.access.legacy_tokens import LAST_USED, Use
from kcm.runtime.apiserver.access.token_authenticator import TokenAuthenticator
from kcm.runtime.apiserver.registry.users import Authenticated, User
from kcm.runtime.client.api import Request, Response


class TokenUsers:
    """Authenticator of bearer tokens, which records in service account Secrets when their tokens are used."""

    def __init__(self, authenticator: TokenAuthenticator, handle: Callable[[Request], Response]) -> None:
        """Create an authenticator.

        handle: executes a request of the server itself, to patch a Secret
        """
        self._authenticator, self._handle = authenticator, handle

    def user_of(self, token: str) -> User | None:
        """Return the user of a token; None if the token is unknown, expired or revoked.

        If the token is that of a Secret, the date is recorded in the Secret. Must not be called within a request.
        """
        found = self._authenticator.authenticate(token, ())
        if isinstance(found, Authenticated):
            return found.user
        use = self._authenticator.use_of(token)
        if use is not None and use.day:
            self._record(use)
        return None if use is None else use.user

    def _record(self, use: Use) -> None:
        """Set the label of the Secret with the date of the token's last use, unless the Secret has been replaced."""
        patch = {"metadata": {"uid": uid_of(use.secret), "labels": {LAST_USED: use.day}}}
        path = resource_path(SECRETS.id, namespace_of(use.secret), name_of(use.secret))
        self._handle(Request(method="PATCH", path=path, body=orjson.dumps(patch), content_type=str(PatchType.MERGE)))
