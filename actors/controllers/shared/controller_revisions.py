"""Construction, comparison and encoding of ControllerRevisions, which record the templates of an owner.

Owners are DaemonSets and StatefulSets. The `data` of a revision is a patch that restores a pod template of its owner.
It is compared semantically, after decoding. It is encoded byte for byte as in Go, because upstream compares bytes and
must recognize kcm's revisions as its own.

Source: kubernetes v1.36 pkg/controller/history/controller_history.go; getPatch of pkg/controller/daemon/update.go and
pkg/controller/statefulset/stateful_set_utils.go. Difference: the comparison, which also ignores the
creationTimestamp: null that releases until 1.33 write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import orjson

from kcm.actors.reconciliation import own
from kcm.protocols.bounded_cache import bounded_cache, total_size
from kcm.protocols.fnv import fnv1_32
from kcm.protocols.hashing import safe_encode
from kcm.protocols.messages.commands import Create, Update
from kcm.protocols.objects import (
    Object,
    decode_object,
    encode_object,
    key_of,
    labels_of,
    metadata,
    name_of,
    namespace_of,
)
from kcm.protocols.resources import CONTROLLER_REVISIONS, Resource
from kcm.protocols.semantic import POD_TEMPLATE, semantically_equal

HASH_LABEL = "controller.kubernetes.io/hash"
LONGEST_PREFIX = 223  # maximum number of bytes of the owner's name in the name of a revision

# Characters that Go's encoding/json escapes although JSON does not require it.
_ESCAPED = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))
_SEPARATORS = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))


def template_data(owner: Mapping[str, Any]) -> Object:
    """Return the `data` of a ControllerRevision that records the owner's present pod template.

    Raises ValueError if the template is malformed. Source: getPatch.
    """
    spec = owner.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(template, dict):
        raise ValueError(f"{key_of(owner)}: spec.template is a map, got {template!r}")
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def with_template_of(revision: Mapping[str, Any], owner: Mapping[str, Any]) -> Object:
    """Return a copy of the owner with the pod template that a revision records.

    Raises ValueError if the revision contains no template.

    Source: ApplyRevision.
    """
    template = _template_in(revision.get("data"))
    if template is None:
        raise ValueError(f"controllerrevision {key_of(revision)} has no template in its data")
    recorded = {name: value for name, value in template.items() if name != "$patch"}
    return {**owner, "spec": {**(owner.get("spec") or {}), "template": recorded}}


def data_bytes(data: Mapping[str, Any]) -> bytes:
    """Encode the data of a revision as JSON, byte for byte as Go: with sorted keys, and with <, > and & escaped."""
    return _escaped(orjson.dumps(data, option=orjson.OPT_SORT_KEYS))


def data_hash(data: Mapping[str, Any], collision_count: int | None) -> str:
    """Return the hash for the name and the label of a ControllerRevision: up to 10 characters.

    collision_count: the owner's status.collisionCount. None and 0 give different hashes.
    Source: HashControllerRevision.
    """
    probe = b"" if collision_count is None else str(collision_count).encode()
    return safe_encode(str(fnv1_32(data_bytes(data) + probe)))


def revision_name(owner: str, hash: str) -> str:
    """Return the name `<owner>-<hash>`, with the owner's name truncated to LONGEST_PREFIX.

    Source: ControllerRevisionName.
    """
    return f"{owner[:LONGEST_PREFIX]}-{hash}"


def new_revision(
    owner: Mapping[str, Any],
    owner_resource: Resource,  # of `owner`
    *,
    labels: Mapping[str, str],  # of the template
    data: Object,
    revision: int,
    collision_count: int | None,
) -> Object:
    """Build a ControllerRevision that this owner controls. Its name contains the hash of its data.

    data: template_data of the owner
    revision: revision number
    collision_count: the owner's status.collisionCount, which affects the hash

    Source: NewControllerRevision.
    """
    hash = data_hash(data, collision_count)
    meta = {
        "name": revision_name(name_of(owner), hash),
        "namespace": namespace_of(owner),
        "labels": {**labels, HASH_LABEL: hash},
    }
    return own({"metadata": meta, "data": data, "revision": revision}, by=owner, of=owner_resource)


def number_of(revision: Mapping[str, Any]) -> int:
    """Return the field `revision` of a ControllerRevision; 0 if it is missing or not an integer."""
    number = revision.get("revision")
    return number if type(number) is int else 0


def sort_revisions(revisions: Iterable[Object]) -> list[Object]:
    """Sort ControllerRevisions by revision number, creation time and name. Source: SortControllerRevisions."""
    return sorted(
        revisions,
        key=lambda revision: (
            number_of(revision),
            str(metadata(revision).get("creationTimestamp") or ""),
            name_of(revision),
        ),
    )


def next_number(revisions: Sequence[Mapping[str, Any]]) -> int:
    """Return the number for a new revision: the highest number of `revisions` plus one, or 1 if there are none.

    Source: nextRevision.
    """
    return max((0, *map(number_of, revisions))) + 1


def same_data(revision: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Report whether two ControllerRevisions have equal data. Source: EqualRevision."""
    return equal_data(revision.get("data"), other.get("data"))


