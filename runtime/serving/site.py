"""The pages that kcm serves, as an aiohttp application: one for HTTPS, another for plain HTTP, of the same Site.

Paths and texts follow k8s.io/controller-manager/app/serve.go, Kubernetes 1.36.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from kcm.protocols.late_methods import dataclass
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.version import Version
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving import profiling
from kcm.runtime.serving.authentication import Authenticator, NobodyKnown, UnauthorizedError
from kcm.runtime.serving.authorization import Attributes, Authorizer, forbidden_status, unauthorized_status
from kcm.runtime.serving.debug_pages import DebugPages
from kcm.runtime.serving.health import HealthChecks
from kcm.runtime.serving.local_hosts import names_this_host
from kcm.runtime.serving.metrics_page import MetricsPage
from kcm.runtime.serving.profiling import Profiler, ProfileUnderWayError
from kcm.runtime.serving.status_pages import Page, flags_page, status_page, wanted_version

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LISTED = ("/configz", "/flagz", "/healthz", "/metrics")  # of these paths /statusz names those that are there
TEXT = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What there is to show. The callables are called on the server's thread and must not block, but for `debug`.

    configuration: /configz, JSON-able. flags: /flagz, name → value. set_verbosity: for PUT /debug/flags/v; None: no
    such page.
    started: when the process did, Unix seconds. flagz, statusz: whether these pages are there. profiler: one for all
    applications of the site. debug: the pages of controllers; None: there are none.
    """

    health: HealthChecks
    metrics: Metrics
    configuration: Callable[[], Mapping[str, Any]]
    flags: Callable[[], Mapping[str, str]]
    set_verbosity: Callable[[int], None] | None
    version: Version
    profiling: bool
    clock: Clock
    log: FilteringBoundLogger
    started: float
    flagz: bool = True
    statusz: bool = True
    debug: DebugPages | None = None
    profiler: Profiler = field(default_factory=Profiler)


def build_application(
    site: Site, authorizer: Authorizer, *, authenticator: Authenticator | None = None, local: bool = False
) -> web.Application:
    """The site for requests that the authorizer allows; all others get a 403 for every path, known or not.

    authenticator: None where nobody is known.

    local: only requests that name this host in their Host header. A page of somebody else's that a browser here shows
    may have its name resolved to loopback and so read what is served without credentials (DNS rebinding).
    """
    middlewares = [_recovering(site), _authorizing(site, authenticator or NobodyKnown(), authorizer)]
    if local:
        middlewares.insert(1, _refusing_other_hosts(site))
    application = web.Application(middlewares=middlewares)
    application.on_response_prepare.append(_without_server_header)
    for path, handler in _pages(site).items():
        application.router.add_route("*", path, handler)
    application.router.add_route("*", "/{rest:.*}", _not_found)
    return application


def _pages(site: Site) -> dict[str, Handler]:
    pages: dict[str, Handler] = {
        "/healthz": _healthz(site),
        "/metrics": _metrics(MetricsPage(site.metrics, process=True)),
        "/metrics/slis": _resettable(site.health.slis),
        "/configz": _configz(site),
    }
    if site.flagz:
        pages["/flagz"] = _flagz(site)
    if site.statusz:
        pages["/statusz"] = _statusz(site, [path for path in LISTED if path in pages])
    if site.debug is not None:
        for path in ("/debug/controllers/{controller}", "/debug/controllers/{controller}{path:/.*}"):
            pages[path] = _of_a_controller(site.debug)
    if site.profiling:
        pages |= {
            "/debug/pprof": _text(lambda: profiling.INDEX),
            "/debug/pprof/": _text(lambda: profiling.INDEX),
            "/debug/pprof/cmdline": _text(lambda: "\0".join(sys.argv)),
            "/debug/pprof/profile": _profile(site.profiler),
            "/debug/pprof/goroutine": _text(profiling.thread_stacks),
            "/debug/pprof/threads": _text(profiling.thread_stacks),
        }
        if site.set_verbosity is not None:
            pages["/debug/flags/v"] = _verbosity(site.set_verbosity, site.log)
    return pages


