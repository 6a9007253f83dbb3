"""Pages that show and change a running system: /controllers, /zones, /clients and /brake, as JSON.

GET /COLLECTION and /COLLECTION/NAME show the state. POST /COLLECTION/NAME/ACTION changes it, waits until the change is
visible, at most ?timeout= seconds, and responds with the new state. Each change is logged with its user and outcome.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.application import PageRequest, PageResponse
from kcm.runtime.serving.authentication import AUTHENTICATED
from kcm.runtime.serving.authorization import ANONYMOUS, PageUser, failure_status
from kcm.runtime.serving.debug_pages import ChangeRefusedError, DebugPages, RunningSystem

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

ACTIONS: Mapping[str, frozenset[str]] = {  # by collection
    "controllers": frozenset({"enable", "disable", "pause", "resume", "restart", "drain"}),
    "zones": frozenset({"rate", "pause", "resume"}),
    "clients": frozenset({"rate"}),
    "brake": frozenset({"engage", "release"}),
}
SINGLE = frozenset({"brake"})  # collections without names
JSON = "application/json"
WAIT, LONGEST_WAIT = 10.0, 60.0  # seconds
CHECK_EVERY = 0.02  # seconds between two checks whether a change is visible
LARGEST_SETTINGS = 4096  # bytes
DONE, UNCHANGED, PENDING, REFUSED, FORBIDDEN = "Done", "Unchanged", "Pending", "Refused", "Forbidden"


class ChangeResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """Response to a change."""

    target: str  # "controllers/deployment-controller"
    action: str
    # Done: the change is visible. Unchanged: the state was already as requested. Pending: it was requested, and is not
    # visible yet.
    outcome: str
    result: Struct  # the new state


class _Place(NamedTuple):
    """Path of a page. action: "" to show the state."""

    collection: str
    name: str
    action: str


def is_control_path(path: str) -> bool:
    return path.removeprefix("/").partition("/")[0] in ACTIONS


def is_change(path: str, method: str) -> bool:
    """Report whether a request is for a change, which is logged even if it is refused."""
    return method not in ("GET", "HEAD") and is_control_path(path)


def log_change(
    log: FilteringBoundLogger,
    user: PageUser,
    path: str,
    outcome: str,
    *,
    error: str = "",
    settings: Mapping[str, object] | None = None,
) -> None:
    """Log a requested change: who, what, and the outcome."""
    target, _, action = path.strip("/").rpartition("/")
    groups = [group for group in user.groups if group != AUTHENTICATED]
    facts: dict[str, object] = {"user": user.name, "groups": groups, "action": action, "target": target}
    facts |= {"outcome": outcome, **({"settings": dict(settings)} if settings else {})}
    if outcome in (REFUSED, FORBIDDEN):
        log.warning("control request", **facts, error=error)
    else:
        log.info("control request", **facts)


class ControlPages:
    """Pages of a system that may not run yet."""

    def __init__(self, debug: DebugPages, *, clock: Clock, log: FilteringBoundLogger, is_read_only: bool) -> None:
        """Create the pages. is_read_only: refuse changes, as of clients that are not authenticated."""
        self._debug, self._clock, self._log, self._is_read_only = debug, clock, log, is_read_only

    async def page(self, request: PageRequest) -> PageResponse:
        """Return the page for a request with a path for which is_control_path is true."""
        path, system = request.path, self._debug.system
        place = _place(path)
        if place is None:
            return failure(404, "NotFound", f"the server could not find the requested resource {path!r}")
        if place.action:
            return await self._changed(request, place, system)
        if request.method not in ("GET", "HEAD"):
            return failure(405, "MethodNotAllowed", f"{path} can only be read; changes are POST {path}/ACTION")
        if system is None:
            return _not_started()
        try:
            return _json(system.shown(place.collection, place.name))
        except LookupError as error:
            return failure(404, "NotFound", _text(error))

    async def _changed(self, request: PageRequest, place: _Place, system: RunningSystem | None) -> PageResponse:
        path, user = request.path, request.user or ANONYMOUS
        if request.method != "POST":
            return failure(405, "MethodNotAllowed", f"{path} takes POST only, not {request.method}")
        if self._is_read_only or _is_of_another_site(request):
            why = "changes need the secure port" if self._is_read_only else "changes are not taken from other web sites"
            log_change(self._log, user, path, FORBIDDEN, error=why)
            return failure(403, "Forbidden", why)
        if system is None:
            return _not_started()
        try:
            settings, timeout = _settings(request.body), _timeout(request.query)
            change = system.change(place.collection, place.name, place.action, settings)
        except LookupError as error:
            log_change(self._log, user, path, REFUSED, error=_text(error))
            return failure(404, "NotFound", _text(error))
        except ValueError as error:
            log_change(self._log, user, path, REFUSED, error=str(error))
            return failure(400, "BadRequest", str(error))
        except ChangeRefusedError as error:
            log_change(self._log, user, path, REFUSED, error=str(error))
            return failure(409, "Conflict", str(error))
        outcome = DONE if change.is_needed else UNCHANGED
        deadline = self._clock.monotonic() + timeout
        while not change.is_done():
            if self._clock.monotonic() >= deadline:
                outcome = PENDING
                break
            await asyncio.sleep(CHECK_EVERY)
        log_change(self._log, user, path, outcome, settings=settings)
        target = f"{place.collection}/{place.name}" if place.name else place.collection
        result = ChangeResult(target=target, action=place.action, outcome=outcome, result=change.result())
        return _json(result, status=202 if outcome == PENDING else 200)


def failure(code: int, reason: str, message: str) -> PageResponse:
    body = msgspec.json.encode(failure_status(message, reason, code))
    return PageResponse(status=code, body=body, content_type=JSON)


def _place(path: str) -> _Place | None:
    """Return the place of a path; None if there is no such page."""
    collection, *parts = path.removeprefix("/").split("/")
    if collection in SINGLE:
        parts = ["", *parts]
    name, action, *more = [*parts, "", ""]
    known = not action or action in ACTIONS[collection]
    if any(more) or len(parts) > 2 or not known or (len(parts) == 2 and not action):
        return None
    return _Place(collection, name, action)


def _is_of_another_site(request: PageRequest) -> bool:
    """Report whether a browser sends this for a page of another site, with the credentials of its user."""
    origin = request.header("Origin")
    return bool(origin) and urlsplit(origin).netloc != request.header("Host")


def _settings(body: bytes) -> Mapping[str, object]:
    """Return the JSON object of a body; {} without a body. Raises ValueError."""
    if not body.strip():
        return {}
    if len(body) > LARGEST_SETTINGS:
        raise ValueError(f"the body has {len(body)} bytes; the most is {LARGEST_SETTINGS}")
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise ValueError(f"the body is not a JSON object: {error}") from error


def _timeout(query: Mapping[str, list[str]]) -> float:
    """Return for how many seconds a change is waited for. Raises ValueError."""
    given = query.get("timeout", [str(WAIT)])[0]
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= LONGEST_WAIT:
        raise ValueError(f"timeout is a number of seconds from 0 to {LONGEST_WAIT:g}, not {given!r:.40}")
    return seconds


def _not_started() -> PageResponse:
    return failure(503, "ServiceUnavailable", "the controllers have not been started yet")


def _json(content: Struct, *, status: int = 200) -> PageResponse:
    return PageResponse(status=status, body=msgspec.json.encode(content), content_type=JSON)


def _text(error: LookupError) -> str:
    return str(error.args[0]) if error.args else ""
