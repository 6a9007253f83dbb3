"""Pages of the manager: an application for HTTPS, and another for plain HTTP.

Paths and texts follow k8s.io/controller-manager/app/serve.go, Kubernetes 1.36.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.version import Version
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving import pprof, profiling
from kcm.runtime.serving.access_metrics import ALLOWED_LABEL, ERROR, NO_OPINION_LABEL, SUCCESS, AccessMeter
from kcm.runtime.serving.application import Application, PageFunction, PageRequest, PageResponse, text_page
from kcm.runtime.serving.authentication import NobodyKnown, PageAuthenticator, UnauthorizedError
from kcm.runtime.serving.authorization import (
    AuthorizationError,
    PageAttributes,
    PageAuthorizer,
    forbidden_status,
    internal_error,
    unauthorized_status,
)
from kcm.runtime.serving.control_pages import FORBIDDEN, ControlPages, is_change, is_control_path, log_change
from kcm.runtime.serving.debug_pages import DebugPages
from kcm.runtime.serving.health import HealthChecks
from kcm.runtime.serving.local_hosts import names_this_host
from kcm.runtime.serving.pprof import Profile
from kcm.runtime.serving.profiling import Profiler, ProfileUnderWayError
from kcm.runtime.serving.status_pages import ZPage, flags_page, status_page, wanted_version
from kcm.runtime.serving.why_page import WhyPage

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.runtime.serving.console.pages import Console
    from kcm.runtime.serving.metrics_page import MetricsPage

LISTED = ("/configz", "/flagz", "/healthz", "/metrics")  # paths that /statusz names, if they are served
JSON = "application/json; charset=utf-8"
CONTROLLERS, WHY = "/debug/controllers/", "/why"


class Site(Struct, frozen=True, kw_only=True):
    """Content of the pages. Functions are called on the server's thread and must not block, except those of `debug`."""

    health: HealthChecks
    metrics: Metrics
    # /configz, as a JSON object.
    configuration: Callable[[], Mapping[str, Any]]
    # /flagz: values of flags by name.
    flags: Callable[[], Mapping[str, str]]
    # PUT /debug/flags/v; None to leave this page out.
    set_verbosity: Callable[[int], None] | None
    version: Version
    # Release that is emulated, as "1.36".
    emulated: str
    # Whether to serve /debug/pprof/.
    profiling: bool
    # Shared by all applications of the site, which take one profile at a time.
    profiler: Profiler
    clock: Clock
    log: FilteringBoundLogger
    # Start of the process in Unix seconds.
    started: float
    # Whether to serve these pages.
    flagz: bool = True
    statusz: bool = True
    # Pages of controllers; None to leave them out.
    debug: DebugPages | None = None
    # None to leave the console out.
    console: Console | None = None


def build_application(
    site: Site, authorizer: PageAuthorizer, *, authenticator: PageAuthenticator | None = None, local: bool = False
) -> Application:
    """Return an application that serves the site to authorized users; others get a 403 for every path, known or not.

    authenticator: None if all requests are anonymous, which may change nothing on the control pages.
    local: refuse requests whose Host header does not name this host. Otherwise a foreign web page in a browser on this
        host could have its own name resolved to loopback, and read what is served without credentials (DNS rebinding).
    """
    control = None
    if site.debug is not None:
        control = ControlPages(site.debug, clock=site.clock, log=site.log, is_read_only=authenticator is None)
    page = _routed(_pages(site), site.debug, control)
    if site.console is not None:
        page = _with_console(site.console, authorizer, page, is_read_only=authenticator is None)
    page = _authorized(site, authenticator or NobodyKnown(), authorizer, page)
    if site.console is not None:
        page = _with_console_files(site.console, page)
    if local:
        page = _for_this_host(site, page)
    return Application(_recovered(site, page), now=site.clock.now, log=site.log)


def _with_console(
    console: Console, authorizer: PageAuthorizer, page: PageFunction, *, is_read_only: bool
) -> PageFunction:
    async def respond(request: PageRequest) -> PageResponse:
        if request.path.startswith(console.prefix):
            return await console.respond(request, authorizer, is_read_only=is_read_only)
        return await page(request)

    return respond


def _with_console_files(console: Console, page: PageFunction) -> PageFunction:
    async def respond(request: PageRequest) -> PageResponse:
        return console.file(request) or await page(request)

    return respond


