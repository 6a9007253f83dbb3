"""Service account token controller: completes the token Secrets that users create, and deletes orphaned ones."""

from kcm.actors.controllers.identity.tokens.spec import SPEC

__all__ = ["SPEC"]
