"""Directory in which the `kube-apiserver` of envtest stores its objects, and how it finds the directory.

The program `etcd` serves the fields of EtcdDirectory at PATH. The API server reads them from the URL in --etcd-servers,
and stores its objects in that directory. They outlive both programs, but not the directory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import quote, urlsplit

from msgspec import Struct

from kcm.runtime.scheduling.clock import Clock

PATH = "/kcm/directory"
WITHIN = 30.0  # seconds; suites start etcd and kube-apiserver at the same time
RETRY_AFTER = 0.05  # seconds
TIMEOUT = 5.0  # seconds for one request
LONGEST_RESPONSE = 64 * 1024  # bytes


class EtcdUnusableError(Exception):
    """No etcd of `run-kcm envtest` responds at the URL. The text is one line for the user."""


class EtcdDirectory(Struct, frozen=True, kw_only=True):
    """Directory in which API servers store their objects.

    directory: the etcd's --data-dir
    durable: writes are on disk when they are acknowledged; false with --unsafe-no-fsync
    """

    directory: str
    durable: bool

    def place(self, prefix: str) -> Path:
        """Return the directory of the API servers with this --etcd-prefix."""
        return Path(self.directory) / "kcm" / (quote(prefix.strip("/"), safe="") or "registry")


def find_directory(url: str, *, clock: Clock, sleep: Callable[[float], object]) -> EtcdDirectory:
    """Request the directory of an etcd until it responds. Raises EtcdUnusableError."""
    try:
        host, port = http_address(url)
    except ValueError as err:
        raise EtcdUnusableError(f"--etcd-servers: {err}") from err
    end = clock.monotonic() + WITHIN
    while True:
        try:
            status, body = _get(host, port)
            break
        except (OSError, HTTPException) as err:
            if clock.monotonic() >= end:
                raise EtcdUnusableError(f"--etcd-servers: no etcd responds at {url}: {err}") from err
        sleep(RETRY_AFTER)
    try:
        fields = json.loads(body) if status == 200 else {}
        return EtcdDirectory(directory=str(fields["directory"]), durable=bool(fields["durable"]))
    except (ValueError, KeyError, TypeError) as err:
        raise EtcdUnusableError(
            f"--etcd-servers: {url} is not the etcd of `run-kcm envtest`, and this kube-apiserver can use no other"
        ) from err


def _get(host: str, port: int) -> tuple[int, bytes]:
    """Return status and body of the page at PATH. Raises OSError and HTTPException."""
    connection = HTTPConnection(host, port, timeout=TIMEOUT)
    try:
        connection.request("GET", PATH)
        response = connection.getresponse()
        return response.status, response.read(LONGEST_RESPONSE)
    finally:
        connection.close()


def http_address(url: str) -> tuple[str, int]:
    """Return host and port of an http:// URL. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        raise ValueError(f"only http is supported here, not {url}")
    if parts.scheme != "http" or not parts.hostname or parts.port is None:
        raise ValueError(f"expected http://HOST:PORT, got {url}")
    return parts.hostname, parts.port


def is_url(text: str) -> bool:
    """Report whether the text is a URL, as Go's url.Parse accepts one with a colon."""
    try:
        return bool(urlsplit(text).scheme)
    except ValueError:
        return False
