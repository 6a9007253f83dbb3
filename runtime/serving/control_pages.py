"""Pages of the running controllers: /controllers and /controllers/NAME, as JSON."""

from __future__ import annotations

import msgspec

from kcm.runtime.serving.application import PageRequest, PageResponse
from kcm.runtime.serving.authorization import failure_status
from kcm.runtime.serving.debug_pages import DebugPages

CONTROL_PATHS = ("/controllers",)
JSON = "application/json"


def control_page(debug: DebugPages, request: PageRequest) -> PageResponse:
    """Return the page for a path that begins with one of CONTROL_PATHS."""
    system, path = debug.system, request.path
    what, _, rest = path.removeprefix("/").partition("/")
    if f"/{what}" not in CONTROL_PATHS or "/" in rest:
        return failure(404, "NotFound", f"the server could not find the requested resource {path!r}")
    if request.method not in ("GET", "HEAD"):
        return failure(405, "MethodNotAllowed", f"{path} can only be read")
    if system is None:
        return failure(503, "ServiceUnavailable", "the controllers have not been started yet")
    try:
        found = system.controller_details(rest) if rest else system.controller_states()
    except LookupError as error:
        return failure(404, "NotFound", str(error))
    return PageResponse(body=msgspec.json.encode(found), content_type=JSON)


def failure(code: int, reason: str, message: str) -> PageResponse:
    body = msgspec.json.encode(failure_status(message, reason, code))
    return PageResponse(status=code, body=body, content_type=JSON)
