"""Repeated kills of an API server under load, and the guarantees that its clients have across restarts.

    python -m tests.e2e.server_kills --rounds 200

In each round, writers, a reader and watchers send requests, the server process is killed at a time drawn from the seed,
and another process starts with the data on disk. Its state must agree with what clients saw of the previous process.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import ssl
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kcm.runtime.apiserver.process.launch import EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api

PATH = "/api/v1/namespaces/default/configmaps"
WRITERS, WATCHERS = 4, 2
LATEST_KILL = 0.6  # seconds after the load began
GONE = 410
BROKEN = (OSError, http.client.HTTPException, ValueError)  # what a client sees of a server that is killed

Object = dict[str, Any]


def version_of(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


class Client:
    """Connection to the server. Raises one of BROKEN after the server was killed."""

    def __init__(self, api: Api) -> None:
        host, port = api.url.removeprefix("https://").split(":")
        assert isinstance(api.tls, ssl.SSLContext)
        self.connection = http.client.HTTPSConnection(host, int(port), context=api.tls, timeout=30)
        self._headers = {"Authorization": f"Bearer {api.token}"}
        self._response: http.client.HTTPResponse | None = None  # it has the connection where the server ends that

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        if self._response is not None:
            self._response.close()
        self.connection.close()

    def send(self, method: str, path: str, body: Object | None = None, *, type: str = "application/json") -> Any:
        """Send a request; return the response, which the caller must read."""
        raw = None if body is None else json.dumps(body)
        self.connection.request(method, path, raw, {**self._headers, "Content-Type": type})
        self._response = self.connection.getresponse()
        return self._response

    def ask(self, method: str, path: str, body: Object | None = None, **more: Any) -> tuple[int, Object]:
        response = self.send(method, path, body, **more)
        return response.status, json.loads(response.read())


@dataclass
class Writer:
    """Client that writes its own objects, each with a number as its content; None: the object does not exist."""

    name: str
    chance: random.Random
    acknowledged_state: dict[str, int | None] = field(default_factory=dict)  # by name
    unknown: dict[str, int | None] = field(default_factory=dict)  # writes without a response, by name
    newest: int = 0  # newest version in a response
    acknowledged: int = 0
    _number: int = 0

    def work(self, api: Api) -> None:
        with Client(api) as client:
            while True:
                self._act(client)

    def _act(self, client: Client) -> None:
        name = f"{self.name}-{self.chance.randrange(20)}"
        self._number += 1
        wanted = None if self.acknowledged_state.get(name) is not None and self.chance.random() < 0.3 else self._number
        self.unknown[name] = wanted
        status, answer = self._write(client, name, wanted)
        if status not in (200, 201):
            raise AssertionError(f"{name}: {status} {answer}")
        del self.unknown[name]
        self.acknowledged_state[name] = wanted
        self.acknowledged += 1
        self.newest = max(self.newest, version_of(answer) if wanted is not None else 0)

    def _write(self, client: Client, name: str, wanted: int | None) -> tuple[int, Object]:
        body: Object = {"metadata": {"name": name}, "data": {"number": str(wanted), "blob": "x" * 2000}}
        if wanted is None:
            return client.ask("DELETE", f"{PATH}/{name}")
        if self.acknowledged_state.get(name) is None:
            return client.ask("POST", PATH, body)
        if self.chance.random() < 0.5:
            return client.ask("PUT", f"{PATH}/{name}", body)
        return client.ask("PATCH", f"{PATH}/{name}", {"data": body["data"]}, type="application/merge-patch+json")

    def check(self, there: dict[str, int]) -> None:
        """Compare with the next server, after which no write has an unknown outcome. there: number by name."""
        for name in {*self.acknowledged_state, *self.unknown}:
            found = there.get(name)
            allowed = [self.acknowledged_state.get(name)]
            if name in self.unknown:
                allowed.append(self.unknown[name])
            if found not in allowed:
                raise AssertionError(f"{name} is {found}, and was {' or '.join(map(str, allowed))}")
            self.acknowledged_state[name] = found
        self.unknown.clear()


@dataclass
class Reader:
    """Client that lists objects."""

    newest: int = 0  # newest version in a response

    def work(self, api: Api) -> None:
        with Client(api) as client:
            while True:
                _, listed = client.ask("GET", f"{PATH}?limit=3")
                if version_of(listed) < self.newest:
                    raise AssertionError(f"a list of version {version_of(listed)} after one of {self.newest}")
                self.newest = version_of(listed)


@dataclass
class Watcher:
    """Client with a watch, which it resumes at the last version, or after a new list if the server returns 410."""

    seen: dict[str, int] = field(default_factory=dict)
    newest: int = 0
    relisted: int = 0  # number of lists after 410

    def work(self, api: Api, until: Callable[[Watcher], bool] = lambda _: False) -> None:
        """Watch, with relists, until the condition is true."""
        if self.newest == 0:
            self._list(api)
        while not until(self):
            with Client(api) as client:
                response = client.send("GET", f"{PATH}?watch=1&resourceVersion={self.newest}")
                if self._follow(response, until):
                    self.relisted += 1
                    self._list(api)

    def _follow(self, response: Any, until: Callable[[Watcher], bool]) -> bool:
        """Read events until the condition is true. Returns True if a relist is needed instead."""
        for line in response:
            event = json.loads(line)
            if event["type"] == "ERROR":
                if event["object"]["code"] != GONE:
                    raise AssertionError(f"a watch ended with {event}")
                return True
            self._take(event)
            if until(self):
                return False
        raise OSError("the watch has ended")

    def _list(self, api: Api) -> None:
        with Client(api) as client:
            _, listed = client.ask("GET", PATH)
        if version_of(listed) < self.newest:
            raise AssertionError(f"a list of version {version_of(listed)} after an event of {self.newest}")
        self.seen = {item["metadata"]["name"]: version_of(item) for item in listed["items"]}
        self.newest = version_of(listed)

    def _take(self, event: Object) -> None:
        version, name = version_of(event["object"]), event["object"]["metadata"]["name"]
        if version <= self.newest:
            raise AssertionError(f"an event of version {version} after one of {self.newest}")
        self.newest = version
        if event["type"] == "DELETED":
            self.seen.pop(name, None)
        else:
            self.seen[name] = version


class Load:
    """Clients that continue over all rounds."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.writers = [Writer(f"w{i}", random.Random(seed * 100 + i)) for i in range(WRITERS)]
        self.watchers = [Watcher() for _ in range(WATCHERS)]
        self.reader = Reader()
        self.failures: list[str] = []
        self.counted = Counter[str]()

    def round(self, server: EmbeddedServer) -> None:
        """Send requests until the server is killed. Adds violations to `failures`."""
        api = Api(server.kubeconfig)
        workers = [
            *(client.work for client in self.writers),
            self.reader.work,
            *(client.work for client in self.watchers),
        ]
        threads = [threading.Thread(target=self._run, args=(work, api), daemon=True) for work in workers]
        for thread in threads:
            thread.start()
        threads[0].join(self.chance.uniform(0.0, LATEST_KILL))  # no writer ends before the server
        server.child.kill()
        for thread in threads:
            thread.join(30)
            if thread.is_alive():
                self.failures.append("a client hangs")

    def _run(self, work: Callable[[Api], None], api: Api) -> None:
        try:
            work(api)
        except AssertionError as err:
            self.failures.append(str(err))
        except BROKEN:
            return

    def check(self, server: EmbeddedServer) -> None:
        """Compare a server with what clients saw of the previous one. Raises AssertionError."""
        api = Api(server.kubeconfig)
        with Client(api) as client:
            self._check(api, client)

    def _check(self, api: Api, client: Client) -> None:
        _, listed = client.ask("GET", PATH)
        there = {item["metadata"]["name"]: int(item["data"]["number"]) for item in listed["items"]}
        for writer in self.writers:
            writer.check(there)
        saw = max(client.newest for client in (*self.writers, *self.watchers, self.reader))
        if version_of(listed) < saw:
            raise AssertionError(f"the newest version is {version_of(listed)}, and a client saw {saw}")
        _, last = client.ask("POST", PATH, {"metadata": {"generateName": "last-"}, "data": {"number": "0"}})
        name = last["metadata"]["name"]
        if version_of(last) <= saw:
            raise AssertionError(f"a version is given twice: {version_of(last)} after {saw}")
        for watcher in self.watchers:
            before = watcher.relisted
            watcher.work(api, until=lambda client: name in client.seen)
            self.counted["resumed watches" if watcher.relisted == before else "watches that got 410"] += 1
            expected = {item["metadata"]["name"]: version_of(item) for item in [*listed["items"], last]}
            if watcher.seen != expected:
                raise AssertionError(f"a watcher is left with {watcher.seen}, not {expected}")
        client.ask("DELETE", f"{PATH}/{name}")
        if self.failures:
            raise AssertionError("; ".join(self.failures))


def kill_repeatedly(directory: Path, *, rounds: int, seed: int) -> Counter[str]:
    """Return the counts of all rounds. Raises AssertionError if a guarantee is violated."""
    load = Load(seed)
    server = launch(ServerSettings(directory=directory, quiet=True))
    try:
        for number in range(rounds):
            load.round(server)
            server = launch(ServerSettings(directory=directory, quiet=True))
            try:
                load.check(server)
            except AssertionError as err:
                raise AssertionError(f"round {number} of seed {seed}: {err}") from err
    finally:
        server.child.kill()
    load.counted["rounds"] = rounds
    load.counted["acknowledged"] = sum(writer.acknowledged for writer in load.writers)
    return load.counted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(dict(kill_repeatedly(Path(directory) / "kcm", rounds=arguments.rounds, seed=arguments.seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
