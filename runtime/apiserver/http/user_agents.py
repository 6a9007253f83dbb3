"""Default field manager of a client, from its User-Agent header.

Source: apiserver pkg/endpoints/handlers/create.go, managerOrUserAgent, prefixFromUserAgent (v1.36).
"""

from __future__ import annotations

from kcm.protocols.bounded_cache import bounded_cache
from kcm.runtime.client.api import LONGEST_FIELD_MANAGER


@bounded_cache(256)
def agent_prefix(user_agent: str) -> str:
    """Return the default field manager of a client: "kubectl" for "kubectl/v1.36.2 (linux/amd64)"."""
    name = "".join(filter(str.isprintable, user_agent.partition("/")[0]))
    return name.encode()[:LONGEST_FIELD_MANAGER].decode(errors="ignore")
