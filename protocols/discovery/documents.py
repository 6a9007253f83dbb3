"""Parsers of discovery documents: aggregated (apidiscovery.k8s.io), and the older one per group version.

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
SCALE = "/scale"  # suffix of the subresource's name in unaggregated documents
WATCHED = frozenset({"list", "watch"})  # the verbs that an informer needs


class InvalidDocumentError(ValueError):
    """A response is not a discovery document."""


class GroupVersion(NamedTuple):
    """Version of a group; the core group is "". str() returns the form of `apiVersion`."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        return f"/apis/{self}" if self.group else f"/api/{self}"


class DiscoveryDocument(NamedTuple):
    """Contents of a discovery document.

    group_versions: those that the server serves; within a group, in the server's order of preference.
    described: resources of the group versions that the document describes.
    stalled: reason why the document does not describe a group version.
    """

    group_versions: tuple[GroupVersion, ...]
    described: Mapping[GroupVersion, tuple[ServedResource, ...]]
    stalled: Mapping[GroupVersion, str]


@lru_cache(maxsize=2)  # requested every 10 s, and rarely changes
def read_root(body: bytes) -> DiscoveryDocument:
    """Parse a response of /api or /apis. The result is cached, so do not modify it. Raises InvalidDocumentError."""
    document = _decoded(body)
    try:
        match document.get("kind"):
            case "APIGroupDiscoveryList":
                return _aggregated(document)
            case "APIVersions":
                return DiscoveryDocument(tuple(GroupVersion("", version) for version in document["versions"]), {}, {})
            case "APIGroupList":
                named = (_preferred_first(group) for group in document["groups"])
                return DiscoveryDocument(tuple(version for versions in named for version in versions), {}, {})
            case kind:
                raise InvalidDocumentError(f"a discovery document of kind {kind!r}")
    except (KeyError, TypeError, AttributeError) as err:
        raise InvalidDocumentError(f"a discovery document of another form: {type(err).__name__}: {err}") from err


def read_group_version(body: bytes, of: GroupVersion) -> tuple[ServedResource, ...]:
    """Parse the response of a group version's path. Raises InvalidDocumentError."""
    document = _decoded(body)
    if document.get("kind") != "APIResourceList":
        raise InvalidDocumentError(f"a discovery document of kind {document.get('kind')!r}")
    try:
        resources = document.get("resources") or ()
        scales = {
            plural: GroupVersion(resource.get("group") or of.group, resource.get("version") or of.version)
            for resource in resources
            if (plural := resource["name"].removesuffix(SCALE)) != resource["name"] and resource["kind"] == "Scale"
        }
        return tuple(
            ServedResource(
                group=resource.get("group") or of.group,
                version=resource.get("version") or of.version,
                plural=resource["name"],
                kind=resource["kind"],
                namespaced=bool(resource["namespaced"]),
                verbs=tuple(resource.get("verbs") or ()),
                scale=str(scales.get(resource["name"], "")),
            )
            for resource in resources
            if "/" not in resource["name"]  # a subresource
        )
    except (KeyError, TypeError, AttributeError) as err:
        raise InvalidDocumentError(f"a discovery document of another form: {type(err).__name__}: {err}") from err


def preferred(
    group_versions: Iterable[GroupVersion], described: Mapping[GroupVersion, Sequence[ServedResource]]
) -> tuple[ServedResource, ...]:
    """Return each resource that can be watched once: in the first version of its group that serves it."""
    found: dict[tuple[str, str], ServedResource] = {}
    for group_version in group_versions:
        for resource in described.get(group_version, ()):
            if WATCHED.issubset(resource.verbs):
                found.setdefault((resource.group, resource.plural), resource)
    return tuple(found.values())


def _aggregated(document: Mapping[str, Any]) -> DiscoveryDocument:
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
    return DiscoveryDocument(tuple(group_versions), described, stalled)


def _of_aggregated(group_version: GroupVersion, resources: Iterable[Mapping[str, Any]]) -> Iterable[ServedResource]:
    for resource in resources:
        kind = resource.get("responseKind") or {}
        if kind.get("kind"):  # without it, only subresources are served
            yield ServedResource(
                group=group_version.group,
                version=group_version.version,
                plural=resource["resource"],
                kind=kind["kind"],
                namespaced=resource.get("scope") == "Namespaced",
                verbs=tuple(resource.get("verbs") or ()),
                scale=_scale_of(resource),
            )


def _scale_of(resource: Mapping[str, Any]) -> str:
    for subresource in resource.get("subresources") or ():
        kind = subresource.get("responseKind") or {}
        if subresource.get("subresource") == "scale" and kind.get("kind") == "Scale":
            return str(GroupVersion(kind.get("group") or "", kind.get("version") or ""))
    return ""


def _preferred_first(group: Mapping[str, Any]) -> list[GroupVersion]:
    first = (group.get("preferredVersion") or {}).get("version")
    versions = [version["version"] for version in group["versions"]]
    return [GroupVersion(group["name"], version) for version in sorted(versions, key=lambda version: version != first)]


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as err:
        raise InvalidDocumentError(f"a discovery document that is not JSON: {err}") from err
    if not isinstance(document, dict):
        raise InvalidDocumentError("a discovery document that is not a JSON object")
    return document
