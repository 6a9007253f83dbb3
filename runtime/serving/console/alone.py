"""Console without a site, over HTTP on loopback, for programs that have no other pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcm.runtime.serving.application import Application, PageRequest, PageResponse, text_page
from kcm.runtime.serving.authentication import UnauthorizedError
from kcm.runtime.serving.authorization import ANONYMOUS, EverythingAllowed
from kcm.runtime.serving.console.assets import PREFIX
from kcm.runtime.serving.console.pages import Console, LinkKey
from kcm.runtime.serving.local_hosts import names_this_host

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def console_alone(
    console: Console, key: LinkKey, *, now: Callable[[], float], log: FilteringBoundLogger
) -> Application:
    """Return an application that serves the console to clients with the key. Nothing can be changed.

    now: returns Unix seconds.
    """

    async def respond(request: PageRequest) -> PageResponse:
        if not names_this_host(request.header("Host")):
            return text_page("only requests to localhost are served here, by its name or address\n", status=403)
        file = console.file(request)
        if file is not None:
            return file
        try:
            request.user = await key.user(request)
        except UnauthorizedError as error:
            return text_page(f"{error}\n", status=401)
        if request.user is ANONYMOUS:
            return text_page("open the link that was printed\n", status=403)
        if not request.path.startswith(PREFIX):
            return text_page("404 page not found\n", status=404)
        try:
            return await console.respond(request, EverythingAllowed(), is_read_only=True)
        except Exception:
            log.exception("page failed", path=request.path)
            return text_page("This page failed. Look in the logs for details.\n", status=500)

    return Application(respond, now=now, log=log)