def _pages(site: Site) -> dict[str, PageFunction]:
    """Return the pages by path."""
    pages: dict[str, PageFunction] = {
        "/healthz": _healthz(site),
        "/metrics": _metrics(site.metrics, process=True),
        "/metrics/slis": _resettable(site.health.slis),
        "/configz": _configz(site),
    }
    if site.flagz:
        pages["/flagz"] = _flagz(site)
    if site.statusz:
        pages["/statusz"] = _statusz(site, [path for path in LISTED if path in pages])
    if site.profiling:
        pages |= {
            "/debug/pprof": _text(lambda: profiling.INDEX),
            "/debug/pprof/": _text(lambda: profiling.INDEX),
            "/debug/pprof/cmdline": _text(lambda: "\0".join(sys.argv)),
            "/debug/pprof/profile": _profile(site.profiler.cpu, seconds=30.0),
            "/debug/pprof/heap": _profile(site.profiler.heap, seconds=0.0),
            "/debug/pprof/allocs": _profile(site.profiler.heap, seconds=0.0),
            "/debug/pprof/goroutine": _snapshot(site.profiler.goroutine, text=profiling.thread_stacks),
            "/debug/pprof/mutex": _snapshot(site.profiler.contention),
            "/debug/pprof/block": _snapshot(site.profiler.contention),
            "/debug/pprof/threads": _text(profiling.thread_stacks),
        }
        if site.set_verbosity is not None:
            pages["/debug/flags/v"] = _verbosity(site.set_verbosity, site.log)
    return pages


def _recovered(site: Site, page: PageFunction) -> PageFunction:
    """Wrap a page to log each request, and to respond with 500 if the page raises an exception."""

    async def recover(request: PageRequest) -> PageResponse:
        path = request.path
        try:
            response = await page(request)
        except Exception:
            site.log.exception("page failed", path=path)
            response = text_page("This page failed. Look in the logs for details.\n", status=500)
        site.log.debug("page served", verb=request.method, path=path, status=response.status)
        return response

    return recover


def _for_this_host(site: Site, page: PageFunction) -> PageFunction:
    async def refuse(request: PageRequest) -> PageResponse:
        host = request.header("Host")
        if names_this_host(host):
            return await page(request)
        site.log.debug("page refused", path=request.path, host=host)
        return text_page("only requests to localhost are served here, by its name or address\n", status=403)

    return refuse


def _authorized(
    site: Site, authenticator: PageAuthenticator, authorizer: PageAuthorizer, page: PageFunction
) -> PageFunction:
    meter = AccessMeter(site.metrics, now=site.clock.monotonic)

    async def authorize(request: PageRequest) -> PageResponse:
        began = site.clock.monotonic()
        try:
            user = await authenticator.user(request)
        except UnauthorizedError as error:
            meter.authenticated(ERROR, began=began)
            site.log.debug("page refused", path=request.path, error=str(error))
            return _json(unauthorized_status(), status=401)
        meter.authenticated(SUCCESS, began=began, user=user.name)
        attributes = PageAttributes(user=user, verb=request.method.lower(), path=request.path)
        began = site.clock.monotonic()
        try:
            decision = await authorizer.decide(attributes)
        except AuthorizationError as error:
            meter.authorized(ERROR, began=began)
            target = request.target.decode(errors="replace")
            site.log.error("Failed to make webhook authorizer request", error=str(error))
            return text_page(internal_error(target, error), status=500)
        meter.authorized(ALLOWED_LABEL if decision.is_allowed else NO_OPINION_LABEL, began=began)
        if decision.is_allowed:
            request.user = user
            return await page(request)
        if is_change(request.path, request.method):
            log_change(site.log, user, request.path, FORBIDDEN, error=decision.reason)
        else:
            site.log.debug("page refused", verb=attributes.verb, path=attributes.path, user=user.name)
        return _json(forbidden_status(attributes, decision.reason), status=403)

    return authorize


def _routed(pages: Mapping[str, PageFunction], debug: DebugPages | None, control: ControlPages | None) -> PageFunction:
    why = WhyPage()

    async def route(request: PageRequest) -> PageResponse:
        path = request.path
        page = pages.get(path)
        if page is not None:
            return await page(request)
        if control is not None and is_control_path(path):
            return await control.page(request)
        if debug is not None and path == WHY:
            return await why.page(request, debug.system)
        if debug is not None and path.startswith(CONTROLLERS):
            controller, slash, rest = path.removeprefix(CONTROLLERS).partition("/")
            if controller:
                return await _controller_page(debug, controller, slash + rest, request.query)
        return _not_found()

    return route


def _not_found() -> PageResponse:
    return text_page("404 page not found\n", status=404)


def _json(content: Mapping[str, Any], *, status: int = 200) -> PageResponse:
    return PageResponse(status=status, body=json.dumps(content).encode(), content_type=JSON)


def _text(text: Callable[[], str]) -> PageFunction:
    async def show(_request: PageRequest) -> PageResponse:
        return text_page(text())

    return show


