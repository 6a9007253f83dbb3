"""GET /why?kind=&namespace=&name=&cluster=: why an object is stuck, as JSON.

`cluster` is for managers that work on several. 400 for a missing or malformed parameter, 404 for an unknown kind, 503
before the controllers are started. For an object that does not exist the response is 200, with the verdict "not found".
"""

from __future__ import annotations

import asyncio

import msgspec

from kcm.runtime.serving.application import PageRequest, PageResponse
from kcm.runtime.serving.control_pages import JSON, failure
from kcm.runtime.serving.debug_pages import RunningSystem

AT_ONCE = 4  # explanations; further requests wait
PARAMETERS = ("kind", "namespace", "name", "cluster")


class WhyPage:
    """Page with explanations, a bounded number of which are made at a time, each on a thread."""

    def __init__(self) -> None:
        self._permits = asyncio.Semaphore(AT_ONCE)

    async def page(self, request: PageRequest, system: RunningSystem | None) -> PageResponse:
        if request.method not in ("GET", "HEAD"):
            return failure(405, "MethodNotAllowed", f"/why can only be read, not {request.method}")
        query = request.query
        unknown = [name for name in query if name not in PARAMETERS]
        repeated = [name for name, values in query.items() if len(values) > 1]
        if unknown or repeated:
            wrong = ", ".join(unknown or repeated)
            return failure(400, "BadRequest", f"/why takes {', '.join(PARAMETERS)}, once each, not {wrong:.80}")
        kind, namespace, name, cluster = (query.get(parameter, [""])[0] for parameter in PARAMETERS)
        if not kind or not name:
            return failure(400, "BadRequest", "kind and name are needed: /why?kind=pod&namespace=default&name=web")
        if system is None:
            return failure(503, "ServiceUnavailable", "the controllers have not been started yet")
        async with self._permits:
            try:
                found = await asyncio.to_thread(system.why, kind, namespace, name, cluster)
            except LookupError as error:
                return failure(404, "NotFound", str(error))
            except ValueError as error:
                return failure(400, "BadRequest", str(error))
        return PageResponse(body=msgspec.json.encode(found), content_type=JSON)
