from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.serving.application import Application, PageRequest, PageResponse, text_page
from kcm.runtime.serving.server import PageListener, ServerThread, ServingError, connections_of
from kcm.runtime.serving.tls import ServingTls, TlsSettings


def greeting() -> Application:
    async def greet(_request: PageRequest) -> PageResponse:
        return text_page("hello")

    return Application(greet, now=SystemClock().now, log=quiet_log())


@contextmanager
def serving(log: Any, *listeners: PageListener) -> Iterator[list[tuple[str, int]]]:
    server = ServerThread(listeners, log=log)
    server.start()
    try:
        yield server.addresses
    finally:
        server.stop()


def get(address: tuple[str, int], *, tls: ssl.SSLContext | None = None) -> str:
    connection = (
        http.client.HTTPConnection(*address, timeout=10)
        if tls is None
        else http.client.HTTPSConnection(*address, timeout=10, context=tls)
    )
    try:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_several_listeners_serve_from_one_thread(log: Any, tmp_path: Path) -> None:
    tls = ServingTls(TlsSettings(directory=str(tmp_path)), clock=SystemClock(), log=log).context
    trusting = ssl.create_default_context(cafile=str(tmp_path / "kube-controller-manager.crt"))
    trusting.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    with serving(
        log,
        PageListener(application=greeting(), host="127.0.0.1", port=0),
        PageListener(application=greeting(), host="127.0.0.1", port=0, tls=tls),
    ) as (plain, secure):
        assert get(plain) == "hello"
        assert get(secure, tls=trusting) == "hello"


def test_port_in_use_is_reported_and_no_listener_remains(log: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        first = PageListener(application=greeting(), host="127.0.0.1", port=0)
        server = ServerThread([first, PageListener(application=greeting(), host="127.0.0.1", port=port)], log=log)
        with pytest.raises(ServingError, match=rf"^cannot listen on 127\.0\.0\.1:{port}: Address already in use$"):
            server.start()
        assert server.addresses == []


def test_port_may_be_shared_if_configured(log: Any) -> None:
    with serving(log, PageListener(application=greeting(), host="127.0.0.1", port=0, share_port=True)) as (address,):
        again = PageListener(application=greeting(), host="127.0.0.1", port=address[1], share_port=True)
        with serving(log, again) as (second,):
            assert second == address


def test_a_stopped_server_listens_no_more(log: Any) -> None:
    with serving(log, PageListener(application=greeting(), host="127.0.0.1", port=0)) as (address,):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=10)


@pytest.mark.parametrize("descriptors, connections", [(65_536, 256), (1024, 256), (256, 64), (8, 4)])
def test_connections_use_at_most_a_quarter_of_the_descriptors(descriptors: int, connections: int) -> None:
    assert connections_of(descriptors) == connections