def _healthz(site: Site) -> PageFunction:
    async def healthz(request: PageRequest) -> PageResponse:
        query = request.query
        health = site.health.examine(exclude=query.get("exclude", []))
        if not health.good:
            return text_page(health.page, status=500)
        return text_page(health.page if "verbose" in query or health.notices else "ok")

    return healthz


def _metrics(metrics: Metrics, *, process: bool, start_time: bool = False) -> PageFunction:
    """Return a page of metrics; see MetricsPage for the arguments."""
    made: MetricsPage | None = None

    async def metrics_page(request: PageRequest) -> PageResponse:
        nonlocal made
        if made is None:
            from kcm.runtime.serving.metrics_page import MetricsPage  # heavy: prometheus_client, with http.server

            made = MetricsPage(metrics, process=process, start_time=start_time)
        body, content_type = made.render(request.header("Accept"))
        return PageResponse(body=body, content_type=content_type, is_compressed=True)

    return metrics_page


def _resettable(metrics: Metrics) -> PageFunction:
    show = _metrics(metrics, process=False, start_time=True)

    async def show_or_reset(request: PageRequest) -> PageResponse:
        if request.method != "DELETE":
            return await show(request)
        metrics.clear()
        return text_page("metrics reset\n")

    return show_or_reset


def _configz(site: Site) -> PageFunction:
    async def configz(_request: PageRequest) -> PageResponse:
        return _json(site.configuration())

    return configz


def _flagz(site: Site) -> PageFunction:
    async def flagz(request: PageRequest) -> PageResponse:
        version = wanted_version(request.header("Accept"), "Flagz")
        return _not_acceptable() if version is None else _shown(flags_page(site.flags(), version))

    return flagz


def _statusz(site: Site, listed: Sequence[str]) -> PageFunction:
    async def statusz(request: PageRequest) -> PageResponse:
        version = wanted_version(request.header("Accept"), "Statusz")
        if version is None:
            return _not_acceptable()
        page = status_page(
            started=site.started,
            now=site.clock.now(),
            binary=site.version.git_version,
            emulated=site.emulated,
            paths=listed,
            version=version,
        )
        return _shown(page)

    return statusz


def _shown(page: ZPage) -> PageResponse:
    return PageResponse(body=page.body.encode(), content_type=f"{page.content_type}; charset=utf-8")


def _not_acceptable() -> PageResponse:
    return text_page("only text/plain and application/json;as=...;v=v1beta1;g=config.k8s.io\n", status=406)


def _profile(take: Callable[[float], Awaitable[Profile]], *, seconds: float) -> PageFunction:
    """Return a page with a profile of some time. seconds: how long it takes by default."""

    async def profile(request: PageRequest) -> PageResponse:
        given = request.query.get("seconds", [str(seconds)])[0]
        try:
            wanted = float(given)
        except ValueError:
            wanted = math.nan
        if not 0 <= wanted < math.inf:
            return text_page(f"seconds must be a number of seconds, but got {given!r}\n", status=400)
        try:
            return _shown_profile(await take(wanted), request)
        except ProfileUnderWayError as error:
            return text_page(f"{error}\n", status=409)

    return profile


def _snapshot(take: Callable[[], Profile], *, text: Callable[[], str] | None = None) -> PageFunction:
    """Return a page with a profile of this moment. text: the page for ?debug=1; None for collapsed stacks."""

    async def snapshot(request: PageRequest) -> PageResponse:
        if text is not None and _wants_text(request):
            return text_page(text())
        return _shown_profile(take(), request)

    return snapshot


def _shown_profile(profile: Profile, request: PageRequest) -> PageResponse:
    if _wants_text(request):
        return text_page(profiling.collapsed(profile))
    return PageResponse(body=pprof.encoded(profile), content_type="application/octet-stream")


def _wants_text(request: PageRequest) -> bool:
    return request.query.get("debug", ["0"])[0] not in ("", "0")


async def _controller_page(
    debug: DebugPages, controller: str, path: str, query: Mapping[str, list[str]]
) -> PageResponse:
    try:
        body, content_type = await asyncio.to_thread(debug.show, controller, path, query)
    except LookupError:
        return _not_found()
    except TimeoutError as error:
        return text_page(f"{error}\n", status=504)
    return PageResponse(body=body.encode(), content_type=content_type)


def _verbosity(set_verbosity: Callable[[int], None], log: FilteringBoundLogger) -> PageFunction:
    async def verbosity(request: PageRequest) -> PageResponse:
        if request.method != "PUT":
            return text_page(f"unsupported http method {request.method}\n", status=406)
        asked = request.body.decode(errors="replace").strip()
        try:
            level = int(asked)
        except ValueError:
            return text_page(f"error parsing {asked!r}: not a number\n", status=400)
        set_verbosity(level)
        log.info("verbosity set", verbosity=level)
        return text_page(f"successfully set klog.logging.verbosity to {level}")

    return verbosity
