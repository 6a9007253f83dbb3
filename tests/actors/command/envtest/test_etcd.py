"""The program `etcd` of envtest: its flags and pages, and how the API server finds its directory."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kcm.actors.command.envtest.etcd import EtcdPages, main, read_flags
from kcm.runtime.envtest.etcd_directory import PATH, WITHIN, EtcdDirectory, EtcdUnusableError, find_directory
from kcm.runtime.flags.declaration import FlagError
from kcm.runtime.simulation.clock import VirtualClock


class Requested:
    def __init__(self, path: str) -> None:
        self.path = path


def page(pages: EtcdPages, path: str) -> tuple[int, bytes]:
    found = asyncio.run(pages.page(Requested(path)))  # type: ignore[arg-type]
    return found.status, found.body


def test_flags_may_begin_with_a_single_dash() -> None:
    flags = read_flags(["-data-dir", "/x", "--listen-client-urls=http://127.0.0.1:1,http://127.0.0.1:2", "-wal-dir=/y"])
    assert (flags.data_dir, flags.listen_client_urls) == ("/x", ("http://127.0.0.1:1", "http://127.0.0.1:2"))


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["--foo"], "unknown flag: --foo"),
        (["serve"], "'serve' is not a valid flag"),
        (["--listen-client-urls=https://127.0.0.1:1"], "only http is supported here"),
        (["--listen-client-urls=127.0.0.1:1"], "expected http://HOST:PORT"),
        (["--listen-client-urls=http://127.0.0.1:65536"], "Port out of range"),
    ],
)
def test_invalid_flag_is_an_error(argv: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 1
    assert error in capsys.readouterr().err
    with pytest.raises(FlagError):
        read_flags(["--no-such-flag"])


def test_pages_report_health_version_and_directory(tmp_path: Path) -> None:
    pages = EtcdPages(tmp_path, durable=True)
    assert page(pages, "/health") == (200, b'{"health": "true", "reason": ""}')
    assert json.loads(page(pages, "/version")[1])["etcdserver"].startswith("3.")
    assert json.loads(page(pages, PATH)[1]) == {"directory": str(tmp_path), "durable": True}
    assert page(pages, "/readyz") == (200, b"ok\n")
    assert page(pages, "/v3/kv/range")[0] == 404


def test_prefixes_have_directories_of_their_own() -> None:
    found = EtcdDirectory(directory="/data", durable=False)
    assert found.place("/registry") == Path("/data/kcm/registry")
    assert found.place("/a/../b") == Path("/data/kcm/a%2F..%2Fb")
    assert found.place("") == found.place("/registry")


@pytest.fixture
def other_program() -> Iterator[str]:
    """Return the URL of another HTTP server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_another_etcd_is_refused_at_once(other_program: str) -> None:
    clock = VirtualClock()
    with pytest.raises(EtcdUnusableError, match="is not the etcd of `run-kcm envtest`"):
        find_directory(other_program, clock=clock, sleep=pytest.fail)


def test_missing_etcd_is_reported_after_a_while() -> None:
    clock = VirtualClock()
    begun = clock.monotonic()

    def sleep(seconds: float) -> None:
        clock.advance_to(clock.monotonic() + seconds)

    with pytest.raises(EtcdUnusableError, match=r"no etcd responds at http://127\.0\.0\.1:1"):
        find_directory("http://127.0.0.1:1", clock=clock, sleep=sleep)
    assert clock.monotonic() - begun == pytest.approx(WITHIN, abs=1.0)
