from __future__ import annotations

import http.client
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509

from runtime.scheduling.clock import SystemClock
from runtime.serving.certificates import CertificateError, self_signed, server_context
from runtime.serving.server import Listener, ServerThread, ServingError

NOW = 1763726400.0


def greeting() -> web.Application:
    async def greet(_request: web.Request) -> web.Response:
        return web.Response(text="hello")

    application = web.Application()
    application.router.add_get("/", greet)
    return application


@contextmanager
def serving(log: Any, *listeners: Listener) -> Iterator[list[tuple[str, int]]]:
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
    tls = server_context(certificate="", key="", directory=str(tmp_path), now=SystemClock().now())
    trusting = ssl.create_default_context(cafile=str(tmp_path / "kube-controller-manager.crt"))
    trusting.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    with serving(
        log,
        Listener(application=greeting(), host="127.0.0.1", port=0),
        Listener(application=greeting(), host="127.0.0.1", port=0, tls=tls),
    ) as (plain, secure):
        assert get(plain) == "hello"
        assert get(secure, tls=trusting) == "hello"


def test_a_port_in_use_is_named_and_nothing_is_left_listening(log: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        first = Listener(application=greeting(), host="127.0.0.1", port=0)
        server = ServerThread([first, Listener(application=greeting(), host="127.0.0.1", port=port)], log=log)
        with pytest.raises(ServingError, match=rf"^cannot listen on 127\.0\.0\.1:{port}: Address already in use$"):
            server.start()
        assert server.addresses == []


def test_a_port_may_be_shared_when_asked(log: Any) -> None:
    with serving(log, Listener(application=greeting(), host="127.0.0.1", port=0, share_port=True)) as (address,):
        again = Listener(application=greeting(), host="127.0.0.1", port=address[1], share_port=True)
        with serving(log, again) as (second,):
            assert second == address


def test_a_stopped_server_listens_no_more(log: Any) -> None:
    with serving(log, Listener(application=greeting(), host="127.0.0.1", port=0)) as (address,):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=10)


def test_a_self_signed_certificate_is_for_localhost() -> None:
    certificate = x509.load_pem_x509_certificate(self_signed(now=NOW)[0])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert certificate.not_valid_before_utc.timestamp() < NOW < certificate.not_valid_after_utc.timestamp()


def test_a_pair_in_a_directory_is_made_once_and_its_key_is_private(tmp_path: Path) -> None:
    directory = tmp_path / "certificates"
    server_context(certificate="", key="", directory=str(directory), now=NOW)
    key = directory / "kube-controller-manager.key"
    made = key.read_bytes()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    server_context(certificate="", key="", directory=str(directory), now=NOW)
    assert key.read_bytes() == made


@pytest.mark.parametrize(
    "min_version, refused",
    [("", ssl.TLSVersion.TLSv1_1), ("VersionTLS12", ssl.TLSVersion.TLSv1_1), ("VersionTLS13", ssl.TLSVersion.TLSv1_2)],
)
def test_older_versions_of_tls_are_not_talked(min_version: str, refused: ssl.TLSVersion) -> None:
    context = server_context(certificate="", key="", directory="", now=NOW, min_version=min_version)
    assert context.minimum_version > refused


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    certificate, key = self_signed(now=NOW)
    other = self_signed(now=NOW)[1]
    for name, content in (("c.crt", certificate), ("c.key", key), ("o.key", other), ("bad", b"bad")):
        (tmp_path / name).write_bytes(content)

    def context(certificate_name: str, key_name: str) -> ssl.SSLContext:
        return server_context(
            certificate=str(tmp_path / certificate_name), key=str(tmp_path / key_name), directory="", now=NOW
        )

    assert context("c.crt", "c.key").minimum_version >= ssl.TLSVersion.TLSv1_2
    with pytest.raises(CertificateError, match=r"none\.crt: No such file"):
        context("none.crt", "c.key")
    for pair in (("bad", "c.key"), ("c.crt", "bad"), ("c.crt", "o.key")):
        with pytest.raises(CertificateError, match="are no certificate and its key"):
            context(*pair)
