"""Watch: GET of a collection with ?watch=1.

Source: apiserver pkg/endpoints/handlers/{get,watch}.go, pkg/storage/cacher/cacher.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

from kcm.protocols.objects import Object, decode_object, encode_object, key_of
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest, served
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, not_supported, quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.request_info import is_set
from kcm.runtime.apiserver.storage.listing import read_page
from kcm.runtime.apiserver.storage.selection import parse_selection
from kcm.runtime.apiserver.storage.store import ADDED
from kcm.runtime.apiserver.storage.watches import CacheWatcher, ConvertLater, WatchCache, event_line
from kcm.runtime.apiserver.verbs.integers import parse_uint
from kcm.runtime.apiserver.verbs.read import NOT_OLDER_THAN, parse_limit, parse_timeout
from kcm.runtime.client.api import Response

# Default timeouts, in seconds. Upstream draws from 30 to 60 minutes; here consecutive watches differ by a fixed step,
# so that they do not end together either, and a run in virtual time is reproducible.
SHORTEST, SPREAD, STEP = 1800.0, 1800, 997


def watch(
    cluster: Cluster,
    cache: WatchCache,
    call: RoutedRequest,
    *,
    number: int,
    deliver: Callable[[bytes], None],
    end: Callable[[Response], None],
    deliver_first: Callable[[Iterator[bytes]], None] | None = None,
    convert_later: ConvertLater | None = None,
) -> CacheWatcher:
    """Start a watch. Raises StatusError if the request is invalid.

    As upstream, a resourceVersion that is too old is reported as an ERROR event in the stream instead.

    number: sequence number of the watch, from which the default timeout is derived
    deliver: receives one or more whole event lines at a time
    end: called when the watch ends
    deliver_first: receives the initial events as an iterator of lines; without it, `deliver` receives them at once
    convert_later: converts objects asynchronously; None if no conversion webhook is needed
    """
    query = call.query
    check_watch_options(query)
    parse_limit(query)  # a limit has no effect on a watch, but must be valid
    selection = parse_selection(call.definition, query)
    try:
        asked = parse_uint(query.get("resourceVersion") or "0")
    except ValueError as err:
        text = f"resourceVersion: Invalid value: {quoted(query['resourceVersion'])}: {err}"
        raise status_errors.without_reason(text) from err
    namespace = call.route.namespace
    # A watch without a resourceVersion sends its initial events by default.
    from_state = is_set(query, "sendInitialEvents") or _is_legacy(query)
    state = cluster.state
    if from_state and asked > state.revision:
        raise status_errors.too_large_resource_version(asked, state.revision)
    bookmarks = is_set(query, "allowWatchBookmarks")
    new = CacheWatcher(
        selection=selection,
        prefix=f"{namespace}/" if namespace else "",
        revision=asked if asked and not from_state else state.revision,
        bookmarks=bookmarks,
        started=cluster.clock.now(),
        timeout=_timeout(query, number),
        deliver=deliver,
        end=end,
        revision_now=lambda: state.durable,
        forget=cache.forget,
        deliver_first=deliver_first,
        convert_later=convert_later,
    )
    initial_events_end = bookmarks and from_state
    stored: list[Object] = []
    lines: Iterable[bytes] = ()
    if from_state:
        collection = state.collection(call.definition.storage)
        all_there = selection if convert_later is None else selection.by_key()
        page = read_page(collection, [], all_there, namespace=namespace, start="", limit=0)
        if convert_later is None:
            # A generator, so that the lines do not occupy memory before they are sent.
            lines = (event_line(ADDED, served(call.definition, raw)) for raw in page.items)
        else:
            stored = [decode_object(raw) for raw in page.items]
    cache.add(new)
    if asked and not from_state:
        try:
            cache.replay(new, asked)
        except StatusError as err:
            new.fail(err)
            return new

    def begin(objects: Iterable[Object]) -> None:
        selected = (obj for obj in objects if selection.matches(key_of(obj), obj))
        initial = chain(lines, (event_line(ADDED, encode_object(obj)) for obj in selected))
        new.begin(initial, initial_events_end=initial_events_end)

    if stored and convert_later is not None:
        state.when_durable(partial(convert_later, stored, begin, new.fail))
    else:
        state.when_durable(partial(begin, ()))
    return new


def _timeout(query: Mapping[str, str], number: int) -> float:
    return float(parse_timeout(query)) or SHORTEST + number * STEP % SPREAD


def _is_legacy(query: Mapping[str, str]) -> bool:
    return query.get("resourceVersion", "") in ("", "0") and "sendInitialEvents" not in query


def check_watch_options(query: Mapping[str, str]) -> None:
    """Raise StatusError (422) if options of a watch are invalid or exclude each other."""
    errors: list[FieldError] = []
    match, initial = query.get("resourceVersionMatch"), "sendInitialEvents" in query
    field = "resourceVersionMatch"
    if initial and match != NOT_OLDER_THAN:
        errors.append(forbidden(field, f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"))
    if _is_legacy(query) and query.get("continue"):
        errors.append(forbidden(field, f"{field} is forbidden when continue is provided"))
    if match:
        if not initial:
            errors.append(forbidden(field, f"{field} is forbidden for watch unless sendInitialEvents is provided"))
        if match != NOT_OLDER_THAN:
            errors.append(not_supported(field, match, (NOT_OLDER_THAN,)))
        if query.get("continue"):
            errors.append(forbidden(field, f"{field} is forbidden when continue is provided"))
    if errors:
        raise status_errors.invalid("meta.k8s.io", "ListOptions", "", errors)
