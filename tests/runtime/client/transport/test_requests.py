from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from aiohttp import web
from structlog.testing import LogCapture

from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.config import Credential
from kcm.runtime.client.credentials import FixedCredential

PATIENCE = 10.0
REACHED = 0.5  # seconds after which a request has been sent, also on a busy machine
PODS = "/api/v1/namespaces/default/pods"
Connect = Callable[..., Any]


async def echo(request: web.BaseRequest) -> web.Response:
    """Return the received request as JSON."""
    body = await request.read()
    return web.json_response(
        {
            "path": request.raw_path,
            "headers": [[name.title(), value] for name, value in request.headers.items()],
            "body": body.decode(),
        },
        status=201 if request.method == "POST" else 200,
    )


def header(response: Response, name: str) -> list[str]:
    return [value for key, value in orjson.loads(response.body)["headers"] if key == name]


def test_request_arrives_unchanged(connect: Connect, loopback: Any) -> None:
    client = connect(loopback.serve(echo))
    response = client.request("POST", PODS, body=b'{"kind":"Pod"}', client="replicaset-controller")
    assert (response.status, response.sent, response.error) == (201, True, "")
    assert response.content_type.startswith("application/json")
    assert orjson.loads(response.body)["body"] == '{"kind":"Pod"}'
    assert header(response, "User-Agent") == ["kcm/1.2 (linux/amd64) kubernetes/c0ffee/replicaset-controller"]
    assert header(response, "Content-Type") == ["application/json"]
    assert header(response, "Accept") == ["application/json"]


@pytest.mark.parametrize(
    ("path", "query", "target"),
    [
        (PODS, {}, PODS),
        ("/api/v1/nodes/system:node a%b", {}, "/api/v1/nodes/system:node%20a%25b"),
        ("/apis/x/v1/things/ä", {}, "/apis/x/v1/things/%C3%A4"),
        ("/api/v1/x?y#z", {}, "/api/v1/x%3Fy%23z"),
        (PODS, {"labelSelector": "a in (b,c),d!=e"}, f"{PODS}?labelSelector=a%20in%20%28b%2Cc%29%2Cd%21%3De"),
        (PODS, {"continue": "a+b/c==", "limit": "500"}, f"{PODS}?continue=a%2Bb%2Fc%3D%3D&limit=500"),
    ],
)
def test_paths_and_queries_are_escaped_once(
    connect: Connect, loopback: Any, path: str, query: dict[str, str], target: str
) -> None:
    response = connect(loopback.serve(echo)).request("GET", path, query=query)
    assert orjson.loads(response.body)["path"] == target


def test_a_server_below_a_path_is_reached(connect: Connect, loopback: Any) -> None:
    response = connect(loopback.serve(echo) + "/k8s/clusters/c-1").request("GET", "/version")
    assert orjson.loads(response.body)["path"] == "/k8s/clusters/c-1/version"


def test_patch_has_its_content_type_and_get_has_none(connect: Connect, loopback: Any) -> None:
    client = connect(loopback.serve(echo))
    patch = client.request("PATCH", body=b"{}", content_type="application/merge-patch+json", accept="application/yaml")
    assert header(patch, "Content-Type") == ["application/merge-patch+json"]
    assert header(patch, "Accept") == ["application/yaml"]
    assert header(client.request("GET"), "Content-Type") == []


@pytest.mark.parametrize(("method", "length"), [("GET", []), ("POST", ["0"]), ("PUT", ["0"]), ("DELETE", ["0"])])
def test_write_without_body_has_content_length_zero(
    connect: Connect, loopback: Any, method: str, length: list[str]
) -> None:
    response = connect(loopback.serve(echo)).request(method)
    assert header(response, "Content-Length") == length
    assert header(response, "Content-Type") == []


