"""Listers of resources that name a model: they return models, which are parsed on first access."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from kcm.protocols.models import as_object, codec_of, why
from kcm.protocols.objects import Key, Object, encode_object, key_of, split_key
from kcm.protocols.resources import Resource
from kcm.runtime.tables.entry import Entry, Unreadable
from kcm.runtime.tables.lister import Lister, UnreadableError

M = TypeVar("M")
MOST_MODELS = 1024  # size of the cache


class ModelError(UnreadableError):
    """The object cannot be read as the model. The key is retried later."""


class TypedLister(Lister[M], Generic[M]):
    """Lister of one resource for one controller, with its own cache of models. The oldest model is evicted first.

    An object that the model cannot read raises ModelError if it would be returned, alone or in a list; entries and maps
    of it are available. The lister and the health check report it as unreadable.
    """

    __slots__ = ("_entries", "_maps", "_misread", "_model", "_models", "_order", "_read")

    def __init__(self, maps: Lister, resource: Resource[M], model: type[M]) -> None:
        """Read the objects of `maps`, the lister of the same objects as maps."""
        super().__init__(maps._overlay, maps.ineffective)
        self.resource = resource
        self._maps, self._model = maps, model
        self._read = codec_of(model).read
        self._models: dict[Entry, M] = {}
        self._entries: dict[int, Entry] = {}  # by id() of the models
        self._order: deque[Entry] = deque()
        self._misread: dict[Key, tuple[Entry, Unreadable]] = {}
        self._object_of = self._model_of

    @property
    def maps(self) -> Lister:
        return self._maps

    def map_of(self, obj: M | Mapping[str, Any]) -> Object:
        entry = self._entries.get(id(obj))
        return as_object(obj) if entry is None else self._maps.object_of(entry)

    def returned(self, obj: Object) -> M:
        try:
            return self._read(encode_object(obj))
        except Exception as err:  # the model may raise any error
            raise ModelError(self.resource, Unreadable(key_of(obj), "", 0, self._why(err), None)) from err

    def unreadable(self, namespace: str | None = None) -> list[Unreadable]:
        """Return the unreadable objects, with those that the model could not read."""
        misread = [unreadable for unreadable in self.misread() if namespace in (None, split_key(unreadable.key)[0])]
        return super().unreadable(namespace) + misread

    def is_unreadable(self, key: Key) -> bool:
        return super().is_unreadable(key) or any(unreadable.key == key for unreadable in self.misread())

    def require(self, key: Key) -> None:
        super().require(key)
        entry = self.entry(key)
        if entry is not None:
            self._model_of(entry)

    def misread(self) -> list[Unreadable]:
        """Return the objects that still exist and that the model could not read on the last access."""
        if not self._misread:
            return []
        self._misread = {key: known for key, known in self._misread.items() if _same_state(self.entry(key), known[0])}
        return [unreadable for _, unreadable in self._misread.values()]

    def _model_of(self, entry: Entry) -> M:
        model = self._models.get(entry)
        return self._read_first(entry) if model is None else model

    def _read_first(self, entry: Entry) -> M:
        try:
            model = self._read(entry.raw)
        except Exception as err:  # the model may raise any error
            owner = "" if entry.controller is None else entry.controller.uid
            unreadable = Unreadable(entry.key, entry.uid, entry.resource_version, self._why(err), owner)
            self._misread[entry.key] = (entry, unreadable)
            raise ModelError(self.resource, unreadable) from err
        if len(self._order) >= MOST_MODELS:
            oldest = self._models.pop(self._order.popleft())
            del self._entries[id(oldest)]
        self._models[entry], self._entries[id(model)] = model, entry
        self._order.append(entry)
        return model

    def _why(self, err: Exception) -> str:
        return f"as {self._model.__qualname__}: {why(err)}"


def _same_state(entry: Entry | None, known: Entry) -> bool:
    # Identity does not suffice: a view creates entries of metadata at every read.
    return entry is not None and entry.uid == known.uid and entry.resource_version == known.resource_version
