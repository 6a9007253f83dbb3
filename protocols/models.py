"""Models: an author's own classes that objects are read into and written from.

A model is a dataclass, an msgspec Struct, an attrs class, a pydantic model, or any class with `from_dict` and `to_dict`
(like those of lightkube-models). Its fields have the names of the API. Fields that the model does not define are
ignored, and unset fields (None) are not written.
"""

# ruff: noqa: N815 (fields have the names of the API)

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass  # noqa: TID251
from functools import lru_cache
from typing import Any, Generic, TypeVar

from msgspec import Struct

from kcm.protocols.objects import Object, decode_object

M = TypeVar("M")


class Codec(Struct, Generic[M], frozen=True):
    """Reader and writer of a model.

    read: parses an object's JSON bytes; raises the model's own errors for an invalid object. write: returns a map.
    """

    read: Callable[[bytes], M]
    write: Callable[[M], Object]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerReference:
    """Model of metav1.OwnerReference. A dataclass, as ObjectMeta."""

    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMeta:
    """Model of metav1.ObjectMeta, without managedFields. Times are strings.

    A dataclass, so that dataclasses.replace and asdict, and pydantic, understand models that contain it.
    """

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
    finalizers: list[str] | None = None


def codec_of(model: type[M]) -> Codec[M]:
    """Return the codec of a model. Raises TypeError if the class is not a model."""
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

        return Codec(msgspec.json.Decoder(model).decode, lambda value: _without_none(msgspec.to_builtins(value)))
    raise TypeError(
        f"a model is a dataclass, a pydantic model, or a class with from_dict and to_dict, not {model.__qualname__}"
    )


def as_object(value: Any) -> Object:
    """Convert a map, a model or a dataclass within a model to a map.

    Raises TypeError for any other value.
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


def _without_none(value: Any) -> Any:
    """Return a copy without unset fields (None), because null is never written."""
    if type(value) is dict:
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    if type(value) is list:
        return [_without_none(item) for item in value]
    return value


def why(err: Exception) -> str:
    """Return on one line why a model could not be read, and in which field."""
    errors = getattr(err, "errors", None)  # of pydantic's ValidationError
    if callable(errors) and (found := errors()):
        where = ".".join(str(part) for part in found[0].get("loc", ()))
        return f"{found[0].get('msg')} - at {where}"
    return str(err).split("\n", 1)[0] or type(err).__name__
