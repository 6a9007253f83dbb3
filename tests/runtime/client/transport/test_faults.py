from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kcm.runtime.client.api import Response
from kcm.runtime.client.config import Credential
from kcm.runtime.client.credentials import HOLD_OFF, TokenFile
from kcm.runtime.client.exec_plugin import ExecPlugin, ExecSpec
from kcm.runtime.client.retries import MAX_RETRIES
from kcm.runtime.metrics.registry import Metrics

PATIENCE = 10.0
REACHED = 0.5  # seconds after which a request has reached its last step, also on a busy machine
CLOSED = "the client is closed"
WRITES = ["POST", "PUT", "PATCH", "DELETE"]
Connect = Callable[..., Any]


class Script:
    """Raw server that sends the given bytes as responses, in order, and repeats the last one.

    None closes the connection instead.
    seen: methods of the requests.
    """

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = list(answers)
        self.seen: list[str] = []
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            self.seen.append(head.split(b" ", 1)[0].decode())
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length or b"0"))
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            if answer is None:
                return
            writer.write(answer)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def test_refused_connection_is_reported_as_not_sent(connect: Connect, refusing: str) -> None:
    response = connect(refusing).request("POST", body=b"{}")
    assert response == Response(status=0, error=f"cannot connect to {refusing}: connection refused", sent=False)


def test_a_host_that_does_not_exist_is_named(connect: Connect) -> None:
    response = connect("http://no-such-host.invalid:6443").request("GET")
    assert (response.status, response.sent) == (0, False)
    assert response.error.startswith("cannot connect to http://no-such-host.invalid:6443: ")


@pytest.mark.parametrize("method", WRITES)
def test_write_on_a_broken_connection_is_sent_once_and_has_unknown_outcome(
    connect: Connect, loopback: Any, method: str
) -> None:
    server = Script(None)
    url = loopback.serve_raw(server)
    response = connect(url).request(method, body=b"{}")
    assert response == Response(status=0, error=f"{url} closed the connection before it responded", sent=True)
    assert server.seen == [method]


def test_read_on_a_broken_connection_is_sent_twice(connect: Connect, loopback: Any) -> None:
    server = Script(None)
    client = connect(loopback.serve_raw(server))
    assert client.request("GET").status == 0
    assert server.seen == ["GET", "GET"]
    assert client.counted()["rest_client_request_retries_total", "<error>", "GET"] == 1


@pytest.mark.parametrize(("method", "status", "sent"), [("GET", 200, True), *((method, 0, True) for method in WRITES)])
def test_only_reads_are_repeated_after_the_server_closes_a_kept_connection(
    connect: Connect, loopback: Any, method: str, status: int, sent: bool
) -> None:
    server = Script(OK, None, OK)
    client = connect(loopback.serve_raw(server))
    assert client.request("GET").status == 200
    response = client.request(method, body=b"" if method == "GET" else b"{}")
    assert (response.status, response.sent) == (status, sent)
    assert server.seen == ["GET", method, *(["GET"] if method == "GET" else [])]


def test_connections_are_kept_and_reused(connect: Connect, loopback: Any) -> None:
    server = Script(OK)
    client = connect(loopback.serve_raw(server))
    for _ in range(5):
        client.request("POST", body=b"{}")
    assert server.connections == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", "the response of {url} was cut off"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "{url} does not speak HTTP: "),
    ],
)
def test_malformed_response_counts_as_no_response(connect: Connect, loopback: Any, answer: bytes, says: str) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    url = loopback.serve_raw(handle)
    response = connect(url).request("POST")
    assert (response.status, response.sent) == (0, True)
    assert response.error.startswith(says.format(url=url))
    assert "\n" not in response.error


def test_informational_responses_are_ignored(connect: Connect, loopback: Any) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    client = connect(loopback.serve_raw(Script(b"HTTP/1.1 100 Continue\r\n\r\n" + early + OK)))
    assert client.request("POST", body=b"{}") == Response(status=200, body=b"{}")
    assert client.request("POST", body=b"{}") == Response(status=200, body=b"{}")