def test_request_does_not_affect_the_next_one(connect: Connect, loopback: Any) -> None:
    client = connect(loopback.serve(echo))
    for method, body in (("GET", b""), ("POST", b"1"), ("DELETE", b""), ("PATCH", b"22"), ("GET", b""), ("POST", b"")):
        response = client.request(method, query={"n": method}, body=body, client=f"of {method}")
        echoed = orjson.loads(response.body)
        assert (echoed["path"], echoed["body"]) == (f"/api/v1/pods?n={method}", body.decode())
        assert header(response, "User-Agent") == [f"kcm/1.2 (linux/amd64) kubernetes/c0ffee/of {method}"]
        assert header(response, "Content-Type") == (["application/json"] if body else [])


def test_every_request_has_credentials_and_impersonation_headers(connect: Connect, loopback: Any) -> None:
    config = {
        "credentials": FixedCredential(Credential(authorization="Bearer T")),
        "impersonation": (("Impersonate-User", "jane"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")),
    }
    response = connect(loopback.serve(echo), config=config).request("DELETE")
    assert header(response, "Authorization") == ["Bearer T"]
    assert header(response, "Impersonate-User") == ["jane"]
    assert header(response, "Impersonate-Group") == ["a", "b"]


def test_bodies_and_responses_of_megabytes_are_transferred(connect: Connect, loopback: Any) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Content-Length: 3000000\r\n" in head
        assert b"Expect" not in head  # waiting for a 100 would cost a round trip
        body = await reader.readexactly(3_000_000)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6000000\r\n\r\n" + body * 2)
        await writer.drain()

    response = connect(loopback.serve_raw(handle)).request("PUT", body=b"xyz" * 1_000_000)
    assert response.body == b"xyz" * 2_000_000


def test_redirect_is_returned_and_not_followed(connect: Connect, loopback: Any) -> None:
    async def elsewhere(request: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    assert connect(loopback.serve(elsewhere)).request("GET").status == 302


def test_error_response_is_returned_with_its_body(connect: Connect, loopback: Any) -> None:
    async def conflict(request: web.BaseRequest) -> web.Response:
        return web.Response(status=409, body=b'{"reason":"Conflict"}', content_type="application/json")

    response = connect(loopback.serve(conflict)).request("PUT", body=b"{}")
    assert response == Response(status=409, body=b'{"reason":"Conflict"}')


def test_callbacks_run_on_the_clients_thread_and_may_raise(connect: Connect, loopback: Any, logs: LogCapture) -> None:
    client = connect(loopback.serve(echo))
    names: list[str] = []
    called = threading.Event()

    def on_response(response: Response) -> None:
        names.append(threading.current_thread().name)
        called.set()
        raise ValueError("a bug of the caller")

    client.transport.send(Request(method="GET", path="/a"), client="tester", on_response=on_response)
    assert called.wait(20)
    assert client.request("GET", "/b").status == 200  # its callback runs later, on the same thread
    assert names == ["http"]
    assert [(entry["event"], entry["path"]) for entry in logs.entries] == [("callback failed", "/a")]


def test_a_callback_may_send_the_next_request(connect: Connect, loopback: Any) -> None:
    client = connect(loopback.serve(echo))
    client.transport.send(
        Request(method="GET", path="/first"),
        client="tester",
        on_response=lambda _: client.send("GET", "/second"),
    )
    assert orjson.loads(client.response().body)["path"] == "/second"


def test_requests_before_the_start_are_sent_at_the_start(connect: Connect, loopback: Any) -> None:
    client = connect(loopback.serve(echo), started=False)
    client.send("GET", "/early")
    client.transport.start()
    assert client.response().status == 200


def test_requests_above_the_limit_wait_except_of_an_idle_client(connect: Connect, loopback: Any, gate: Any) -> None:
    client = connect(loopback.serve(gate), connections=2)
    for number in range(5):
        client.send("GET", f"/busy/{number}", client="replicaset-controller")
    client.send("GET", "/lease", client="leader-election")
    assert sorted(gate.arrived.get(timeout=PATIENCE) for _ in range(3)) == ["/busy/0", "/busy/1", "/lease"]
    gate.open()
    assert [client.response().status for _ in range(6)] == [200] * 6
    assert sorted(gate.arrived.get_nowait() for _ in range(3)) == ["/busy/2", "/busy/3", "/busy/4"]


def test_request_that_times_out_in_the_queue_is_reported_as_not_sent(
    connect: Connect, loopback: Any, gate: Any
) -> None:
    client = connect(loopback.serve(gate), connections=1)
    client.send("POST", "/slow")
    client.send("POST", "/late", timeout=0.01)
    assert client.response() == Response(status=0, error="timed out before its turn came", sent=False)
    gate.open()
    assert client.response().status == 200
    client.transport.close(PATIENCE)
    assert client.responses.empty()
    assert gate.arrived.get_nowait() == "/slow"
    assert gate.arrived.empty()


def test_request_that_times_out_after_sending_has_unknown_outcome(connect: Connect, loopback: Any, gate: Any) -> None:
    url = loopback.serve(gate)
    response = connect(url).request("POST", body=b"{}", timeout=REACHED)
    assert response == Response(status=0, error=f"no response from {url} in time", sent=True)


def test_request_waits_for_its_response(connect: Connect, loopback: Any, gate: Any) -> None:
    client = connect(loopback.serve(echo))
    assert (
        client.transport.request(Request(method="GET", path="/version"), client="kcm", timeout=PATIENCE).status == 200
    )
    held = connect(loopback.serve(gate))
    assert held.transport.request(Request(method="GET", path="/version"), client="kcm", timeout=0.01).status == 0


def test_request_on_the_clients_thread_is_rejected(connect: Connect, loopback: Any) -> None:
    client = connect(loopback.serve(echo))
    caught: list[BaseException] = []
    done = threading.Event()

    def on_response(response: Response) -> None:
        try:
            client.transport.request(Request(method="GET", path="/version"), client="kcm", timeout=1.0)
        except RuntimeError as err:
            caught.append(err)
        done.set()

    client.transport.send(Request(method="GET", path="/"), client="tester", on_response=on_response)
    assert done.wait(PATIENCE)
    assert len(caught) == 1
    with pytest.raises(RuntimeError, match="not running"):
        connect("http://unused", started=False).transport.request(
            Request(method="GET", path="/version"), client="kcm", timeout=1.0
        )


def test_requests_are_counted_with_client_gos_names(connect: Connect, loopback: Any) -> None:
    client = connect(loopback.serve(echo))
    client.request("POST", body=b"{}")
    client.request("GET")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refusing = connect(f"http://127.0.0.1:{unused.getsockname()[1]}")
        refusing.request("GET")
    assert client.counted() == {
        ("rest_client_requests_total", "201", "POST"): 1,
        ("rest_client_requests_total", "200", "GET"): 1,
        ("rest_client_request_duration_seconds", "POST"): 1,
        ("rest_client_request_duration_seconds", "GET"): 1,
        ("rest_client_request_size_bytes", "POST"): 1,
        ("rest_client_request_size_bytes", "GET"): 0,
        ("rest_client_response_size_bytes", "POST"): 1,
        ("rest_client_response_size_bytes", "GET"): 1,
    }
    assert refusing.counted() == {("rest_client_requests_total", "<error>", "GET"): 1}


def test_connections_opened_in_advance_are_used(connect: Connect, loopback: Any) -> None:
    seen: queue.Queue[tuple[str, int]] = queue.Queue()

    async def serve(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        seen.put((request.path, request.transport.get_extra_info("peername")[1]))
        return web.Response()

    client = connect(loopback.serve(serve))
    client.transport.open_ahead(6)
    opened = [seen.get(timeout=PATIENCE) for _ in range(6)]
    assert {path for path, _ in opened} == {"/version"}
    ports = {port for _, port in opened}
    assert len(ports) == 6
    assert client.request("POST").status == 200
    path, port = seen.get(timeout=PATIENCE)
    assert (path, port in ports) == ("/api/v1/pods", True)


def test_failed_connection_stops_opening_in_advance(connect: Connect) -> None:
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        client = connect(f"http://127.0.0.1:{taken.getsockname()[1]}")
        client.transport.open_ahead(100)
        assert client.request().status == 0
        client.transport.close(PATIENCE)
    assert client.counted()["rest_client_requests_total", "<error>", "GET"] <= 5
