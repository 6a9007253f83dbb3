"""What discovery documents say: aggregated ones (apidiscovery.k8s.io), and the plain ones of each group version.

Source: kubernetes v1.36 client-go discovery/{discovery_client,aggregated_discovery}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from kcm.protocols.messages.discovery import ServedResource

ACCEPT = ",".join(
    [
        *(f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1")),
        "application/json",
    ]
)
STALE = "its API server has not been reached for a while"
SCALE = "/scale"  # ends the names of subresources in plain documents
WATCHED = frozenset({"list", "watch"})  # the verbs of what an informer can keep a table of


class UnreadableError(ValueError):
    """Not a discovery document."""


class GroupVersion(NamedTuple):
    """One version of a group, "" for the core group. str() as `apiVersion` says it."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        return f"/apis/{self}" if self.group else f"/api/{self}"


class Document(NamedTuple):
    """group_versions: that there are, those of a group in the order in which the server prefers them.

    described: the resources of those that the document describes. stalled: why others could not be described.
    """

    group_versions: tuple[GroupVersion, ...]
    described: Mapping[GroupVersion, tuple[ServedResource, ...]]
    stalled: Mapping[GroupVersion, str]


@lru_cache(maxsize=2)  # it is asked for every 10 s, and is nearly always the same
def read_root(body: bytes) -> Document:
    """The answer at /api or /apis, not to be changed. Raises UnreadableError."""
    document = _decoded(body)
    try:
        match document.get("kind"):
            case "APIGroupDiscoveryList":
                return _aggregated(document)
            case "APIVersions":
                return Document(tuple(GroupVersion("", version) for version in document["versions"]), {}, {})
            case "APIGroupList":
                named = (_preferred_first(group) for group in document["groups"])
                return Document(tuple(one for versions in named for one in versions), {}, {})
            case kind:
                raise UnreadableError(f"a discovery document of kind {kind!r}")
    except (KeyError, TypeError, AttributeError) as err:
        raise UnreadableError(f"a discovery document of another form: {type(err).__name__}: {err}") from err


def read_group_version(body: bytes, of: GroupVersion) -> tuple[ServedResource, ...]:
    """The answer at a group version's path. Raises UnreadableError."""
    document = _decoded(body)
    if document.get("kind") != "APIResourceList":
        raise UnreadableError(f"a discovery document of kind {document.get('kind')!r}")
    try:
        resources = document.get("resources") or ()
        scales = {
            plural: GroupVersion(one.get("group") or of.group, one.get("version") or of.version)
            for one in resources
            if (plural := one["name"].removesuffix(SCALE)) != one["name"] and one["kind"] == "Scale"
        }
        return tuple(
            ServedResource(
                group=one.get("group") or of.group,
                version=one.get("version") or of.version,
                plural=one["name"],
                kind=one["kind"],
                namespaced=bool(one["namespaced"]),
                verbs=tuple(one.get("verbs") or ()),
                scale=str(scales.get(one["name"], "")),
            )
            for one in resources
            if "/" not in one["name"]  # a subresource
        )
    except (KeyError, TypeError, AttributeError) as err:
        raise UnreadableError(f"a discovery document of another form: {type(err).__name__}: {err}") from err


def preferred(
    group_versions: Iterable[GroupVersion], described: Mapping[GroupVersion, Sequence[ServedResource]]
) -> tuple[ServedResource, ...]:
    """Each resource that can be watched, once: in the first version of its group that has it."""
    found: dict[tuple[str, str], ServedResource] = {}
    for group_version in group_versions:
        for one in described.get(group_version, ()):
            if WATCHED.issubset(one.verbs):
                found.setdefault((one.group, one.plural), one)
    return tuple(found.values())


def _aggregated(document: Mapping[str, Any]) -> Document:
    group_versions: list[GroupVersion] = []
    described: dict[GroupVersion, tuple[ServedResource, ...]] = {}
    stalled: dict[GroupVersion, str] = {}
    for item in document.get("items") or ():
        group = (item.get("metadata") or {}).get("name") or ""
        for version in item.get("versions") or ():
            group_version = GroupVersion(group, version["version"])
            group_versions.append(group_version)
            if version.get("freshness") == "Stale":
                stalled[group_version] = STALE
            else:
                described[group_version] = tuple(_of_aggregated(group_version, version.get("resources") or ()))
    return Document(tuple(group_versions), described, stalled)


def _of_aggregated(group_version: GroupVersion, resources: Iterable[Mapping[str, Any]]) -> Iterable[ServedResource]:
    for one in resources:
        kind = one.get("responseKind") or {}
        if kind.get("kind"):  # one without is no collection of its own
            yield ServedResource(
                group=group_version.group,
                version=group_version.version,
                plural=one["resource"],
                kind=kind["kind"],
                namespaced=one.get("scope") == "Namespaced",
                verbs=tuple(one.get("verbs") or ()),
                scale=_scale_of(one),
            )


def _scale_of(one: Mapping[str, Any]) -> str:
    for subresource in one.get("subresources") or ():
        kind = subresource.get("responseKind") or {}
        if subresource.get("subresource") == "scale" and kind.get("kind") == "Scale":
            return str(GroupVersion(kind.get("group") or "", kind.get("version") or ""))
    return ""


def _preferred_first(group: Mapping[str, Any]) -> list[GroupVersion]:
    first = (group.get("preferredVersion") or {}).get("version")
    versions = [version["version"] for version in group["versions"]]
    return [GroupVersion(group["name"], version) for version in sorted(versions, key=lambda one: one != first)]


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as err:
        raise UnreadableError(f"a discovery document that is no JSON: {err}") from err
    if not isinstance(document, dict):
        raise UnreadableError("a discovery document that is no JSON object")
    return document
