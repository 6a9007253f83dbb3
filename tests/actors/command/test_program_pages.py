"""Pages of a program that embeds a system."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.app.system import ControllerSystem
from kcm.actors.command.program_pages import Pages, serve
from kcm.actors.reconciliation import DebugPage
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.runtime.metrics.registry import Family, Metrics
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.serving.server import ServingError
from tests.actors.app.test_embedding import PATIENCE, Idle, Silent, spec
from tests.actors.app.test_serving import LOOPBACK, free_ports, get, over_https

COUNTED = Family(name="mine_total", kind="counter", help="Mine.")


@contextmanager
def served(
    address: str = "",
    *flags: str,
    controllers: Sequence[ControllerSpec] = (spec("idle-controller"),),
    started: bool = False,
    **more: Any,
) -> Iterator[tuple[Pages, Metrics]]:
    clock = SystemClock()
    system = ControllerSystem(transport=Silent(), controllers=controllers, options=read_options(flags), clock=clock)
    if started:
        system.start()
    try:
        with serve(system, address, **more) as pages:
            yield pages, system.metrics
    finally:
        system.halt()
        clock.close()


def fetched(pages: Pages, path: str) -> tuple[int, str]:
    host, port = pages.url.removeprefix("http://").rsplit(":", 1)
    return get(http.client.HTTPConnection(host, int(port), timeout=10), path)


def test_program_serves_metrics_health_and_configuration() -> None:
    with served("127.0.0.1:0", checks={"mine": lambda: "not yet"}) as (pages, metrics):
        metrics.counter(COUNTED).inc(3)
        status, text = fetched(pages, "/metrics")
        assert status == 200
        assert "mine_total 3.0" in text
        assert "process_cpu_seconds_total" in text
        status, text = fetched(pages, "/healthz")
        assert status == 500
        assert "[-]mine failed: reason withheld" in text
        assert "idle-controller" not in text, "it has not started"
        assert fetched(pages, "/configz")[0] == 200
        assert fetched(pages, "/debug/pprof/")[0] == 404, "no profiles for everybody"


class Talkative(Idle):
    """Controller with a debug page that shows its request. built: set by the constructor."""

    def __init__(self, built: threading.Event) -> None:
        built.set()

    def debug_page(self, path: str, query: Mapping[str, Sequence[str]]) -> DebugPage | None:
        if path == "/broken":
            raise RuntimeError("there is nothing to see")
        return DebugPage(f"{path} {dict(query)}", "text/html") if path == "/all" else None


def test_custom_controller_has_debug_pages() -> None:
    (port,) = free_ports(1)
    built = threading.Event()
    controllers = [spec("idle-controller"), spec("talkative-controller", lambda _context: Talkative(built))]
    with served("", "--secure-port=0", f"--port={port}", controllers=controllers, started=True) as (pages, _):
        assert built.wait(PATIENCE)
        below = "/debug/controllers/talkative-controller"
        assert fetched(pages, f"{below}/all?a=1&a=2") == (200, "/all {'a': ['1', '2']}")
        assert fetched(pages, f"{below}/broken")[0] == 500
        assert fetched(pages, f"{below}/all")[0] == 200, "it is alive"
        assert fetched(pages, below)[0] == 404
        assert fetched(pages, "/debug/controllers/idle-controller/all")[0] == 404
        assert fetched(pages, "/debug/controllers/nobody/all")[0] == 404


def test_disabled_controller_has_no_debug_pages() -> None:
    (port,) = free_ports(1)
    controllers = [spec("talkative-controller", lambda _context: Talkative(threading.Event()))]
    with served("", "--secure-port=0", f"--port={port}", controllers=controllers) as (pages, _):
        assert fetched(pages, "/debug/controllers/talkative-controller/all")[0] == 404


def test_plain_address_serves_no_debug_pages() -> None:
    built = threading.Event()
    controllers = [spec("talkative-controller", lambda _context: Talkative(built))]
    with served("127.0.0.1:0", controllers=controllers, started=True) as (pages, _):
        assert built.wait(PATIENCE)
        assert fetched(pages, "/debug/controllers/talkative-controller/all")[0] == 404


def test_program_serves_according_to_its_flags() -> None:
    (port,) = free_ports(1)
    with served("", "--secure-port=0", f"--port={port}", "--profiling=true") as (pages, _):
        assert pages.urls == (f"http://127.0.0.1:{port}",)
        assert fetched(pages, "/debug/pprof/")[0] == 200
        assert fetched(pages, "/debug/flags/v")[0] == 404, "logs are the program's own"


def test_error_contains_the_reason_if_serving_fails() -> None:
    for address in ("localhost:80", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000", "::1:80", "[127.0.0.1]:80"):
        with pytest.raises(ValueError, match="not an IP address and a port"), served(address):
            pass
    with pytest.raises(ValueError, match="disable both ports: pass an address"), served("", "--secure-port=0"):
        pass
    with served("127.0.0.1:0") as (pages, _):
        with pytest.raises(ServingError, match="cannot listen on"), served(pages.url.removeprefix("http://")):
            pass


def requested(url: str, method: str, path: str, *, key: str = "") -> tuple[int, str]:
    host, port = url.split("/")[2].rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {key}"} if key else {})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_console_beside_an_address_is_opened_by_its_link() -> None:
    with served("127.0.0.1:0", started=True, console=True) as (pages, _):
        assert fetched(pages, "/configz")[0] == 200
        assert fetched(pages, "/console/")[0] == 404, "everybody can reach the address"
        assert len(pages.urls) == 1
        url, _, key = pages.console.partition("#key=")
        assert url.startswith("http://127.0.0.1:")
        assert requested(url, "GET", "/console/")[0] == 200
        assert requested(url, "GET", "/console/api/access")[0] == 403
        assert requested(url, "GET", "/console/api/access", key="x" * len(key))[0] == 401
        status, text = requested(url, "GET", "/console/api/access?path=/controllers/x/pause", key=key)
        assert (status, json.loads(text)["may"]) == (200, {"/controllers/x/pause": True})
        assert requested(url, "POST", "/controllers/idle-controller/disable")[0] == 403
        status, text = requested(url, "POST", "/controllers/idle-controller/disable", key=key)
        assert (status, json.loads(text)["outcome"]) == (200, "Done")


def test_console_on_the_secure_port_requires_authorization() -> None:
    (port,) = free_ports(1)
    flags = (f"--secure-port={port}", f"--bind-address={LOOPBACK}")
    with served("", *flags, console=True) as (pages, _):
        assert pages.console == f"https://{LOOPBACK}:{port}/console/"
        assert over_https((LOOPBACK, port), "/console/")[0] == 200
        assert over_https((LOOPBACK, port), "/console/api/access")[0] == 403
    with served("", *flags) as (pages, _):
        assert pages.console == ""
        assert over_https((LOOPBACK, port), "/console/")[0] == 403
    with served("127.0.0.1:0", "--console=false", console=True) as (pages, _):
        assert pages.console == ""


def test_console_without_a_port_of_its_own_is_refused() -> None:
    (port,) = free_ports(1)
    with pytest.raises(ValueError, match="needs --secure-port or an address"):
        with served("", "--secure-port=0", f"--port={port}", console=True):
            pass