def equal_data(data: Any, other: Any) -> bool:
    """Report whether the data of two revisions is equal. Pod templates are compared semantically, other data literally.

    Semantic equality ignores, for example, the difference between an empty and a missing field.
    """
    if data == other:
        return True
    template, other_template = _template_in(data), _template_in(other)
    if template is None or other_template is None:
        return False
    return _semantically_equal(
        encode_object(_without_creation_timestamp(template)), encode_object(_without_creation_timestamp(other_template))
    )


# Cached, because every sync of an owner compares its template with all templates of its history.
@bounded_cache(512, longest=64 * 1024, size=total_size)
def _semantically_equal(template: bytes, other: bytes) -> bool:
    return semantically_equal(decode_object(template), decode_object(other), POD_TEMPLATE)


def equal_revisions(revisions: Iterable[Object], needle: Mapping[str, Any]) -> list[Object]:
    """Return the revisions whose data is equal to the data of `needle`. Source: FindEqualRevisions."""
    return [revision for revision in revisions if same_data(revision, needle)]


def surplus(
    revisions: Iterable[Object], *, limit: int, live: Collection[str], identify: Callable[[Object], str] = name_of
) -> list[Object]:
    """Return the revisions to delete: the oldest unused revisions, so that at most `limit` unused revisions remain.

    limit: spec.revisionHistoryLimit of the owner; a negative value keeps all revisions
    live: identifiers of the revisions in use
    identify: returns the identifier of a revision; by default its name

    Source: truncateHistory of the StatefulSet controller.
    """
    if limit < 0:
        return []
    idle = [revision for revision in sort_revisions(revisions) if identify(revision) not in live]
    return idle[: max(0, len(idle) - limit)]


def create_revision(revision: Mapping[str, Any]) -> Create:
    """Return the command that creates a ControllerRevision, with `data` encoded byte for byte as in Go."""
    return Create(CONTROLLER_REVISIONS.id, namespace_of(revision), _body(revision, sort_data=True))


def update_revision(revision: Mapping[str, Any]) -> Update:
    """Return the command that updates a ControllerRevision. `data` is immutable, so the order of its keys is kept."""
    return Update(CONTROLLER_REVISIONS.id, key_of(revision), _body(revision, sort_data=False))


def labelled(revision: Object, label: str, value: str) -> Object:
    return {**revision, "metadata": {**metadata(revision), "labels": {**labels_of(revision), label: value}}}


def _body(revision: Mapping[str, Any], *, sort_data: bool) -> bytes:
    body = {**revision, "apiVersion": CONTROLLER_REVISIONS.api_version, "kind": CONTROLLER_REVISIONS.kind}
    if sort_data:
        body["data"] = orjson.loads(data_bytes(revision["data"]))
    return _escaped(orjson.dumps(body))


def _escaped(json: bytes) -> bytes:
    # In JSON these characters occur only inside strings, so that they can be replaced everywhere.
    for character, escape in (*_ESCAPED, *_SEPARATORS):
        json = json.replace(character, escape)
    return json


def _template_in(data: Any) -> Object | None:
    """Return the pod template in the data of a revision; None if the data contains anything else."""
    match data:
        case {"spec": {"template": dict(template), **rest}, **others} if not rest and not others:
            return template
    return None


def _without_creation_timestamp(template: Object) -> Object:
    meta = template.get("metadata")
    if not isinstance(meta, dict) or meta.get("creationTimestamp", 0) is not None:
        return template
    return {**template, "metadata": {name: value for name, value in meta.items() if name != "creationTimestamp"}}
