"""Backoff for a new ReplicaSet that goes as soon as it is there.

While the watch of Deployments is late a Deployment may be gone, and each ReplicaSet that is made for it is collected at
once; its deletion brings the Deployment's key, and the next one is made. Upstream makes them as fast as its client may.
A ReplicaSet that goes for the first time comes back at once; then it waits, ever longer, until the Deployment changes.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.protocols.objects import Key, Object, key_of, metadata, uid_of
from kcm.runtime.scheduling.backoff import Backoff

LASTED = 60.0  # seconds; one that went later went for another reason
BACKOFF = Backoff(first=1.0, most=30.0)


class _Made(NamedTuple):
    """what: the Deployment's uid and generation, and the ReplicaSet's name. again: how often in a row since the first.

    at: monotonic seconds.
    """

    what: tuple[str, int, str]
    at: float
    again: int


class Recreations:
    """The newest ReplicaSet that was created for each Deployment."""

    def __init__(self) -> None:
        self._made: dict[Key, _Made] = {}

    def wait(self, deployment: Object, name: str, now: float) -> float:
        """Seconds until a ReplicaSet of this name may be created; 0.0 is now."""
        made = self._made.get(key_of(deployment))
        if made is None or made.what != _what(deployment, name) or made.again == 0:
            return 0.0
        return max(0.0, made.at + BACKOFF.delay(made.again - 1) - now)

    def made(self, deployment: Object, name: str, now: float) -> None:
        """It was created."""
        what, before = _what(deployment, name), self._made.get(key_of(deployment))
        again = before.again + 1 if before is not None and before.what == what and now - before.at < LASTED else 0
        self._made[key_of(deployment)] = _Made(what, now, again)

    def forget(self, deployment: Key) -> None:
        """It is gone."""
        self._made.pop(deployment, None)


def _what(deployment: Object, name: str) -> tuple[str, int, str]:
    return uid_of(deployment), metadata(deployment).get("generation") or 0, name
