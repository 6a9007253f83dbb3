"""Models: classes of an author's own that objects are read as, and written from.

A model is a dataclass (or a Struct of msgspec's, or a class of attrs'), a model of pydantic's, or any class with
`from_dict` and `to_dict`, as those of lightkube-models. Fields have the API's names. What the model does not name is
left out, and a field that is None is not written.
"""

# ruff: noqa: N815 (fields have the names of the API)

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, Generic, TypeVar

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Object, decode_object

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Codec(Generic[M]):
    """read: from an object's JSON bytes; raises whatever the model raises on what is none. write: to a map."""

    read: Callable[[bytes], M]
    write: Callable[[M], Object]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerReference:
    """metav1.OwnerReference."""

    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMeta:
    """metav1.ObjectMeta, for models that are dataclasses; without managedFields. Times are text."""

    name: str = ""
    namespace: str | None = None
    generateName: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None
    generation: int | None = None
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    deletionGracePeriodSeconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[OwnerReference] | None = None
    finalizers: list[str] | None = field(default=None)


def codec_of(model: type[M]) -> Codec[M]:
    """Raises TypeError on a class that is no model."""
    if not isinstance(model, type):
        raise TypeError(f"a model is a class, not {model!r}")
    of_any: Any = model
    codec: Codec[M] = _codec_of(of_any)
    return codec


@lru_cache(maxsize=256)
def _codec_of(model: Any) -> Codec[Any]:
    as_any: Any = model
    if callable(getattr(model, "model_validate_json", None)):
        return Codec(as_any.model_validate_json, _dump)
    if callable(getattr(model, "from_dict", None)) and callable(getattr(model, "to_dict", None)):
        eager = {"lazy": False} if "lazy" in inspect.signature(as_any.from_dict).parameters else {}
        return Codec(lambda raw: as_any.from_dict(decode_object(raw), **eager), lambda value: as_any.to_dict(value))
    if dataclasses.is_dataclass(model) or hasattr(model, "__struct_fields__") or hasattr(model, "__attrs_attrs__"):
        import msgspec

        return Codec(msgspec.json.Decoder(model).decode, lambda value: _said(msgspec.to_builtins(value)))
    raise TypeError(
        f"a model is a dataclass, a model of pydantic's, or has from_dict and to_dict; {model.__qualname__} is none"
    )


def as_object(value: Any) -> Object:
    """The object as a map: a map as it is, a model, or a dataclass that is a part of one, written as one.

    Raises TypeError on anything else.
    """
    if isinstance(value, dict):
        return value
    if isinstance(value, Mapping):
        return dict(value)
    try:
        codec = codec_of(type(value))
    except TypeError:
        raise TypeError(f"an object is a map or a model, not {value!r:.80}") from None
    return codec.write(value)


def _dump(value: Any) -> Object:
    dumped: Object = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _said(value: Any) -> Any:
    """Without the fields that are None: null is written for nothing."""
    if type(value) is dict:
        return {name: _said(one) for name, one in value.items() if one is not None}
    if type(value) is list:
        return [_said(one) for one in value]
    return value


def why(err: Exception) -> str:
    """In one line what a model could not read, and where."""
    errors = getattr(err, "errors", None)  # of pydantic's ValidationError
    if callable(errors) and (found := errors()):
        where = ".".join(str(part) for part in found[0].get("loc", ()))
        return f"{found[0].get('msg')} - at {where}"
    return str(err).split("\n", 1)[0] or type(err).__name__
