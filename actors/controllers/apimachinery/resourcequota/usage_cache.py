"""Cache of the essences of objects, which are the parts that a quota counts.

A namespace may have thousands of pods from a few templates, and its quotas are counted again whenever a pod is deleted.
Then only the changed objects are decoded, and equal essences are counted together. Objects are read in batches, because
the thread that counts is shared with all other actors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcm.protocols.objects import Key, Object, encode_object, key_of, resource_version_of
from kcm.protocols.quota.calculation import NotCountedError
from kcm.protocols.quota.evaluators import Evaluator
from kcm.protocols.versions import parse_version
from kcm.runtime.tables.lister import Lister

MOST = 250  # objects to decode in one batch


class UsageCache:
    """The essences in all namespaces with quotas."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, str], _Read] = {}  # by resource and namespace

    def forget(self, namespace: str) -> None:
        """Drop a namespace without quotas."""
        for known in [known for known in self._read if known[1] == namespace]:
            del self._read[known]

    def read(self, evaluator: Evaluator, lister: Lister, namespace: str) -> bool:
        """Read a batch. Returns whether all objects are read. Raises NotCountedError."""
        return self._of(evaluator, namespace).read(evaluator, lister, namespace, most=MOST)

    def essences(self, evaluator: Evaluator, lister: Lister, namespace: str) -> Sequence[Object]:
        """Return the essences of all objects in a namespace, identical for equal objects. Raises NotCountedError."""
        read = self._of(evaluator, namespace)
        read.read(evaluator, lister, namespace)
        return read.essences()

    def essences_of(self, evaluator: Evaluator, objects: Iterable[Object], namespace: str) -> Sequence[Object]:
        """Return the essences of objects that were read live, from the cache if possible. Raises NotCountedError."""
        return self._of(evaluator, namespace).essences_of(evaluator, objects)

    def _of(self, evaluator: Evaluator, namespace: str) -> _Read:
        return self._read.setdefault((evaluator.resource, namespace), _Read())


class _Read:
    """The essences of one resource in one namespace."""

    def __init__(self) -> None:
        self._texts: dict[Key, tuple[int, bytes]] = {}  # resourceVersion and essence, as JSON
        self._shared: dict[bytes, Object] = {}

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
    """Return the essence as JSON and as a value."""
    try:
        essence = evaluator.essence(obj)
        return encode_object(essence), essence
    except (ValueError, TypeError, AttributeError, KeyError) as err:
        raise NotCountedError(f"{evaluator.resource} {key} cannot be counted: {err}") from err
