"""Cache of the essences of objects. The essence of an object contains only the fields that affect quota usage.

A namespace may have thousands of pods from a few templates, and its quotas are counted again whenever a pod is deleted.
With the cache, only changed objects are decoded, and objects with equal essences are evaluated once. Objects are
decoded in batches, because the controller shares its thread with other actors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcm.protocols.objects import Key, Object, encode_object, key_of, resource_version_of
from kcm.protocols.quota.calculation import NotCountedError
from kcm.protocols.quota.evaluators import Evaluator
from kcm.protocols.versions import parse_version
from kcm.runtime.tables.lister import Lister

BATCH_SIZE = 250  # maximum number of objects to decode in one batch


class UsageCache:
    """Cache of the usage-relevant fields (essences) of objects, for all namespaces with ResourceQuotas."""

    def __init__(self) -> None:
        self._caches: dict[tuple[str, str], _ResourceCache] = {}  # by resource and namespace

    def forget(self, namespace: str) -> None:
        """Drop the cached objects of a namespace that has no ResourceQuota any more."""
        for known in [known for known in self._caches if known[1] == namespace]:
            del self._caches[known]

    def read(self, evaluator: Evaluator, lister: Lister, namespace: str) -> bool:
        """Decode up to BATCH_SIZE new or changed objects of a namespace into the cache.

        Returns whether the cache is up to date now. Raises NotCountedError if an object is malformed.
        """
        return self._of(evaluator, namespace).read(evaluator, lister, namespace, most=BATCH_SIZE)

    def essences(self, evaluator: Evaluator, lister: Lister, namespace: str) -> Sequence[Object]:
        """Return the usage-relevant fields of each object in a namespace, after an update of the cache.

        Objects with equal fields share one dict. Raises NotCountedError if an object is malformed.
        """
        cache = self._of(evaluator, namespace)
        cache.read(evaluator, lister, namespace)
        return cache.essences()

    def essences_of(self, evaluator: Evaluator, objects: Iterable[Object], namespace: str) -> Sequence[Object]:
        """Return the usage-relevant fields of each of these objects, which were listed from the API server.

        The cache is used for objects whose resourceVersion it contains. Raises NotCountedError if an object is
        malformed.
        """
        return self._of(evaluator, namespace).essences_of(evaluator, objects)

    def _of(self, evaluator: Evaluator, namespace: str) -> _ResourceCache:
        return self._caches.setdefault((evaluator.resource, namespace), _ResourceCache())


class _ResourceCache:
    """Cache of the usage-relevant fields (essences) of the objects of one resource in one namespace."""

    def __init__(self) -> None:
        self._texts: dict[Key, tuple[int, bytes]] = {}  # resourceVersion and essence, as JSON
        self._shared: dict[bytes, Object] = {}  # decoded essences, by their JSON

    def essences(self) -> Sequence[Object]:
        return [self._shared[text] for _, text in self._texts.values()]

    def read(self, evaluator: Evaluator, lister: Lister, namespace: str, *, most: int | None = None) -> bool:
        texts: dict[Key, tuple[int, bytes]] = {}
        left = most
        for entry in lister.entries(namespace):
            known = self._texts.get(entry.key)
            if known is None or known[0] != entry.resource_version:
                if left == 0:
                    self._texts.update(texts)
                    return False
                left = None if left is None else left - 1
                known = entry.resource_version, self._text(evaluator, entry.key, lister.object_of(entry))
            texts[entry.key] = known
        self._texts = texts
        used = {text for _, text in texts.values()}
        self._shared = {text: essence for text, essence in self._shared.items() if text in used}
        return True

    def essences_of(self, evaluator: Evaluator, objects: Iterable[Object]) -> Sequence[Object]:
        shared = dict(self._shared)
        found = []
        for obj in objects:
            key = key_of(obj)
            known = self._texts.get(key)
            if known is not None and known[0] == parse_version(resource_version_of(obj)):
                found.append(shared[known[1]])
            else:
                found.append(shared.setdefault(*_essence(evaluator, key, obj)))
        return found

    def _text(self, evaluator: Evaluator, key: Key, obj: Object) -> bytes:
        text, essence = _essence(evaluator, key, obj)
        self._shared.setdefault(text, essence)
        return text


def _essence(evaluator: Evaluator, key: Key, obj: Object) -> tuple[bytes, Object]:
    """Return the usage-relevant fields of an object (its essence), as JSON and decoded.

    Raises NotCountedError if the object is malformed.
    """
    try:
        essence = evaluator.essence(obj)
        return encode_object(essence), essence
    except (ValueError, TypeError, AttributeError, KeyError) as err:
        raise NotCountedError(f"{evaluator.resource} {key} cannot be counted: {err}") from err
