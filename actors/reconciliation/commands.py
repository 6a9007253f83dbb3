"""Commands and events as reconcilers write them: by resource and key, with objects instead of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from protocols.messages.commands import Create, Delete, Get, List, Patch, PatchType, Update
from protocols.messages.recording import Record
from protocols.objects import Key, encode_object, make_key, metadata, name_of, namespace_of
from protocols.resources import Resource


def create(
    resource: Resource, obj: Mapping[str, Any], *, namespace: str | None = None, subresource: str = ""
) -> Create:
    """namespace: where the object does not say it itself. Raises ValueError where neither does and one is needed."""
    where = namespace_of(obj) if namespace is None else namespace
    if resource.namespaced and not where:
        raise ValueError(f"a {resource.kind} is made in a namespace, and none is given for {name_of(obj)!r}")
    return Create(resource.id, where, encode_object(obj), subresource=subresource)


def update(resource: Resource, obj: Mapping[str, Any], *, subresource: str = "") -> Update:
    meta = metadata(obj)
    return Update(
        resource.id, make_key(meta.get("namespace") or "", meta["name"]), encode_object(obj), subresource=subresource
    )


def patch(
    resource: Resource,
    key: Key,
    body: Mapping[str, Any] | Sequence[Any],
    *,
    patch_type: PatchType = PatchType.STRATEGIC,
    subresource: str = "",
) -> Patch:
    return Patch(resource.id, key, encode_object(body), patch_type, subresource)  # type: ignore[arg-type]


def delete(
    resource: Resource,
    key: Key,
    *,
    uid: str | None = None,
    grace_seconds: int | None = None,
    propagation: str | None = None,
    depends_on: Iterable[Resource] | None = None,
) -> Delete:
    """depends_on: whose tables it rests on: it is postponed while one is stale. None: all that the spec names."""
    ids = None if depends_on is None else tuple(one.id for one in depends_on)
    return Delete(resource.id, key, uid=uid, grace_seconds=grace_seconds, propagation=propagation, depends_on=ids)


def get_live(resource: Resource, key: Key) -> Get:
    return Get(resource.id, key)


def list_live(resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = "") -> List:
    return List(resource.id, namespace, label_selector, field_selector)


def record(
    resource: Resource, about: Mapping[str, Any], type: str, reason: str, message: str, *, field_path: str = ""
) -> Record:
    """An event about an object. type: "Normal" or "Warning"."""
    meta = metadata(about)
    return Record(
        resource.api_version,
        resource.kind,
        meta.get("namespace") or "",
        meta.get("name") or "",
        meta.get("uid") or "",
        meta.get("resourceVersion") or "",
        type,
        reason,
        message,
        field_path,
    )
