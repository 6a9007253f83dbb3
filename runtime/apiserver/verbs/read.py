"""GET of one object, and of a collection.

Source: apiserver pkg/endpoints/handlers/get.go, pkg/storage/etcd3/store.go, metav1.ListOptions (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest, all_served, served
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, not_supported, quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.storage.listing import (
    CONTINUE_EXPIRED,
    LIST_EXPIRED,
    NEWEST,
    Page,
    Position,
    decode_position,
    encode_position,
    read_page,
)
from kcm.runtime.apiserver.storage.selection import SelectionPredicate, parse_selection
from kcm.runtime.apiserver.storage.store import StoreChange
from kcm.runtime.apiserver.storage.watches import WatchCache
from kcm.runtime.apiserver.verbs.integers import parse_int, parse_uint
from kcm.runtime.client.api import Response

EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"


class ListResponse(Response, frozen=True, kw_only=True):
    """Response to a list. Its parts are kept for conversions of the body.

    head: the list without its items
    items: JSON of each item
    """

    head: Mapping[str, Any]
    items: Sequence[bytes]


def get(cluster: Cluster, call: RoutedRequest) -> Response:
    """Return the newest version of an object.

    A resourceVersion means "not older than", so only a resourceVersion in the future is refused.
    """
    _check_not_future(cluster, parse_resource_version(call.query))
    record = cluster.record(call.definition, call.key)
    return Response(status=200, body=served(call.definition, record.raw))


def asked_page(cluster: Cluster, cache: WatchCache, call: RoutedRequest) -> tuple[Page, Position]:
    """Return the page that a list or deletecollection selects, and the position at which the page begins."""
    query = call.query
    check_list_options(query)
    parse_timeout(query)
    selection = parse_selection(call.definition, query)
    # Upstream serves lists with resourceVersion=0 ("any") from its watch cache, which has no pages.
    limit = 0 if query.get("resourceVersion") == "0" else parse_limit(query)
    position = _position(cluster, query, limit)
    return _page(cluster, cache, selection, call.route.namespace, position, limit), position


def list_(cluster: Cluster, cache: WatchCache, call: RoutedRequest) -> Response:
    definition = call.definition
    page, position = asked_page(cluster, cache, call)
    meta: dict[str, object] = {"resourceVersion": str(position.revision)}
    if page.next:
        meta["continue"] = encode_position(Position(position.revision, page.next))
        if page.remaining is not None:
            meta["remainingItemCount"] = page.remaining
    head = {"kind": definition.list_kind, "apiVersion": definition.api_version, "metadata": meta}
    items = page.items if definition.shows_what_is_stored else all_served(definition, page.items)
    body = b"".join((orjson.dumps(head)[:-1], b',"items":[', b",".join(items), b"]}"))
    return ListResponse(status=200, body=body, head=head, items=items)


def _page(
    cluster: Cluster, cache: WatchCache, selection: SelectionPredicate, namespace: str, position: Position, limit: int
) -> Page:
    storage = selection.definition.storage
    undone: list[StoreChange] = []
    if position.revision < cluster.state.revision:
        expired = status_errors.expired(LIST_EXPIRED)
        if position.start:
            newest = encode_position(position._replace(revision=NEWEST))
            expired = status_errors.expired(CONTINUE_EXPIRED, next=newest)
        if position.revision < cache.compacted:
            raise expired
        try:
            undone = cache.history(storage).since(position.revision)
        except StatusError as err:
            raise expired from err
        unpublished = cluster.state.unpublished(storage)
        undone += [change for change in unpublished if change.revision > position.revision]
    collection = cluster.state.collection(storage)
    return read_page(collection, undone, selection, namespace=namespace, start=position.start, limit=limit)


def _position(cluster: Cluster, query: Mapping[str, str], limit: int) -> Position:
    """Return the revision and the first key of the requested page. Raises StatusError."""
    asked = parse_resource_version(query)
    if text := query.get("continue"):
        if asked:
            raise status_errors.bad_request("specifying resource version is not allowed when using continue")
        position = decode_position(text)
        if position.revision == NEWEST:
            return position._replace(revision=cluster.state.revision)
        _check_not_future(cluster, position.revision)
        return position
    _check_not_future(cluster, asked)
    match = query.get("resourceVersionMatch")
    # Without resourceVersionMatch, a limit means that the resourceVersion must match exactly.
    exact = match == EXACT or (bool(asked) and bool(limit) and not match)
    return Position(asked if exact else cluster.state.revision, "")


def _check_not_future(cluster: Cluster, revision: int) -> None:
    if revision and revision > cluster.state.revision:
        raise status_errors.too_large_resource_version(revision, cluster.state.revision)


def parse_resource_version(query: Mapping[str, str]) -> int:
    """Parse the resourceVersion of a query; 0 means "any" or "newest". Raises StatusError (400)."""
    text = query.get("resourceVersion", "")
    if text in ("", "0"):  # shortcut for most requests
        return 0
    try:
        return parse_uint(text)
    except ValueError as err:
        raise status_errors.bad_request(
            f"invalid resource version: resourceVersion: Invalid value: {quoted(text)}: {err}"
        ) from err


def parse_limit(query: Mapping[str, str]) -> int:
    """Parse the limit of a query; 0 means no limit. Raises StatusError (400)."""
    try:
        limit = parse_int(query.get("limit") or "0")
    except ValueError as err:
        raise status_errors.bad_request(str(err)) from err
    return max(limit, 0)


def parse_timeout(query: Mapping[str, str]) -> int:
    """Parse the timeoutSeconds of a query; 0 means no timeout. Raises StatusError (400)."""
    try:
        return max(parse_int(query.get("timeoutSeconds") or "0"), 0)
    except ValueError as err:
        raise status_errors.bad_request(str(err)) from err


def check_list_options(query: Mapping[str, str]) -> None:
    """Raise StatusError (422) if options of a list are invalid or exclude each other."""
    errors: list[FieldError] = []
    match = query.get("resourceVersionMatch")
    if match:
        field = "resourceVersionMatch"
        if not query.get("resourceVersion"):
            errors.append(forbidden(field, f"{field} is forbidden unless resourceVersion is provided"))
        if query.get("continue"):
            errors.append(forbidden(field, f"{field} is forbidden when continue is provided"))
        if match not in (EXACT, NOT_OLDER_THAN):
            errors.append(not_supported(field, match, (EXACT, NOT_OLDER_THAN, "")))
        if match == EXACT and query.get("resourceVersion") == "0":
            errors.append(forbidden(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if "sendInitialEvents" in query:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise status_errors.invalid("meta.k8s.io", "ListOptions", "", errors)
