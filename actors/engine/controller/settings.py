"""How one controller is driven."""

from __future__ import annotations

from dataclasses import dataclass

from protocols.objects import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """name: canonical, as --controllers has it. client: whose API client it uses; component: its events' source.

    concurrency: keys in work at once. max_retries: after so many failures in a row a key is dropped until its next
    event; None never. stale_after: seconds without a sign of life of a table after which nothing is deleted.
    first_keys: looked at once as soon as it may act. resync: seconds after which it looks at everything again; 0 never.
    """

    name: str
    client: str
    component: str
    concurrency: int = 5
    max_retries: int | None = None
    stale_after: float = 300.0
    first_keys: tuple[Key, ...] = ()
    resync: float = 0.0
