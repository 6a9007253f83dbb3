"""Discovery documents: the plain ones at /api, /apis and below, and aggregated discovery.

Source: apiserver pkg/endpoints/discovery (v1.36), apidiscovery.k8s.io/v2.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.presentation.negotiation import JSON, OF_DISCOVERY, PROTOBUF, Form, negotiate
from kcm.runtime.apiserver.registry.definitions import Registry, ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import OF_RUNNING_CONTAINERS, Subresource, subresource_of
from kcm.runtime.apiserver.registry.version_ranks import version_rank
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder
from kcm.runtime.client.api import Response

# Upstream's storage version, for kinds for which it differs from the served version.
_STORED_AS = {
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): "v1beta1",
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): "v1beta1",
    ("apiextensions.k8s.io", "CustomResourceDefinition"): "v1beta1",
}


class DiscoveryResponse(NamedTuple):
    """Response to a discovery request.

    etag: ETag of an aggregated document, without quotes; "" for a plain document
    """

    response: Response
    etag: str = ""


class DiscoveryDocuments:
    """Discovery documents of the resources in a registry."""

    def __init__(self, registry: Registry, encoder: ProtobufEncoder) -> None:
        self._registry, self._encoder = registry, encoder

    def paths(self) -> Iterator[str]:
        """Yield the discovery paths of all groups and their versions, such as /apis/apps and /apis/apps/v1."""
        for group, versions in served_groups(self._registry).items():
            root = f"/apis/{group}" if group else "/api"
            yield from (root, *(f"{root}/{version}" for version in versions))

    def respond(self, path: str, *, accept: str, address: str) -> DiscoveryResponse | None:
        """Return the discovery document at a path in the form that the client accepts; None for other paths.

        accept: value of the Accept header
        address: "host:port" of the server

        Raises StatusError: 406 if no accepted form is available, 503 for a version that another server serves.
        """
        form = negotiate(accept, OF_DISCOVERY)
        if form.kind:
            document = aggregated_json(self._registry, path)
            if document is not None:
                return self._aggregated(document, form)
        plain = discovery(self._registry, path, address=address)
        if plain is None:
            return None
        if form.media_type == PROTOBUF:
            body = self._encoder.encode(plain)
            return DiscoveryResponse(Response(status=200, body=body, content_type=PROTOBUF))
        return DiscoveryResponse(Response(status=200, body=orjson.dumps(plain), content_type=JSON))

    def _aggregated(self, raw: bytes, form: Form) -> DiscoveryResponse:
        etag = hashlib.sha512(raw).hexdigest().upper()
        body = self._encoder.encode(orjson.loads(raw)) if form.media_type == PROTOBUF else raw
        type_ = f"{form.media_type};g=apidiscovery.k8s.io;v={form.version};as={form.kind}"
        return DiscoveryResponse(Response(status=200, body=body, content_type=type_), etag)


def groups_of(definitions: Iterable[ResourceDefinition]) -> dict[str, dict[str, list[ResourceDefinition]]]:
    """Return the definitions as a mapping: group → version → resources.

    Groups are in the order of the definitions, versions in the order of preference, resources in the order of their
    names.
    """
    groups: dict[str, dict[str, list[ResourceDefinition]]] = {}
    for definition in definitions:
        groups.setdefault(definition.group, {}).setdefault(definition.version, []).append(definition)
    return {
        group: {
            version: sorted(versions[version], key=lambda definition: definition.plural)
            for version in sorted(versions, key=version_rank)
        }
        for group, versions in groups.items()
    }


def served_groups(registry: Registry) -> dict[str, dict[str, list[ResourceDefinition]]]:
    """Return groups_of the registry, including group versions that an APIService assigns to another server.

    Those versions have no resources.
    """
    groups = groups_of(
        definition for definition in registry if (definition.group, definition.version) not in registry.elsewhere
    )
    for group, version in registry.elsewhere:
        groups[group] = dict(
            sorted({**groups.get(group, {}), version: []}.items(), key=lambda item: version_rank(item[0]))
        )
    return groups


def discovery(registry: Registry, path: str, *, address: str) -> dict[str, Any] | None:
    """Return the plain discovery document at a path; None if the path has no document.

    address: "host:port" of the server

    Raises StatusError (503) for a version that another server serves.
    """
    groups = served_groups(registry)
    match path.strip("/").split("/"):
        case ["api"]:
            served = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            return {
                "kind": "APIVersions",
                "versions": list(groups.get("", {})),
                "serverAddressByClientCIDRs": served,
            }
        case ["apis"]:
            named = [_api_group(group, versions) for group, versions in groups.items() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": named}
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_api_group(group, groups[group])}
        case ["api", version] if ("", version) in registry.elsewhere:
            raise status_errors.served_elsewhere()
        case ["apis", group, version] if (group, version) in registry.elsewhere:
            raise status_errors.served_elsewhere()
        case ["api", version] if definitions := groups.get("", {}).get(version):
            return _resource_list(registry, definitions)
        case ["apis", group, version] if group and (definitions := groups.get(group, {}).get(version)):
            return _resource_list(registry, definitions)
    return None


def aggregated_json(registry: Registry, path: str) -> bytes | None:
    """Return the APIGroupDiscoveryList at /api or /apis as JSON; None for other paths. Built once for each change."""
    documents = registry.documents
    if (known := documents.get(path)) is not None:
        return known
    document = aggregated_discovery(registry, path)
    if document is None:
        return None
    documents[path] = found = orjson.dumps(document)
    return found


def aggregated_discovery(registry: Registry, path: str) -> dict[str, Any] | None:
    """Return the APIGroupDiscoveryList at /api or /apis; None for other paths."""
    if path.strip("/") not in ("api", "apis"):
        return None
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [_aggregated_version(version, definitions) for version, definitions in versions.items()],
        }
        for group, versions in served_groups(registry).items()
        if bool(group) == path.startswith("/apis")
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_version(version: str, definitions: Iterable[ResourceDefinition]) -> dict[str, Any]:
    """Return one version of a group. A version that another server serves has no resources and is marked as stale."""
    resources = [_aggregated(definition) for definition in definitions]
    if not resources:
        return {"version": version, "freshness": "Stale"}
    return {"version": version, "resources": resources, "freshness": "Current"}


def _api_group(group: str, versions: Iterable[str]) -> dict[str, Any]:
    named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": named, "preferredVersion": named[0]}


def _names(definition: ResourceDefinition) -> dict[str, Any]:
    """Return the short names and categories of a resource, omitting empty ones."""
    names: dict[str, Any] = {}
    if definition.short_names:
        names["shortNames"] = definition.short_names
    if definition.categories:
        names["categories"] = definition.categories
    return names


def _resource_list(registry: Registry, definitions: Iterable[ResourceDefinition]) -> dict[str, Any]:
    resources: list[Mapping[str, Any]] = []
    api_version = ""
    for definition in definitions:
        api_version = definition.api_version
        resources.append(
            {
                "name": definition.plural,
                "singularName": definition.singular,
                "namespaced": definition.namespaced,
                "kind": definition.kind,
                "verbs": definition.verbs,
                **_names(definition),
                **_storage_version(registry, definition),
            }
        )
        for name, subresource in _subresources(definition):
            kind = subresource.kind
            resources.append(
                {
                    "name": f"{definition.plural}/{name}",
                    "singularName": "",
                    "namespaced": definition.namespaced,
                    **({"group": kind.group, "version": kind.version} if kind is not None and kind.group else {}),
                    "kind": definition.kind if kind is None else kind.kind,
                    "verbs": subresource.verbs,
                }
            )
    head = {"kind": "APIResourceList"} if api_version == "v1" else {"kind": "APIResourceList", "apiVersion": "v1"}
    return {**head, "groupVersion": api_version, "resources": resources}


def _storage_version(registry: Registry, definition: ResourceDefinition) -> dict[str, str]:
    """Return the field storageVersionHash of a stored resource, which changes with its storage version.

    Source: apiserver pkg/endpoints/discovery/storageversionhash.go (v1.36).
    """
    stored = registry.of_storage(definition.storage)
    if stored is None or "watch" not in definition.verbs:
        return {}
    version = _STORED_AS.get((stored.group, stored.kind), stored.version)
    digest = hashlib.sha256(f"{stored.group}/{version}/{stored.kind}".encode()).digest()
    return {"storageVersionHash": base64.b64encode(digest[:8]).decode()}


def _aggregated(definition: ResourceDefinition) -> dict[str, Any]:
    own_kind = {"group": "", "version": "", "kind": definition.kind}  # empty: those of the resource
    found: dict[str, Any] = {
        "resource": definition.plural,
        "responseKind": own_kind,
        "scope": "Namespaced" if definition.namespaced else "Cluster",
        "singularResource": definition.singular,
        "verbs": definition.verbs,
        **_names(definition),
    }
    if subresources := _subresources(definition):
        found["subresources"] = [
            _aggregated_subresource(name, subresource, own_kind) for name, subresource in subresources
        ]
    return found


def _subresources(definition: ResourceDefinition) -> list[tuple[str, Subresource]]:
    """Return the subresources by name, including those of running containers, such as pods/log."""
    served = {name: subresource_of(name) for name in definition.subresources}
    return sorted({**served, **OF_RUNNING_CONTAINERS.get(definition.name, {})}.items())


def _aggregated_subresource(name: str, subresource: Subresource, own_kind: Mapping[str, str]) -> dict[str, Any]:
    kind = own_kind if subresource.kind is None else subresource.kind._asdict()
    if not kind["group"]:
        kind = {**kind, "version": ""}
    return {"subresource": name, "responseKind": kind, "verbs": subresource.verbs}
