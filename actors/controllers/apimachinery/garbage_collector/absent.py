"""Cache of owners that the server does not have, so that an owner with many dependents is read only once.

Source: kubernetes v1.36 pkg/controller/garbagecollector/uid_cache.go (ReferenceCache, with 500 entries).
"""

from __future__ import annotations

from hashlib import blake2b

from kcm.actors.controllers.apimachinery.garbage_collector.items import Item
from kcm.actors.controllers.apimachinery.garbage_collector.lru_cache import LruCache

MAX_ENTRIES = 5000


class AbsentOwners:
    """LRU cache of owners that were not found on the server.

    The keys of the cache are digests, because names in owner references may have any length.
    """

    def __init__(self, most: int = MAX_ENTRIES) -> None:
        self._owners: LruCache[bytes, bool] = LruCache(most)

    def __contains__(self, owner: Item) -> bool:
        return self._owners.get(_digest(owner)) is not None

    def add(self, owner: Item, *, in_other_namespace: bool) -> None:
        """Record that an owner does not exist.

        in_other_namespace: whether an object with the owner's uid exists in another namespace than the dependent's.
        """
        self._owners.put(_digest(owner), in_other_namespace)

    def was_in_other_namespace(self, owner: Item) -> bool:
        return self._owners.get(_digest(owner)) is True


def _digest(owner: Item) -> bytes:
    text = "\0".join((owner.resource, owner.key, owner.uid))
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