def test_response_that_never_ends_counts_as_no_response(connect: Connect, loopback: Any) -> None:
    url = loopback.serve_raw(Script(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}"))
    assert connect(url).request("POST", timeout=REACHED) == Response(
        status=0, error=f"no response from {url} in time", sent=True
    )


def test_connection_timeout_is_reported_as_not_sent(connect: Connect) -> None:
    with socket.socket() as deaf:  # its backlog takes one connection, which gets no response
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        url = f"https://127.0.0.1:{deaf.getsockname()[1]}"
        response = connect(url, config={"verify": False}).request("POST", timeout=REACHED)
    assert response == Response(status=0, error=f"cannot connect to {url}: timed out", sent=False)


def throttled(retry_after: int, *, status: int = 429) -> bytes:
    return f"HTTP/1.1 {status} Wait\r\nRetry-After: {retry_after}\r\nContent-Length: 4\r\n\r\nbusy".encode()


def test_throttled_write_is_retried_after_retry_after(connect: Connect, loopback: Any, hand_clock: Any) -> None:
    server = Script(throttled(1), throttled(3, status=503), OK)
    client = connect(loopback.serve_raw(server), clock=hand_clock)
    client.send("POST", body=b"{}")
    for delay in (1.0, 3.0):
        _, when = hand_clock.alarms.get(timeout=PATIENCE)
        assert when == hand_clock.monotonic() + delay
        hand_clock.advance(delay)
    assert client.response() == Response(status=200, body=b"{}")
    assert server.seen == ["POST"] * 3
    counted = client.counted()
    assert counted["rest_client_request_retries_total", "503", "POST"] == 1
    assert counted["rest_client_request_retries_total", "200", "POST"] == 1
    assert counted["rest_client_request_duration_seconds", "POST"] == 1


def test_response_is_returned_after_ten_retries(connect: Connect, loopback: Any, hand_clock: Any) -> None:
    server = Script(throttled(1))
    client = connect(loopback.serve_raw(server), clock=hand_clock, timeout=1000.0)
    client.send("GET")
    for _ in range(MAX_RETRIES):
        hand_clock.alarms.get(timeout=PATIENCE)
        hand_clock.advance(1.0)
    assert client.response() == Response(status=429, body=b"busy", retry_after=1.0)
    assert len(server.seen) == 1 + MAX_RETRIES


def test_request_is_not_retried_if_the_retry_would_exceed_its_timeout(
    connect: Connect, loopback: Any, hand_clock: Any
) -> None:
    client = connect(loopback.serve_raw(Script(throttled(5))), clock=hand_clock)
    assert client.request("GET", timeout=5.0) == Response(status=429, body=b"busy", retry_after=5.0)


def test_write_is_not_retried_after_a_server_error(connect: Connect, loopback: Any) -> None:
    server = Script(throttled(1, status=504))
    assert connect(loopback.serve_raw(server)).request("PUT").status == 504
    assert server.seen == ["PUT"]


def test_throttled_request_does_not_block_others(connect: Connect, loopback: Any, hand_clock: Any) -> None:
    server = Script(throttled(1), OK)
    client = connect(loopback.serve_raw(server), clock=hand_clock, connections=1)
    client.send("POST", "/throttled")
    hand_clock.alarms.get(timeout=PATIENCE)
    assert client.request("GET", "/other").status == 200


def bearer_of_the_day(good: str, seen: list[str]) -> Any:
    async def serve(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(status=200 if seen[-1] == f"Bearer {good}" else 401)

    return serve


def test_unauthorized_write_is_repeated_with_a_new_token(
    connect: Connect, loopback: Any, hand_clock: Any, tmp_path: Path
) -> None:
    path, seen = tmp_path / "token", list[str]()
    path.write_text("old")
    config = {"credentials": TokenFile(str(path), origin="test")}
    client = connect(loopback.serve(bearer_of_the_day("new", seen)), config=config, clock=hand_clock)
    assert client.request("POST", body=b"{}").status == 401
    path.write_text("new")
    hand_clock.advance(HOLD_OFF)
    assert client.request("POST", body=b"{}").status == 200
    assert client.request("POST", body=b"{}").status == 200
    assert seen == ["Bearer old", "Bearer old", "Bearer new", "Bearer new"]


def test_unchanged_invalid_token_is_sent_once_per_request(
    connect: Connect, loopback: Any, hand_clock: Any, tmp_path: Path
) -> None:
    path, seen = tmp_path / "token", list[str]()
    path.write_text("wrong")
    config = {"credentials": TokenFile(str(path), origin="test")}
    client = connect(loopback.serve(bearer_of_the_day("right", seen)), config=config, clock=hand_clock)
    for _ in range(3):
        hand_clock.advance(HOLD_OFF)
        assert client.request("GET").status == 401
    assert seen == ["Bearer wrong"] * 3


def test_unauthorized_request_is_sent_at_most_twice(connect: Connect, loopback: Any, hand_clock: Any) -> None:
    class Source:
        given = 0

        def load(self) -> Credential:
            self.given += 1
            return Credential(authorization=f"Bearer {self.given}")

    seen: list[str] = []

    async def refuse(request: web.BaseRequest) -> web.Response:
        seen.append(request.headers["Authorization"])
        hand_clock.advance(HOLD_OFF)
        return web.Response(status=401)

    client = connect(loopback.serve(refuse), config={"credentials": Source()}, clock=hand_clock, timeout=1000.0)
    assert client.request("POST").status == 401
    assert seen == ["Bearer 1", "Bearer 2"]


def test_without_credentials_nothing_is_sent_and_the_plugin_is_named(
    connect: Connect, loopback: Any, hand_clock: Any
) -> None:
    server = Script(OK)
    spec = ExecSpec(origin="config: exec", api_version="client.authentication.k8s.io/v1", command="no-such-plugin")
    source = ExecPlugin(spec, environ={}, clock=hand_clock, metrics=Metrics())
    client = connect(loopback.serve_raw(server), config={"credentials": source}, clock=hand_clock)
    assert client.request("POST") == Response(
        status=0,
        error="no credentials: config: exec: cannot run no-such-plugin: No such file or directory",
        sent=False,
    )
    assert server.seen == []


def test_late_credentials_are_reported(connect: Connect, loopback: Any, gate: Any) -> None:
    released = threading.Event()

    class Slow:
        def load(self) -> Any:
            released.wait(PATIENCE)
            raise AssertionError("the request has timed out")

    client = connect(loopback.serve(gate), config={"credentials": Slow()})
    assert client.request("GET", timeout=REACHED) == Response(status=0, error="no credentials in time", sent=False)
    released.set()


@pytest.mark.parametrize("method", WRITES)
def test_write_is_not_repeated_on_a_new_connection(connect: Connect, loopback: Any, method: str) -> None:
    """The client prevents libcurl, which opens a new connection, from repeating the write."""
    server = Script(OK, None, OK)
    url = loopback.serve_raw(server)
    client = connect(url)
    assert client.request("GET").status == 200
    response = client.request(method, body=b"{}")
    assert response == Response(status=0, error=f"{url} closed the connection before it responded", sent=True)
    assert client.request(method, body=b"{}").status == 200
    assert server.seen == ["GET", method, method]


def test_internal_error_is_returned_as_response(connect: Connect, loopback: Any) -> None:
    client = connect(loopback.serve_raw(Script(OK)))
    response = client.request("GET", "/\ud800")  # cannot be encoded as UTF-8
    assert response.status == 0
    assert response.error.startswith("internal error: UnicodeEncodeError")
    assert client.request("GET").status == 200
