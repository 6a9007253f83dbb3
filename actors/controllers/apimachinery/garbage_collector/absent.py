"""The owners that are known not to exist, so that a thousand dependents of one ask the server once.

Source: kubernetes v1.36 pkg/controller/garbagecollector/uid_cache.go, which keeps 500.
"""

from __future__ import annotations

from hashlib import blake2b

from kcm.actors.controllers.apimachinery.garbage_collector.items import Item
from kcm.actors.controllers.apimachinery.garbage_collector.recent import Recent

MOST = 5000


class AbsentOwners:
    """Owners by coordinates; the least recently used is forgotten first.

    Digests are kept, since the names in owner references may be of any length.
    """

    def __init__(self, most: int = MOST) -> None:
        self._elsewhere: Recent[bytes, bool] = Recent(most)

    def __contains__(self, owner: Item) -> bool:
        return self._elsewhere.get(_digest(owner)) is not None

    def add(self, owner: Item, *, elsewhere: bool) -> None:
        """elsewhere: an object with its uid is in another namespace."""
        self._elsewhere.put(_digest(owner), elsewhere)

    def is_elsewhere(self, owner: Item) -> bool:
        return self._elsewhere.get(_digest(owner)) is True


def _digest(owner: Item) -> bytes:
    text = "\0".join((owner.resource, owner.key, owner.uid))
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
