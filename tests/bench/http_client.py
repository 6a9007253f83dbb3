"""A client that plays requests over so many connections, as fast as the server answers, and one that only watches."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pycurl
import yaml

JSON = "application/json"


class Play(NamedTuple):
    """One request. path: with its query."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON


@dataclass(slots=True)
class Played:
    """What came of them. latencies: seconds of each, in no order. received: bytes of all bodies."""

    latencies: list[float] = field(default_factory=list)
    received: float = 0.0

    def percentile(self, share: float) -> float:
        """In ms."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


@dataclass(frozen=True, slots=True)
class Access:
    """As whom, and where."""

    server: str
    token: str

    @classmethod
    def read(cls, kubeconfig: Path) -> Access:
        config = yaml.safe_load(kubeconfig.read_text())
        return cls(config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"])

    def handle(self) -> pycurl.Curl:
        """HTTP/1.1 over TLS. Certificates are not checked: the server's work is the same."""
        handle = pycurl.Curl()
        handle.setopt(pycurl.SSL_VERIFYPEER, 0)
        handle.setopt(pycurl.SSL_VERIFYHOST, 0)
        handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        return handle

    def prepare(self, handle: pycurl.Curl, play: Play) -> pycurl.Curl:
        headers = [f"Authorization: Bearer {self.token}", "Accept: application/json", "Expect:"]
        if play.body:
            headers.append(f"Content-Type: {play.content_type}")
            handle.setopt(pycurl.POSTFIELDS, play.body)
        else:
            handle.setopt(pycurl.HTTPGET, 1)
        handle.setopt(pycurl.CUSTOMREQUEST, play.method)
        handle.setopt(pycurl.HTTPHEADER, headers)
        handle.setopt(pycurl.URL, f"{self.server}{play.path}")
        return handle


class Client:
    """Keeps its connections from one call to the next."""

    def __init__(self, access: Access, *, connections: int) -> None:
        self._access, self._multi = access, pycurl.CurlMulti()
        self._free = [access.handle() for _ in range(connections)]

    def play(self, plays: Sequence[Play]) -> Played:
        """All of them, the first ones first. Raises RuntimeError when one is refused."""
        waiting, played, left = [*reversed(plays)], Played(), len(plays)
        while left:
            while waiting and self._free:
                handle, play = self._free.pop(), waiting.pop()
                # The body is kept for the error, and thrown away otherwise.
                handle.play, handle.start = play, b""
                handle.setopt(pycurl.WRITEFUNCTION, _keeping_the_start(handle))
                self._multi.add_handle(self._access.prepare(handle, play))
            self._multi.select(1.0)
            while self._multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
                pass
            _, ended, failed = self._multi.info_read()
            if failed:
                raise RuntimeError(f"{failed[0][0].play.method} {failed[0][0].play.path}: {failed[0][2]}")
            for handle in ended:
                if not 200 <= (status := handle.getinfo(pycurl.RESPONSE_CODE)) < 300:
                    raise RuntimeError(f"{handle.play.method} {handle.play.path}: {status} {handle.start!r}")
                played.latencies.append(handle.getinfo(pycurl.TOTAL_TIME))
                played.received += handle.getinfo(pycurl.SIZE_DOWNLOAD)
                self._multi.remove_handle(handle)
                self._free.append(handle)
                left -= 1
        return played

    def read(self, path: str) -> bytes:
        """The body of one GET."""
        body: list[bytes] = []
        handle = self._access.prepare(self._access.handle(), Play("GET", path))
        handle.setopt(pycurl.WRITEFUNCTION, body.append)
        handle.perform()
        status = handle.getinfo(pycurl.RESPONSE_CODE)
        handle.close()
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {b''.join(body)[:300]!r}")
        return b"".join(body)


def _keeping_the_start(handle: pycurl.Curl) -> object:
    def write(data: bytes) -> None:
        if not handle.start:
            handle.start = data[:300]

    return write


class Watchers:
    """So many watches of one path, in a thread of its own; each event is counted and thrown away."""

    def __init__(self, access: Access, path: str, *, count: int) -> None:
        self._multi, self._handles = pycurl.CurlMulti(), [access.handle() for _ in range(count)]
        self._lines = [0] * count
        self._wanted, self._reached, self._ended = 0, threading.Event(), threading.Event()
        for number, handle in enumerate(self._handles):
            access.prepare(handle, Play("GET", path))
            handle.setopt(pycurl.WRITEFUNCTION, self._counting(number))
            self._multi.add_handle(handle)
        self._thread = threading.Thread(target=self._go_on)

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
        """Until each has received so many since the beginning."""
        self._wanted = events
        self._reached.clear()
        self._look()
        if not self._reached.wait(within):
            raise TimeoutError(f"a watch has {min(self._lines)} events of {events} after {within:.0f} s")

    def _counting(self, number: int) -> object:
        def write(data: bytes) -> None:
            self._lines[number] += data.count(b"\n")

        return write

    def _look(self) -> None:
        if min(self._lines) >= self._wanted:
            self._reached.set()

    def _go_on(self) -> None:
        while not self._ended.is_set():
            while self._multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
                pass
            self._look()
            self._multi.select(0.05)
