"""A client that sends requests over several connections as fast as the server responds, and one that only watches."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pycurl
import yaml

JSON = "application/json"


class HttpRequest(NamedTuple):
    """Request to send."""

    method: str
    path: str  # with its query
    body: bytes = b""
    content_type: str = JSON


@dataclass(slots=True)
class Responses:
    """Figures of the responses to a sequence of requests."""

    latencies: list[float] = field(default_factory=list)  # seconds, in no order
    received: float = 0.0  # bytes of all bodies

    def percentile(self, share: float) -> float:
        """Return a percentile of the latencies in ms. `share` is in [0, 1]."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


@dataclass(frozen=True, slots=True)
class Access:
    """Address of a server, and the token to send."""

    server: str
    token: str

    @classmethod
    def read(cls, kubeconfig: Path) -> Access:
        config = yaml.safe_load(kubeconfig.read_text())
        return cls(config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"])

    def handle(self) -> pycurl.Curl:
        """Return a handle for HTTP/1.1 over TLS. It does not verify certificates: the server's work is the same."""
        handle = pycurl.Curl()
        handle.setopt(pycurl.SSL_VERIFYPEER, 0)
        handle.setopt(pycurl.SSL_VERIFYHOST, 0)
        handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        return handle

    def prepare(self, handle: pycurl.Curl, request: HttpRequest, *, accept: str = JSON) -> pycurl.Curl:
        """Set the handle up for a request, and return it."""
        headers = [f"Authorization: Bearer {self.token}", f"Accept: {accept}", "Expect:"]
        if request.body:
            headers.append(f"Content-Type: {request.content_type}")
            handle.setopt(pycurl.POSTFIELDS, request.body)
        else:
            handle.setopt(pycurl.HTTPGET, 1)
        handle.setopt(pycurl.CUSTOMREQUEST, request.method)
        handle.setopt(pycurl.HTTPHEADER, headers)
        handle.setopt(pycurl.URL, f"{self.server}{request.path}")
        return handle


class Client:
    """Client that keeps its connections from one call to the next."""

    def __init__(self, access: Access, *, connections: int) -> None:
        self._access, self._multi = access, pycurl.CurlMulti()
        self._free = [access.handle() for _ in range(connections)]

    def send(self, requests: Sequence[HttpRequest]) -> Responses:
        """Send the requests in order, and wait for all responses. Raises RuntimeError if a request is rejected."""
        waiting, responses, left = [*reversed(requests)], Responses(), len(requests)
        while left:
            while waiting and self._free:
                handle, request = self._free.pop(), waiting.pop()
                # Only the start of the body is kept, for the error.
                handle.request, handle.start = request, b""
                handle.setopt(pycurl.WRITEFUNCTION, _start_writer(handle))
                self._multi.add_handle(self._access.prepare(handle, request))
            self._multi.select(1.0)
            while self._multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
                pass
            _, ended, failed = self._multi.info_read()
            if failed:
                raise RuntimeError(f"{failed[0][0].request.method} {failed[0][0].request.path}: {failed[0][2]}")
            for handle in ended:
                if not 200 <= (status := handle.getinfo(pycurl.RESPONSE_CODE)) < 300:
                    raise RuntimeError(f"{handle.request.method} {handle.request.path}: {status} {handle.start!r}")
                responses.latencies.append(handle.getinfo(pycurl.TOTAL_TIME))
                responses.received += handle.getinfo(pycurl.SIZE_DOWNLOAD)
                self._multi.remove_handle(handle)
                self._free.append(handle)
                left -= 1
        return responses

    def read(self, path: str, *, accept: str = JSON) -> bytes:
        """Return the body of a GET. Raises RuntimeError if the status is not 200."""
        body: list[bytes] = []
        handle = self._access.prepare(self._access.handle(), HttpRequest("GET", path), accept=accept)
        handle.setopt(pycurl.WRITEFUNCTION, body.append)
        handle.perform()
        status = handle.getinfo(pycurl.RESPONSE_CODE)
        handle.close()
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {b''.join(body)[:300]!r}")
        return b"".join(body)


def _start_writer(handle: pycurl.Curl) -> object:
    def write(data: bytes) -> None:
        if not handle.start:
            handle.start = data[:300]

    return write


class Watchers:
    """Watches of the same path, read by one thread. Events are counted and discarded."""

    def __init__(self, access: Access, path: str, *, count: int) -> None:
        self._multi, self._handles = pycurl.CurlMulti(), [access.handle() for _ in range(count)]
        self._lines = [0] * count
        self._wanted, self._reached, self._ended = 0, threading.Event(), threading.Event()
        for number, handle in enumerate(self._handles):
            access.prepare(handle, HttpRequest("GET", path))
            handle.setopt(pycurl.WRITEFUNCTION, self._line_counter(number))
            self._multi.add_handle(handle)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watchers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for handle in self._handles:
            self._multi.remove_handle(handle)
            handle.close()

    def wait_for(self, events: int, *, within: float) -> None:
        """Wait until each watch has received `events` events since it began. Raises TimeoutError after `within` s."""
        self._wanted = events
        self._reached.clear()
        self._check()
        if not self._reached.wait(within):
            raise TimeoutError(f"a watch has {min(self._lines)} events of {events} after {within:.0f} s")

    def _line_counter(self, number: int) -> object:
        def write(data: bytes) -> None:
            self._lines[number] += data.count(b"\n")

        return write

    def _check(self) -> None:
        if min(self._lines) >= self._wanted:
            self._reached.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            while self._multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
                pass
            self._check()
            self._multi.select(0.05)
