"""ApiServers for tests, from the fields of their settings and of their accepted tokens."""

from __future__ import annotations

from typing import Any

from kcm.runtime.apiserver.access.token_authenticator import AcceptedTokens
from kcm.runtime.apiserver.core.settings import ApiSettings
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.storage.store import Store
from kcm.runtime.scheduling.clock import WallClock

_SETTINGS = set(ApiSettings.__struct_fields__)
_TOKENS = set(AcceptedTokens.__struct_fields__)


def new_server(store: Store, clock: WallClock, **arguments: Any) -> ApiServer:
    """Return a server.

    arguments: fields of ApiSettings and of AcceptedTokens, and other arguments of ApiServer.
    """
    settings = {name: value for name, value in arguments.items() if name in _SETTINGS}
    tokens = {name: value for name, value in arguments.items() if name in _TOKENS}
    others = {name: value for name, value in arguments.items() if name not in _SETTINGS | _TOKENS}
    return ApiServer(
        store=store, clock=clock, settings=ApiSettings(**settings), tokens=AcceptedTokens(**tokens), **others
    )
