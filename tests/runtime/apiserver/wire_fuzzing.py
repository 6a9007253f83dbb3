"""Random bytes on the sockets of an embedded API server, and limits of their cost in memory and in delay of others.

    python -m tests.runtime.apiserver.wire_fuzzing --minutes 30 --seed 1

Unlike fuzzing.py, which draws requests, this draws the bytes of connections: heads with many or long lines, random
targets, tokens and media types, bodies in chunks of any size, trailers, incomplete and pipelined requests, in pieces of
any size, by clients that read everything, a little, or nothing. The oracles are the memory of the server's process, and
the time that another client waits for a small response.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api

MB = 1_000_000
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
OTHERS = "/api/v1/namespaces/kube-system/configmaps"  # nothing here deletes them
STORED = 16  # objects of 600 kB, so that a list has some 10 MB
PER_ROUND = 40  # connections, which stay open until the round ends
AT_ONCE = 4  # of them that are active
MOST_PIECES = 5000  # sent by one connection
PATIENCE = 0.2  # seconds that an attacker waits to send, or for a response
MOST_GROWTH = 200 * MB  # of the process, after a round whose connections are closed
SETTLED = 5.0  # seconds until the growth must be below MOST_GROWTH
MOST_PEAK = 700 * MB  # during a round
# Maximum wait of another client, in CPU seconds of the server: on a busy machine only the wall time is longer.
MOST_LATENCY = 1.0
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PATHS = (
    "/healthz",
    "/livez/ping",
    "/version",
    "/api",
    "/apis",
    CONFIG_MAPS,
    "/api/v1/pods",
    "/openapi/v3",
    "/nothing",
)


class BrokenPromiseError(Exception):
    """The server took too much memory, or let another client wait too long; the text states which and how much."""


@dataclass
class Figures:
    rounds: int = 0
    connections: int = 0
    sent: int = 0  # bytes
    statuses: Counter[str] = field(default_factory=Counter)
    baseline: int = 0  # bytes of the process
    peak: int = 0
    growth: int = 0
    latency: float = 0.0  # maximum, in CPU seconds of the server
    wall: float = 0.0  # maximum, in seconds
    probes: int = 0

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds, {self.connections} connections, {self.sent / MB:.0f} MB sent, "
            f"{self.probes} requests of another client, the slowest took {self.latency:.2f} s of the server's "
            f"processor, {self.wall:.2f} s in all; "
            f"memory {self.baseline / MB:.0f} MB at first, {self.peak / MB:.0f} MB at most, "
            f"{self.growth / MB:+.0f} MB after all connections were closed; "
            f"statuses {dict(sorted(self.statuses.items()))}"
        )


class Attack:
    """Bytes of one connection, drawn from `chance`."""

    def __init__(self, chance: random.Random, token: str) -> None:
        self.chance, self.token = chance, token
        self.reads = chance.random()  # amount of a response that is read: everything above 1/2, nothing below 1/3
        self.piece = self.any_of(1, 100, 1400, 60_000, 10 * MB, 10 * MB, 10 * MB)

    def any_of(self, *choices: Any) -> Any:
        return choices[int(self.chance.random() * len(choices))]

    def seldom(self, part: float = 0.2) -> bool:
        return self.chance.random() < part

    def count(self, most: int) -> int:
        """Return a random number whose order of magnitude is evenly distributed."""
        return int(most ** self.chance.random())

    def text(self, length: int) -> str:
        """Return a unique random text."""
        start = "".join(self.chance.choices(_LETTERS, k=12))
        return (start + self.any_of("x", "a,", "a/b,", "a&", "%41", "'") * length)[:length]

    def bytes(self) -> bytes:
        count = self.count(2000) if self.seldom() else 1
        requests = [self.request() for _ in range(min(count, 3))]
        whole = b"".join(requests) + requests[-1] * min(count - len(requests), 8 * MB // len(requests[-1]))
        if self.seldom():
            whole = whole[: self.count(len(whole))]
        if self.seldom(0.05):
            whole = self.chance.randbytes(self.count(200_000)) + whole
        return whole[: min(8 * MB, MOST_PIECES * self.piece)]

    def request(self) -> bytes:
        method = self.any_of("GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
        lines = [*self.lines()]
        head = f"{method} {self.target()} HTTP/{self.any_of('1.1', '1.1', '1.1', '1.0')}\r\n"
        if method in ("POST", "PUT", "PATCH") or self.seldom(0.1):
            body_lines, body = self.body()
            lines += body_lines
        else:
            body = b""
        return (head + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode() + body

    def target(self) -> str:
        path = self.any_of(*_PATHS)
        if self.seldom():
            return f"{CONFIG_MAPS}{self.any_of('', '', '?watch=1')}"
        if self.seldom():
            path += "/" + self.text(self.count(900_000))
        if self.seldom(0.4):
            name = self.any_of("labelSelector=", "fieldSelector=", "watch=1&x=", "limit=", "continue=", "", "dryRun=")
            path += f"?{name}{self.text(self.count(900_000))}"
        return str(path)

    def lines(self) -> Iterator[str]:
        if not self.seldom(0.05):
            yield f"Host: {self.any_of('localhost', '127.0.0.1:6443', self.text(self.count(100)))}"
        match self.any_of("known", "known", "unknown", "wrong"):
            case "known":
                yield f"Authorization: Bearer {self.token}"
            case "wrong":
                yield f"Authorization: Bearer {self.text(self.count(900_000))}"
        for name in ("Accept", "User-Agent", "Content-Type", "If-None-Match", "Impersonate-User", "X-Forwarded-For"):
            if self.seldom(0.15):
                yield f"{name}: {self.text(self.count(500_000))}"
        if self.seldom():
            yield "Accept-Encoding: gzip"
        if self.seldom(0.3):
            names = [self.any_of("a", "Accept", "Impersonate-Group", self.text(8)) for _ in range(5)]
            values = ["", "b", self.text(self.count(1000))]
            block = [f"{self.any_of(*names)}: {self.any_of(*values)}" for _ in range(min(self.count(100_000), 50))]
            yield from block * min(self.count(100_000) // len(block) + 1, 2 * MB // sum(map(len, block)))

    def body(self) -> tuple[list[str], bytes]:
        """Return the header lines of a body, and the bytes after the head."""
        size = self.count(4 * MB)
        if self.seldom(0.5):
            return [f"Content-Length: {self.any_of(size, size, size * 2, 10**12)}"], b"{" * size
        chunk = self.any_of(1, 2, 100, 65_536)
        extension = f";{self.text(self.count(300_000))}" if self.seldom() else ""
        whole = f"{chunk:x}{extension}\r\n{'[' * chunk}\r\n" * min(
            size // chunk, 6 * MB // (chunk + 8 + len(extension))
        )
        trailers = f"{self.any_of('aa', 'Impersonate-User')}: {self.text(5)}\r\n" * self.count(200_000)
        if self.seldom():
            trailers = f"a: {self.text(self.count(4 * MB))}\r\n"
        end = f"0\r\n{trailers if self.seldom(0.5) else ''}\r\n"
        return ["Transfer-Encoding: chunked"], (whole + (end if self.seldom(0.7) else "")).encode()


class Target:
    """A server in a separate process."""

    def __init__(self, directory: Path) -> None:
        self.server = launch(ServerSettings(directory=directory, in_memory=True))
        self.api = Api(self.server.kubeconfig)
        host, port = self.api.url.removeprefix("https://").split(":")
        self.host, self.port = host, int(port)
        assert isinstance(self.api.tls, ssl.SSLContext)
        self.tls = self.api.tls
        self.process = self.server.child.pid

    def memory(self) -> int:
        """Return the resident memory of the process in bytes."""
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(self.process)], capture_output=True, check=True)
        return int(shown.stdout) * 1024

    def processor(self) -> float:
        """Return the CPU seconds of the process, or the time where they cannot be read."""
        try:
            fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connect(self) -> ssl.SSLSocket:
        made = socket.create_connection((self.host, self.port), timeout=60)
        return self.tls.wrap_socket(made, server_hostname=self.host)

    def ask(self, method: str, path: str, body: Any = None) -> int:
        """Send a request on a new connection, and return the status."""
        connection = http.client.HTTPSConnection(self.host, self.port, context=self.tls, timeout=120)
        try:
            headers = {"Authorization": f"Bearer {self.api.token}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else orjson.dumps(body), headers)
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()

    def stop(self) -> None:
        self.server.stop()


class OtherClient:
    """Client that sends small requests continuously, and records the longest latency."""

    def __init__(self, target: Target) -> None:
        self.worst, self.worst_wall, self.count, self.failure = 0.0, 0.0, 0, ""
        self._target, self._is_over = target, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(0.02):
            began, taken = time.monotonic(), self._target.processor()
            try:
                status = self._target.ask("GET", f"{OTHERS}/small")
            except OSError as err:
                self.failure = self.failure or f"another client's request failed: {err!r}"
                continue
            self.worst = max(self.worst, self._target.processor() - taken)
            self.worst_wall = max(self.worst_wall, time.monotonic() - began)
            self.count += 1
            if status != 200:
                self.failure = self.failure or f"another client's request was answered with {status}"

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


def carry_out(attack: Attack, connection: ssl.SSLSocket) -> tuple[int, str]:
    """Send the bytes of an attack. Returns their number, and the status of the first response or "-"."""
    connection.settimeout(PATIENCE)
    sent, data = 0, attack.bytes()
    try:
        for at in range(0, len(data), attack.piece):
            connection.sendall(data[at : at + attack.piece])
            sent = min(at + attack.piece, len(data))
    except OSError:  # the server has stopped reading, or closed the connection
        pass
    if attack.reads < 1 / 3:
        return sent, "-"
    received = b""
    with contextlib.suppress(OSError):
        while part := connection.recv(65_536):
            received = received or part
            if attack.reads < 1 / 2:
                break
    status = received.split(b" ")[1:2] if received.startswith(b"HTTP/") else []
    return sent, status[0].decode(errors="replace") if status else "-"


def run(
    target: Target,
    *,
    seed: int,
    is_over: Callable[[Figures], bool],
    most_latency: float | None = MOST_LATENCY,
    per_round: int = PER_ROUND,
) -> Figures:
    """Run the attacks. Raises BrokenPromiseError. `most_latency`: see MOST_LATENCY; None only requires responses."""
    target.ask("POST", OTHERS, {"metadata": {"name": "small"}})
    for number in range(STORED):
        target.ask("POST", CONFIG_MAPS, {"metadata": {"name": f"large-{number}"}, "data": {"a": "x" * 600_000}})
        target.ask("GET", CONFIG_MAPS)
    figures = Figures(baseline=target.memory())
    other = OtherClient(target)
    try:
        while not is_over(figures):
            name = f"round {figures.rounds} of seed {seed}"
            _round(target, random.Random(f"{seed} {figures.rounds}"), figures, per_round)
            figures.latency, figures.wall, figures.probes = other.worst, other.worst_wall, other.count
            if other.failure:
                raise BrokenPromiseError(f"{name}: {other.failure}; {figures}")
            if most_latency is not None and other.worst > most_latency:
                raise BrokenPromiseError(
                    f"{name}: another client waited for {other.worst:.2f} s of the processor; {figures}"
                )
            if figures.peak - figures.baseline > MOST_PEAK:
                raise BrokenPromiseError(f"{name}: the server took {figures.peak / MB:.0f} MB; {figures}")
            if figures.growth > MOST_GROWTH:
                raise BrokenPromiseError(f"{name}: the server kept {figures.growth / MB:.0f} MB; {figures}")
    finally:
        other.stop()
    return figures


def _round(target: Target, chance: random.Random, figures: Figures, per_round: int) -> None:
    held = list[ssl.SSLSocket]()

    def attack(own: random.Random) -> tuple[int, str]:
        try:
            connection = target.connect()
        except OSError as err:
            raise BrokenPromiseError(f"no connection could be made: {err!r}; {figures}") from err
        held.append(connection)
        return carry_out(Attack(own, target.api.token), connection)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for done in [threads.submit(attack, random.Random(chance.random())) for _ in range(per_round)]:
            while not wait([done], timeout=0.1).done:
                figures.peak = max(figures.peak, target.memory())
            sent, status = done.result()
            figures.connections += 1
            figures.sent += sent
            figures.statuses[status] += 1
    figures.peak = max(figures.peak, target.memory())
    for connection in held:
        connection.close()
    figures.rounds += 1
    until = time.monotonic() + SETTLED
    while True:
        target.ask("GET", f"{OTHERS}/small")
        figures.growth = target.memory() - figures.baseline
        if figures.growth <= MOST_GROWTH or time.monotonic() > until:
            break
        time.sleep(0.2)


def main() -> int:
    parser = argparse.ArgumentParser(description="Random bytes; exit code 1 if they cost too much memory or time.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--latency", type=float, default=MOST_LATENCY, help="seconds that another client may wait")
    arguments = parser.parse_args()
    ends = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as directory:
        target = Target(Path(directory) / "kcm")
        try:
            figures = run(
                target, seed=arguments.seed, is_over=lambda _: time.monotonic() > ends, most_latency=arguments.latency
            )
        except BrokenPromiseError as err:
            print(err)
            return 1
        finally:
            target.stop()
    print(figures)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
