"""Listers of resources that name a model: what they return are models, read when they are first asked for."""

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
MOST_MODELS = 1024  # that are kept


class ModelError(UnreadableError):
    """The object is there, and cannot be read as the model. The key is tried again after a while."""


class TypedLister(Lister[M], Generic[M]):
    """The lister of one resource for one controller, with its own cache of models, of which the oldest goes first.

    An object that the model cannot read raises ModelError where it would be returned, alone or in a list. As an entry
    and as a map it can be had. For this lister it is unreadable, and so says the health check.
    """

    __slots__ = ("_entries", "_maps", "_misread", "_model", "_models", "_order", "_read")

    def __init__(self, maps: Lister, resource: Resource[M], model: type[M]) -> None:
        """maps: the lister of the same objects as maps."""
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
        except Exception as err:  # the model's code is its author's
            raise ModelError(self.resource, Unreadable(key_of(obj), "", 0, self._why(err), None)) from err

    def unreadable(self, namespace: str | None = None) -> list[Unreadable]:
        """With those that the model could not read, of what was asked for."""
        misread = [one for one in self.misread() if namespace is None or split_key(one.key)[0] == namespace]
        return super().unreadable(namespace) + misread

    def is_unreadable(self, key: Key) -> bool:
        return super().is_unreadable(key) or any(one.key == key for one in self.misread())

    def require(self, key: Key) -> None:
        super().require(key)
        entry = self.entry(key)
        if entry is not None:
            self._model_of(entry)

    def misread(self) -> list[Unreadable]:
        """What the model could not read when it was last asked for, and that is there still."""
        if not self._misread:
            return []
        self._misread = {key: known for key, known in self._misread.items() if _is(self.entry(key), known[0])}
        return [one for _, one in self._misread.values()]

    def _model_of(self, entry: Entry) -> M:
        model = self._models.get(entry)
        return self._read_first(entry) if model is None else model

    def _read_first(self, entry: Entry) -> M:
        try:
            model = self._read(entry.raw)
        except Exception as err:  # the model's code is its author's
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


def _is(one: Entry | None, other: Entry) -> bool:
    """Whether it is the same state of the same object: a view makes entries of metadata anew."""
    return one is not None and one.uid == other.uid and one.resource_version == other.resource_version
