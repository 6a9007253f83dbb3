from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from kcm.actors.app.serving import build_server
from kcm.actors.options import parse_options
from kcm.runtime.logs.configuration import LogControl, LogSettings, Sink
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.version import Version
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.serving.debug_pages import DebugPages
from kcm.runtime.serving.health import HealthChecks
from kcm.runtime.serving.server import ServerThread, ServingError
from kcm.runtime.serving.tls_names import TlsError
from tests.support.certificates import Authority, client_context

LOOPBACK = "127.0.0.1"


def server_for(*argv: str, embeds_cluster: bool = False, logged: LogCapture | None = None) -> ServerThread | None:
    log: Any = structlog.wrap_logger(
        None, processors=[logged or LogCapture()], wrapper_class=structlog.make_filtering_bound_logger(0)
    )
    clock = SystemClock()
    sink = Sink(stderr=io.StringIO(), directory="", now=clock.now)
    return build_server(
        parse_options(argv),
        health=HealthChecks(log=log),
        debug=DebugPages(),
        metrics=Metrics(),
        set_verbosity=LogControl(LogSettings(), sink=sink, now=clock.now).set_verbosity,
        version=Version(kubernetes="1.36.2", kcm="0.1.0"),
        clock=clock,
        log=log,
        descriptors=1024,
        embeds_cluster=embeds_cluster,
    )


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that are not in use."""
    probes = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@contextmanager
def running(*argv: str, **more: Any) -> Iterator[list[tuple[str, int]]]:
    server = server_for(*argv, **more)
    assert server is not None
    server.start()
    try:
        yield server.addresses
    finally:
        server.stop()


def get(connection: http.client.HTTPConnection, path: str, **headers: str) -> tuple[int, str]:
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def over_https(address: tuple[str, int], path: str) -> tuple[int, str]:
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    return get(http.client.HTTPSConnection(*address, timeout=10, context=unverified), path)


def over_http(address: tuple[str, int], path: str, **headers: str) -> tuple[int, str]:
    return get(http.client.HTTPConnection(*address, timeout=10), path, **headers)


def test_https_allows_only_health_anonymously_and_plain_http_allows_all_pages() -> None:
    secure_port, plain_port = free_ports(2)
    with running(
        f"--bind-address={LOOPBACK}", f"--secure-port={secure_port}", f"--address={LOOPBACK}", f"--port={plain_port}"
    ) as (secure, plain):
        assert (secure, plain) == ((LOOPBACK, secure_port), (LOOPBACK, plain_port))
        assert over_https(secure, "/healthz") == (200, "ok")
        assert over_https(secure, "/metrics")[0] == 403
        assert over_http(plain, "/healthz") == (200, "ok")
        status, shown = over_http(plain, "/configz")
        assert status == 200
        assert json.loads(shown)["kubecontrollermanager.config.k8s.io"]["kind"] == "KubeControllerManagerConfiguration"
        assert f"secure-port: {secure_port}\n" in over_http(plain, "/flagz")[1]


def test_plain_http_is_on_loopback_by_default() -> None:
    (port,) = free_ports(1)
    with running("--secure-port=0", f"--port={port}") as (plain,):
        assert plain == (LOOPBACK, port)
        assert over_http(plain, "/healthz") == (200, "ok")
        assert over_http(plain, "/debug/pprof/", Host="rebound.example")[0] == 403
    assert parse_options(["--port=1", "--address=0.0.0.0"]).plain_http == ("0.0.0.0", 1)


@pytest.mark.parametrize(
    "argv, logged", [(("--port=10252",), True), (("--address=0.0.0.0",), False), (("--port=0",), False), ((), False)]
)
def test_default_of_plain_http_on_loopback_is_logged(argv: tuple[str, ...], logged: bool) -> None:
    line = "Plain HTTP is served on 127.0.0.1 alone; --address=0.0.0.0 opens it to everybody"
    assert (line in parse_options(argv).warnings) is logged


def test_embedded_cluster_serves_https_on_loopback_and_replaces_a_used_port() -> None:
    logged = LogCapture()
    with contextlib.ExitStack() as closing:
        with contextlib.suppress(OSError):  # another process may have the port
            closing.enter_context(socket.create_server((LOOPBACK, 10257)))
        (address,) = closing.enter_context(running(embeds_cluster=True, logged=logged))
        assert address[0] == LOOPBACK
        assert address[1] != 10257
        assert over_https(address, "/healthz") == (200, "ok")
        (warning,) = [entry for entry in logged.entries if entry["log_level"] == "warning"]
        assert warning["event"] == "port is taken, serving on a free one"
        assert warning["address"] == f"{LOOPBACK}:10257"


def test_explicit_address_is_not_replaced() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        for flags in ((f"--secure-port={port}",), (f"--secure-port={port}", f"--bind-address={LOOPBACK}")):
            with pytest.raises(ServingError, match="Address already in use"), running(*flags, embeds_cluster=True):
                pass
    with running(f"--secure-port={port}", embeds_cluster=False) as (address,):
        assert address == ("0.0.0.0", port)


def test_profiling_can_be_switched_off() -> None:
    (port,) = free_ports(1)
    flags = ("--secure-port=0", f"--address={LOOPBACK}", f"--port={port}")
    with running(*flags) as (plain,):
        assert over_http(plain, "/debug/pprof/")[0] == 200
    with running(*flags, "--profiling=false") as (plain,):
        assert over_http(plain, "/debug/pprof/")[0] == 404


@pytest.mark.parametrize(
    "gate, path, other", [("ComponentFlagz", "/flagz", "/statusz"), ("ComponentStatusz", "/statusz", "/flagz")]
)
def test_pages_of_the_component_can_be_switched_off(gate: str, path: str, other: str) -> None:
    (port,) = free_ports(1)
    flags = ("--secure-port=0", f"--port={port}")
    with running(*flags) as (plain,):
        assert over_http(plain, path)[0] == 200
    with running(*flags, f"--feature-gates={gate}=false") as (plain,):
        assert over_http(plain, path)[0] == 404
        status, shown = over_http(plain, other)
        assert status == 200
        assert path not in shown


def test_always_allowed_paths_can_be_extended() -> None:
    (port,) = free_ports(1)
    paths = "--authorization-always-allow-paths=/healthz,/metrics*"
    with running(f"--bind-address={LOOPBACK}", f"--secure-port={port}", paths) as (secure,):
        assert over_https(secure, "/metrics/slis")[0] == 200
        assert over_https(secure, "/configz")[0] == 403


def test_nothing_is_served_without_ports() -> None:
    assert server_for("--secure-port=0") is None


def test_missing_certificate_is_named() -> None:
    with pytest.raises(TlsError, match=r"^/nowhere/c: No such file or directory$"):
        server_for("--tls-cert-file=/nowhere/c", "--tls-private-key-file=/nowhere/k")


@pytest.mark.parametrize(
    "flags, fault",
    [
        (("--tls-cipher-suites=TLS_NULL",), "Cipher suite TLS_NULL not supported"),
        (("--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA",), "does not offer TLS_RSA_WITH_RC4_128_SHA"),
        (("--tls-curve-preferences=1",), "curve preference 1 is not supported"),
        (("--tls-sni-cert-key=/nowhere/c,/nowhere/k",), "/nowhere/c: No such file or directory"),
        (("--client-ca-file=/nowhere/ca",), "/nowhere/ca: No such file or directory"),
        (("--requestheader-client-ca-file=/nowhere/ca",), "/nowhere/ca: No such file or directory"),
    ],
)
def test_unavailable_tls_settings_are_refused_and_not_weakened(flags: tuple[str, ...], fault: str) -> None:
    with pytest.raises(TlsError, match=fault):
        server_for(*flags)


def test_flags_that_harden_tls_work(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    default, named = (authority.issue(name, names=(name,)) for name in ("localhost", "kcm.example"))
    (port,) = free_ports(1)
    flags = (
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={default.certificate}",
        f"--tls-private-key-file={default.key}",
        f"--tls-sni-cert-key={named.certificate},{named.key}",
        "--tls-min-version=VersionTLS13",
        "--tls-curve-preferences=24",
        f"--client-ca-file={authority.file}",
    )
    assert not [line for line in parse_options(flags).warnings if "no effect" in line]
    admin = client_context(trusts=authority.file, pair=authority.issue("root", groups=("system:masters",)))
    with running(*flags):
        for name, path in (("localhost", "/metrics"), ("kcm.example", "/configz")):
            connection = http.client.HTTPSConnection(name, port, timeout=10, context=admin)
            connection._create_connection = lambda _address, *rest: socket.create_connection((LOOPBACK, port), *rest)  # type: ignore[attr-defined]
            assert get(connection, path)[0] == 200
        older, other_curve = client_context(), client_context()
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        other_curve.set_ecdh_curve("prime256v1")
        for refused in (older, other_curve):
            with pytest.raises(ssl.SSLError):
                get(http.client.HTTPSConnection(LOOPBACK, port, timeout=10, context=refused), "/healthz")
