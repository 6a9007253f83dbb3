"""serviceaccount-token-controller: fills, repairs and deletes the token Secrets that users make."""

from kcm.actors.controllers.identity.tokens.spec import SPEC

__all__ = ["SPEC"]
