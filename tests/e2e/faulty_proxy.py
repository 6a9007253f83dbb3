"""Proxy between a manager and an API server that injects faults, which a test can change while the proxy runs.

It counts the requests by resource and verb.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

from tests.e2e.kubectl import Api

FAULTS = ("500", "429", "409", "timeout", "cut")
PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent", "traceparent")


@dataclass
class Weather:
    """Faults of the proxy. A test changes them while the proxy runs."""

    trouble: float = 0.0  # probability that a request meets one of the faults
    faults: tuple[str, ...] = FAULTS
    watch_delay: float = 0.0  # seconds by which lines of a watch are delayed
    cuts: int = 0  # number of times that a watch will break in the middle of a line
    idle: float | None = None  # seconds without a line after which a watch is cut, as load balancers do; None: never
    mutate: Callable[[str, bytes], list[bytes]] = lambda _path, line: [line]  # path and line of a watch → lines to send
    seed: int = 1
    requests: Counter[str] = field(default_factory=Counter)  # by "METHOD resource", watches as "WATCH resource"
    hit: Counter[str] = field(default_factory=Counter)  # by fault
    created: list[str] = field(default_factory=list)  # paths of the successful creations
    traced: dict[str, str] = field(default_factory=dict)  # by traceparent, "METHOD path" of the request that carried it

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)


class FaultyProxy:
    """See the module; built and served on a loop of its own by `faulty_proxy`."""

    def __init__(self, api: Api, weather: Weather, session: ClientSession) -> None:
        self._api, self._weather, self._session = api, weather, session

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        watching = "watch" in request.query
        resource = next((part for part in reversed(request.path.split("/")) if part.islower()), "")
        self._weather.requests[f"{'WATCH' if watching else request.method} {resource}"] += 1
        if "traceparent" in request.headers:
            self._weather.traced[request.headers["traceparent"]] = f"{request.method} {request.path}"
        body = await request.read()
        fault = self._fault()
        if fault in ("500", "429", "409"):
            return _refusal(int(fault))
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        url = f"{self._api.url}{request.raw_path}"
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            if watching and answer.status == 200:
                return await self._pass_watch(request, answer.content)
            content = await answer.read()
            if request.method == "POST" and answer.status == 201:
                self._weather.created.append(request.path)
            if fault == "timeout":  # the server handled the request, and the response is lost
                await asyncio.sleep(0.5)
            if fault in ("timeout", "cut"):
                _cut(request)
            return web.Response(body=content, status=answer.status, content_type=answer.content_type)

    def _fault(self) -> str:
        weather = self._weather
        if weather.random.random() >= weather.trouble:
            return ""
        fault = weather.random.choice(weather.faults)
        weather.hit[fault] += 1
        return fault

    async def _pass_watch(self, request: web.BaseRequest, lines: AsyncIterable[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        loop = asyncio.get_running_loop()
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            async for line in lines:
                for changed in self._weather.mutate(request.path, line):
                    late.put_nowait((loop.time() + self._weather.watch_delay, changed))
            late.put_nowait((loop.time(), b""))

        reading = asyncio.create_task(read())
        try:
            while True:
                try:
                    due, line = await asyncio.wait_for(late.get(), self._weather.idle)
                except TimeoutError:
                    self._weather.hit["idle"] += 1
                    _cut(request)
                    return response
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not line:
                    return response
                if self._weather.cuts > 0:
                    self._weather.cuts -= 1
                    await response.write(line[: len(line) // 2])
                    _cut(request)
                await response.write(line)
        finally:
            reading.cancel()


def _refusal(status: int) -> web.Response:
    reason = {500: "InternalError", 429: "TooManyRequests", 409: "Conflict"}[status]
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": f"a fault of the test's: {status}",
        "code": status,
    }
    return web.json_response(body, status=status, headers={"Retry-After": "0"} if status == 429 else {})


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


@dataclass(frozen=True)
class Proxied:
    """Running proxy. kubeconfig: for access through the proxy."""

    kubeconfig: Path
    weather: Weather


@contextlib.contextmanager
def faulty_proxy(kubeconfig: Path, weather: Weather) -> Iterator[Proxied]:
    """Serves on loopback, in plain HTTP, until the end of the block."""
    api, serving = Api(kubeconfig), Future[tuple[int, Callable[[], object]]]()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(api, weather, serving)), name="faulty proxy")
    thread.start()
    port, stop = serving.result(20.0)
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
    through = kubeconfig.with_name("through-proxy")
    through.write_text(yaml.safe_dump(config))
    try:
        yield Proxied(through, weather)
    finally:
        stop()
        thread.join()


async def _serve(api: Api, weather: Weather, serving: Future[tuple[int, Callable[[], object]]]) -> None:
    """Serve until stopped. Sets the result of `serving` to the port and a function that stops the proxy."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    opened: list[socket.socket] = []

    def open_socket(address: Any) -> socket.socket:
        opened.append(socket.socket(*address[:3]))
        return opened[-1]

    connector = TCPConnector(ssl=api.tls or False, limit=0, socket_factory=open_socket)
    async with ClientSession(connector=connector, timeout=ClientTimeout(total=None)) as session:
        server = web.Server(FaultyProxy(api, weather, session).handle, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        serving.set_result((runner.addresses[0][1], lambda: loop.call_soon_threadsafe(ended.set)))
        await ended.wait()
        await runner.cleanup()
    # A request that is cancelled during its TLS handshake leaves the connection open. Its end is seen by the loop.
    for connection in opened:
        if connection.fileno() != -1:
            with contextlib.suppress(OSError):  # it is not connected yet
                connection.shutdown(socket.SHUT_RDWR)
    while any(connection.fileno() != -1 for connection in opened):
        await asyncio.sleep(0.01)