def _recovering(site: Site) -> Any:
    @web.middleware
    async def recover(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except web.HTTPException:
            raise
        except Exception:
            site.log.exception("page failed", path=request.path)
            response = web.Response(status=500, text="This page failed. Look in the logs for details.\n")
        site.log.debug("page served", verb=request.method, path=request.path, status=response.status)
        return response

    return recover


def _refusing_other_hosts(site: Site) -> Any:
    @web.middleware
    async def refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get("Host", "")
        if names_this_host(host):
            return await handler(request)
        site.log.debug("page refused", path=request.path, host=host)
        return web.Response(status=403, text="only requests to localhost are served here, by its name or address\n")

    return refuse


def _authorizing(site: Site, authenticator: Authenticator, authorizer: Authorizer) -> Any:
    @web.middleware
    async def authorize(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            user = authenticator.user(request)
        except UnauthorizedError as error:
            site.log.debug("page refused", path=request.path, error=str(error))
            return web.json_response(unauthorized_status(), status=401)
        attributes = Attributes(user=user, verb=request.method.lower(), path=request.path)
        if await authorizer.allows(attributes):
            return await handler(request)
        site.log.debug("page refused", verb=attributes.verb, path=attributes.path, user=attributes.user.name)
        return web.json_response(forbidden_status(attributes), status=403)

    return authorize


async def _without_server_header(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.pop("Server", None)  # it would show versions of libraries
    response.headers["Cache-Control"] = "no-cache, private"
    response.headers["X-Content-Type-Options"] = "nosniff"


async def _not_found(_request: web.Request) -> web.Response:
    return web.Response(status=404, text="404 page not found\n")


def _text(body: Callable[[], str]) -> Handler:
    async def show(_request: web.Request) -> web.Response:
        return web.Response(text=body(), content_type=TEXT)

    return show


def _healthz(site: Site) -> Handler:
    async def healthz(request: web.Request) -> web.Response:
        health = site.health.examine(exclude=request.query.getall("exclude", []))
        if not health.good:
            return web.Response(status=500, text=health.page)
        return web.Response(text=health.page if "verbose" in request.query or health.notices else "ok")

    return healthz


def _metrics(page: MetricsPage) -> Handler:
    async def metrics(request: web.Request) -> web.Response:
        body, content_type = page.render(request.headers.get("Accept", ""))
        response = web.Response(body=body, headers={"Content-Type": content_type})
        response.enable_compression()
        return response

    return metrics


def _resettable(metrics: Metrics) -> Handler:
    show = _metrics(MetricsPage(metrics, process=False))

    async def show_or_reset(request: web.Request) -> web.StreamResponse:
        if request.method != "DELETE":
            return await show(request)
        metrics.clear()
        return web.Response(text="metrics reset\n")

    return show_or_reset


def _configz(site: Site) -> Handler:
    async def configz(_request: web.Request) -> web.Response:
        return web.Response(text=json.dumps(site.configuration()), content_type="application/json")

    return configz


def _flagz(site: Site) -> Handler:
    async def flagz(request: web.Request) -> web.Response:
        version = wanted_version(request.headers.get("Accept", ""), "Flagz")
        return _not_acceptable() if version is None else _shown(flags_page(site.flags(), version))

    return flagz


def _statusz(site: Site, listed: Sequence[str]) -> Handler:
    async def statusz(request: web.Request) -> web.Response:
        version = wanted_version(request.headers.get("Accept", ""), "Statusz")
        if version is None:
            return _not_acceptable()
        page = status_page(
            started=site.started,
            now=site.clock.now(),
            binary=site.version.git_version,
            emulated=f"{site.version.major}.{site.version.minor}",
            paths=listed,
            version=version,
        )
        return _shown(page)

    return statusz


def _shown(page: Page) -> web.Response:
    return web.Response(text=page.body, content_type=page.content_type)


def _not_acceptable() -> web.Response:
    return web.Response(status=406, text="only text/plain and application/json;as=...;v=v1beta1;g=config.k8s.io\n")


def _profile(profiler: Profiler) -> Handler:
    async def profile(request: web.Request) -> web.Response:
        asked = request.query.get("seconds", "30")
        try:
            seconds = float(asked)
        except ValueError:
            return web.Response(status=400, text=f"seconds is no number: {asked}\n")
        try:
            return web.Response(text=await profiler.profile(seconds), content_type=TEXT)
        except ProfileUnderWayError as error:
            return web.Response(status=409, text=f"{error}\n")

    return profile


def _of_a_controller(debug: DebugPages) -> Handler:
    async def show(request: web.Request) -> web.StreamResponse:
        names, query = request.match_info, request.query
        asked = {name: query.getall(name) for name in query}
        try:
            body, content_type = await asyncio.to_thread(debug.show, names["controller"], names.get("path", ""), asked)
        except LookupError:
            return await _not_found(request)
        except TimeoutError as error:
            return web.Response(status=504, text=f"{error}\n")
        return web.Response(body=body.encode(), headers={"Content-Type": content_type})

    return show


def _verbosity(set_verbosity: Callable[[int], None], log: FilteringBoundLogger) -> Handler:
    async def verbosity(request: web.Request) -> web.Response:
        if request.method != "PUT":
            return web.Response(status=406, text=f"unsupported http method {request.method}\n")
        asked = (await request.text()).strip()
        try:
            level = int(asked)
        except ValueError:
            return web.Response(status=400, text=f"error parsing {asked!r}: not a number\n")
        set_verbosity(level)
        log.info("verbosity set", verbosity=level)
        return web.Response(text=f"successfully set klog.logging.verbosity to {level}")

    return verbosity
