"""Reader of an API server, for explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from kcm.actors.explanation.evidence import ReadError
from kcm.actors.explanation.kinds import resource_named
from kcm.protocols.discovery.documents import ACCEPT
from kcm.protocols.objects import Key, Object, split_key
from kcm.protocols.resources import EVENTS, SECRETS, Resource, resource_path
from kcm.runtime.client.api import JSON, METADATA_LIST, Request, Response

TIMEOUT = 5.0  # seconds of one read
UNREADABLE = frozenset({401, 403})
NOT_FOUND = 404

Ask = Callable[[Request], Response]  # sends a request and waits for its response


class ApiReader:
    """Reads with a function that sends requests.

    An account that may list a resource, but not get its objects, lists the object by its name, as informers do. Of
    Secrets only the metadata is read.
    """

    def __init__(self, ask: Ask, *, left: Callable[[], float] = lambda: TIMEOUT) -> None:
        """Create it. left: returns the seconds that are left for all reads."""
        self._send, self._left = ask, left
        self._served: list[tuple[Resource, frozenset[str]]] | None = None

    def get(self, resource: Resource, key: Key) -> Object | None:
        namespace, name = split_key(key)
        if resource != SECRETS:
            path = resource_path(resource.id, namespace, name)
            response = self._ask(Request(method="GET", path=path))
            if response.status == NOT_FOUND:
                return None
            if response.status not in UNREADABLE:
                return _object(response)
        found = self._list(resource, namespace, {"fieldSelector": f"metadata.name={name}"})
        return found[0] if found else None

    def list(self, resource: Resource, namespace: str, *, labels: str, most: int) -> Sequence[Object]:
        query = {"limit": str(most), **({"labelSelector": labels} if labels else {})}
        return self._list(resource, namespace, query)

    def events(self, namespace: str, uid: str, *, most: int) -> Sequence[Object]:
        # Events of cluster-scoped objects are in the namespace default.
        query = {"fieldSelector": f"involvedObject.uid={uid}", "limit": str(most)}
        return self._list(EVENTS, namespace or "default", query)

    def find(self, group: str, kind: str) -> Resource | None:
        known = resource_named(f"{kind}.{group}" if group else kind)
        if known is not None:
            return known
        if self._served is None:
            self._served = [*_served(self._document("/apis")), *_served(self._document("/api"))]
        name = kind.lower()
        return next(
            (resource for resource, names in self._served if name in names and group in ("", resource.group)), None
        )

    def _ask(self, request: Request) -> Response:
        left = self._left()
        if left <= 0:
            raise ReadError("no time is left for further reads")
        return self._send(replace(request, timeout=min(TIMEOUT, left)))

    def _document(self, path: str) -> Object:
        return _object(self._ask(Request(method="GET", path=path, accept=ACCEPT)))

    def _list(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> Sequence[Object]:
        request = Request(
            method="GET",
            path=resource_path(resource.id, namespace),
            query=query,
            accept=METADATA_LIST if resource == SECRETS else JSON,
        )
        response = self._ask(request)
        if response.status == NOT_FOUND:  # the kind is not served
            return ()
        items = _object(response).get("items")
        return items if isinstance(items, list) else ()


def _object(response: Response) -> Object:
    if response.status != 200:
        raise ReadError(response.problem)
    try:
        decoded = orjson.loads(response.body)
    except ValueError as err:
        raise ReadError(f"the server's response is not JSON: {err}") from err
    if not isinstance(decoded, dict):
        raise ReadError("the server's response is not a JSON object")
    return decoded


def _served(document: Object) -> Iterator[tuple[Resource, frozenset[str]]]:
    """Yield the resources of an aggregated discovery document, with the names that kubectl accepts."""
    for item in document.get("items") or ():
        group = (item.get("metadata") or {}).get("name") or ""
        for version in item.get("versions") or ():
            for entry in version.get("resources") or ():
                kind = (entry.get("responseKind") or {}).get("kind")
                if kind:
                    yield _resource(group, version["version"], kind, entry), frozenset(_names(kind, entry, group))


def _resource(group: str, version: str, kind: str, entry: Mapping[str, Any]) -> Resource:
    return Resource(
        group=group, version=version, plural=entry["resource"], kind=kind, namespaced=entry.get("scope") == "Namespaced"
    )


def _names(kind: str, entry: Mapping[str, Any], group: str) -> Iterator[str]:
    for name in (kind.lower(), entry["resource"], entry.get("singularResource"), *(entry.get("shortNames") or ())):
        if name:
            yield name
            yield f"{name}.{group}"
