"""Finds the users of bearer tokens: static tokens, tokens of nodes and of service accounts, and tokens in Secrets.

Source: kubernetes pkg/kubeapiserver/authenticator/config.go (v1.36).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from kcm.runtime.apiserver.access.account_tokens import ISSUER, AccountTokens
from kcm.runtime.apiserver.access.legacy_tokens import LegacyTokens, Use
from kcm.runtime.apiserver.registry.users import NODE, NODES, Authenticated, Unauthenticated, User, known
from kcm.runtime.apiserver.storage.state import State
from kcm.runtime.signing.node_tokens import node_in


class StaticTokens:
    """Tokens that never expire, and their users."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = [(token.encode(), known(user)) for token, user in tokens.items()]

    def user_of(self, token: str) -> User | None:
        given = token.encode(errors="replace")
        return next((user for known_token, user in self._tokens if hmac.compare_digest(given, known_token)), None)


class AcceptedTokens(Struct, frozen=True, kw_only=True):
    """Bearer tokens that a server accepts."""

    accounts: AccountTokens | None = None  # issues and verifies tokens of service accounts; None rejects them
    legacy: LegacyTokens | None = None  # verifies tokens of Secrets; None rejects them
    users: Mapping[str, User] = field(default_factory=dict)  # users by static token, which never expires
    node_key: bytes = b""  # key of the tokens of nodes; empty rejects them


NO_TOKENS = AcceptedTokens()


class TokenAuthenticator:
    """Finds the user of a bearer token."""

    def __init__(self, state: State, now: Callable[[], float], tokens: AcceptedTokens) -> None:
        """Create an authenticator.

        state: contains the objects that tokens refer to
        now: returns Unix seconds
        tokens: kinds of tokens that are accepted
        """
        self._state, self._now = state, now
        self._account_tokens, self._legacy_tokens = tokens.accounts, tokens.legacy
        self._static_tokens, self._node_key = StaticTokens(tokens.users), tokens.node_key
        self._audiences = (ISSUER,) if tokens.accounts is None else tokens.accounts.audiences

    def authenticate(self, token: str, audiences: Sequence[str]) -> Authenticated | Unauthenticated:
        """Find the user of a token that is not the token of a Secret.

        audiences: the token must be intended for at least one of them; () for the server itself
        """
        wanted = audiences or self._audiences
        # Tokens of service accounts come first because they are verified with each request; the users of other tokens
        # are cached by connection.
        if self._account_tokens is not None:
            found = self._account_tokens.authenticate(token, wanted, state=self._state, now=self._now())
            if isinstance(found, Authenticated) or found.why:
                return found
        user = self._node_of(token) or self._static_tokens.user_of(token)
        good_for = self._own(wanted)
        return Unauthenticated() if user is None or not good_for else Authenticated(user, good_for)

    def use_of(self, token: str) -> Use | None:
        """Verify a token of a Secret. Return None for any other token."""
        if self._legacy_tokens is None:
            return None
        return self._legacy_tokens.use_of(token, state=self._state, now=self._now())

    def review(self, token: str, audiences: Sequence[str]) -> Authenticated | Unauthenticated:
        """Find the user of any token, as a TokenReview does. The use of a Secret's token is not recorded.

        audiences: the token must be intended for at least one of them; () for the server itself
        """
        found = self.authenticate(token, audiences)
        good_for = self._own(audiences or self._audiences)
        if isinstance(found, Authenticated) or not good_for:
            return found
        use = self.use_of(token)
        return found if use is None or use.user is None else Authenticated(use.user, good_for)

    def _own(self, audiences: Sequence[str]) -> tuple[str, ...]:
        """Return those of the audiences that are the server's own."""
        return tuple([audience for audience in self._audiences if audience in audiences])

    def _node_of(self, token: str) -> User | None:
        name = node_in(self._node_key, token) if self._node_key else None
        return None if name is None else known(User(f"{NODE}{name}", groups=(NODES,)))
