"""ControllerRevisions: the templates that a DaemonSet or StatefulSet had, as plain objects.

Their data is a patch that gives the owner a template back. It is compared decoded, and without what encoders may leave
out; it is written as Go writes it, so that upstream, which compares bytes, finds its own revisions in ours.

Source: kubernetes v1.36 pkg/controller/history/controller_history.go; getPatch of pkg/controller/daemon/update.go and
pkg/controller/statefulset/stateful_set_utils.go. Differences: the comparison, for which the creationTimestamp: null of
releases until 1.33 is no change either.
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
LONGEST_PREFIX = 223  # bytes of an owner's name in a revision's

# What Go's encoding/json escapes beside what JSON demands.
_ESCAPED = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))
_SEPARATORS = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))


def template_data(owner: Mapping[str, Any]) -> Object:
    """The patch that gives an owner the template that this one has. Raises ValueError on a malformed template."""
    spec = owner.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(template, dict):
        raise ValueError(f"{key_of(owner)}: spec.template is a map, got {template!r}")
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def with_template_of(revision: Mapping[str, Any], owner: Mapping[str, Any]) -> Object:
    """The owner with the template that the revision recorded. Raises ValueError on a revision that has none.

    Source: ApplyRevision.
    """
    template = _template_in(revision.get("data"))
    if template is None:
        raise ValueError(f"controllerrevision {key_of(revision)} has no template in its data")
    recorded = {name: value for name, value in template.items() if name != "$patch"}
    return {**owner, "spec": {**(owner.get("spec") or {}), "template": recorded}}


def data_bytes(data: Mapping[str, Any]) -> bytes:
    """The data as Go encodes it: keys sorted, and some characters escaped that JSON leaves alone."""
    return _escaped(orjson.dumps(data, option=orjson.OPT_SORT_KEYS))


def data_hash(data: Mapping[str, Any], collision_count: int | None) -> str:
    """Up to 10 characters. collision_count: None is another hash than 0. Source: HashControllerRevision."""
    probe = b"" if collision_count is None else str(collision_count).encode()
    return safe_encode(str(fnv1_32(data_bytes(data) + probe)))


def revision_name(owner: str, hash: str) -> str:
    """`<owner>-<hash>`, the owner's name cut where it would be too long. Source: ControllerRevisionName."""
    return f"{owner[:LONGEST_PREFIX]}-{hash}"


def new_revision(
    owner: Mapping[str, Any],
    owners: Resource,
    *,
    labels: Mapping[str, str],
    data: Object,
    revision: int,
    collision_count: int | None,
) -> Object:
    """A revision of this owner, of which it is the controller, named after its data. labels: of the template.

    owners: the resource that `owner` is of. Source: NewControllerRevision.
    """
    hash = data_hash(data, collision_count)
    meta = {
        "name": revision_name(name_of(owner), hash),
        "namespace": namespace_of(owner),
        "labels": {**labels, HASH_LABEL: hash},
    }
    return own({"metadata": meta, "data": data, "revision": revision}, by=owner, of=owners)


def number_of(revision: Mapping[str, Any]) -> int:
    """The number of a revision; 0 where there is none."""
    number = revision.get("revision")
    return number if type(number) is int else 0


def in_order(revisions: Iterable[Object]) -> list[Object]:
    """By number, then by creation, then by name. Source: SortControllerRevisions."""
    return sorted(
        revisions,
        key=lambda each: (number_of(each), str(metadata(each).get("creationTimestamp") or ""), name_of(each)),
    )


def next_number(revisions: Sequence[Mapping[str, Any]]) -> int:
    """One more than the highest; 1 where there is none."""
    return max((0, *map(number_of, revisions))) + 1


def same_data(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two revisions record the same. Source: EqualRevision."""
    return equal_data(one.get("data"), other.get("data"))


def equal_data(one: Any, other: Any) -> bool:
    """Whether two data mean the same: templates as their type has it, other data literally."""
    if one == other:
        return True
    ours, theirs = _template_in(one), _template_in(other)
    if ours is None or theirs is None:
        return False
    return _mean_the_same(encode_object(_without_times(ours)), encode_object(_without_times(theirs)))


# Every sync of an owner compares its template with those of its whole history.
@bounded_cache(512, longest=64 * 1024, size=total_size)
def _mean_the_same(one: bytes, other: bytes) -> bool:
    return semantically_equal(decode_object(one), decode_object(other), POD_TEMPLATE)


def equal_revisions(revisions: Iterable[Object], needle: Mapping[str, Any]) -> list[Object]:
    """Those that record what this one does, in their order. Source: FindEqualRevisions."""
    return [revision for revision in revisions if same_data(revision, needle)]


def surplus(
    revisions: Iterable[Object], *, limit: int, live: Collection[str], handle: Callable[[Object], str] = name_of
) -> list[Object]:
    """Which to delete so that `limit` are left that are not live: the oldest first. A negative limit keeps all.

    live: by `handle`, those that are in use. Source: truncateHistory of the StatefulSet controller.
    """
    if limit < 0:
        return []
    idle = [revision for revision in in_order(revisions) if handle(revision) not in live]
    return idle[: max(0, len(idle) - limit)]


def create_revision(revision: Mapping[str, Any]) -> Create:
    """The command that creates it, with its data as Go writes it."""
    return Create(CONTROLLER_REVISIONS.id, namespace_of(revision), _body(revision, sort_data=True))


def update_revision(revision: Mapping[str, Any]) -> Update:
    """The command that stores it. Its data may not be changed, so it goes back in the order that it came in."""
    return Update(CONTROLLER_REVISIONS.id, key_of(revision), _body(revision, sort_data=False))


def labelled(revision: Object, label: str, value: str) -> Object:
    """The revision with this label."""
    return {**revision, "metadata": {**metadata(revision), "labels": {**labels_of(revision), label: value}}}


def _body(revision: Mapping[str, Any], *, sort_data: bool) -> bytes:
    whole = {**revision, "apiVersion": CONTROLLER_REVISIONS.api_version, "kind": CONTROLLER_REVISIONS.kind}
    if sort_data:
        whole["data"] = orjson.loads(data_bytes(revision["data"]))
    return _escaped(orjson.dumps(whole))


def _escaped(json: bytes) -> bytes:
    """These characters stand in strings only, so that they can be replaced wherever they are."""
    for character, escape in (*_ESCAPED, *_SEPARATORS):
        json = json.replace(character, escape)
    return json


def _template_in(data: Any) -> Object | None:
    """The template of data that record nothing else."""
    match data:
        case {"spec": {"template": dict(template), **rest}, **others} if not rest and not others:
            return template
    return None


def _without_times(template: Object) -> Object:
    meta = template.get("metadata")
    if not isinstance(meta, dict) or meta.get("creationTimestamp", 0) is not None:
        return template
    return {**template, "metadata": {name: value for name, value in meta.items() if name != "creationTimestamp"}}
