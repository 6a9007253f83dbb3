"""Users of bearer tokens in requests."""

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
    """Finds users of tokens, and records the use of tokens of Secrets."""

    def __init__(self, authenticator: TokenAuthenticator, handle: Callable[[Request], Response]) -> None:
        """Create a finder.

        handle: carries out a request of the server itself.
        """
        self._authenticator, self._handle = authenticator, handle

    def user_of(self, token: str) -> User | None:
        """Return the user of a token, None for an unknown, expired or revoked one.

        The use of a Secret's token is recorded in the Secret. Not within a request.
        """
        found = self._authenticator.authenticate(token, ())
        if isinstance(found, Authenticated):
            return found.user
        use = self._authenticator.use_of(token)
        if use is not None and use.day:
            self._record(use)
        return None if use is None else use.user

    def _record(self, use: Use) -> None:
        """Record in the Secret that its token was used; ignored if the Secret was replaced meanwhile."""
        patch = {"metadata": {"uid": uid_of(use.secret), "labels": {LAST_USED: use.day}}}
        path = resource_path(SECRETS.id, namespace_of(use.secret), name_of(use.secret))
        self._handle(Request(method="PATCH", path=path, body=orjson.dumps(patch), content_type=str(PatchType.MERGE)))
