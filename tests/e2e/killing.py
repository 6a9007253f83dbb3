"""An API server that is killed under load, again and again, and what its clients may expect of the one after it.

    python -m tests.e2e.killing --rounds 200

A round: writers, a reader and watchers work, the server's process is killed at a moment that the seed draws, another
one starts on what is on the disk, and is held to what clients saw of the one before.
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
    """One connection. Raises one of BROKEN once the server is gone."""

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
        """The response, to be read."""
        raw = None if body is None else json.dumps(body)
        self.connection.request(method, path, raw, {**self._headers, "Content-Type": type})
        self._response = self.connection.getresponse()
        return self._response

    def ask(self, method: str, path: str, body: Object | None = None, **more: Any) -> tuple[int, Object]:
        response = self.send(method, path, body, **more)
        return response.status, json.loads(response.read())


@dataclass
class Writer:
    """Writes objects of its own. held: what was acknowledged; doubtful: a write without an answer, by name.

    An object is its number; None is one that is not there.
    """

    name: str
    chance: random.Random
    held: dict[str, int | None] = field(default_factory=dict)
    doubtful: dict[str, int | None] = field(default_factory=dict)
    newest: int = 0  # version that it saw
    acknowledged: int = 0
    _number: int = 0

    def work(self, api: Api) -> None:
        with Client(api) as client:
            while True:
                self._act(client)

    def _act(self, client: Client) -> None:
        name = f"{self.name}-{self.chance.randrange(20)}"
        self._number += 1
        wanted = None if self.held.get(name) is not None and self.chance.random() < 0.3 else self._number
        self.doubtful[name] = wanted
        status, answer = self._write(client, name, wanted)
        if status not in (200, 201):
            raise AssertionError(f"{name}: {status} {answer}")
        del self.doubtful[name]
        self.held[name] = wanted
        self.acknowledged += 1
        self.newest = max(self.newest, version_of(answer) if wanted is not None else 0)

    def _write(self, client: Client, name: str, wanted: int | None) -> tuple[int, Object]:
        body: Object = {"metadata": {"name": name}, "data": {"number": str(wanted), "blob": "x" * 2000}}
        if wanted is None:
            return client.ask("DELETE", f"{PATH}/{name}")
        if self.held.get(name) is None:
            return client.ask("POST", PATH, body)
        if self.chance.random() < 0.5:
            return client.ask("PUT", f"{PATH}/{name}", body)
        return client.ask("PATCH", f"{PATH}/{name}", {"data": body["data"]}, type="application/merge-patch+json")

    def check(self, there: dict[str, int]) -> None:
        """Compare with the next server, after which no write has an unknown outcome. there: number by name."""
        for name in {*self.held, *self.doubtful}:
            found = there.get(name)
            allowed = [self.held.get(name)]
            if name in self.doubtful:
                allowed.append(self.doubtful[name])
            if found not in allowed:
                raise AssertionError(f"{name} is {found}, and was {' or '.join(map(str, allowed))}")
            self.held[name] = found
        self.doubtful.clear()


@dataclass
class Reader:
    """Lists. newest: the version that it saw."""

    newest: int = 0

    def work(self, api: Api) -> None:
        with Client(api) as client:
            while True:
                _, listed = client.ask("GET", f"{PATH}?limit=3")
                if version_of(listed) < self.newest:
                    raise AssertionError(f"a list of version {version_of(listed)} after one of {self.newest}")
                self.newest = version_of(listed)


@dataclass
class Watcher:
    """Keeps what a watch showed. It goes on where it was, or lists again after 410. relisted: how often."""

    seen: dict[str, int] = field(default_factory=dict)
    newest: int = 0
    relisted: int = 0

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
        """Work until the server is killed. failures: what no client may see."""
        api = Api(server.kubeconfig)
        workers = [*(one.work for one in self.writers), self.reader.work, *(one.work for one in self.watchers)]
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
        saw = max(one.newest for one in (*self.writers, *self.watchers, self.reader))
        if version_of(listed) < saw:
            raise AssertionError(f"the newest version is {version_of(listed)}, and a client saw {saw}")
        _, last = client.ask("POST", PATH, {"metadata": {"generateName": "last-"}, "data": {"number": "0"}})
        name = last["metadata"]["name"]
        if version_of(last) <= saw:
            raise AssertionError(f"a version is given twice: {version_of(last)} after {saw}")
        for watcher in self.watchers:
            before = watcher.relisted
            watcher.work(api, until=lambda one: name in one.seen)
            self.counted["watches that went on" if watcher.relisted == before else "watches that were told 410"] += 1
            expected = {item["metadata"]["name"]: version_of(item) for item in [*listed["items"], last]}
            if watcher.seen != expected:
                raise AssertionError(f"a watcher is left with {watcher.seen}, not {expected}")
        client.ask("DELETE", f"{PATH}/{name}")
        if self.failures:
            raise AssertionError("; ".join(self.failures))


def kill_again_and_again(directory: Path, *, rounds: int, seed: int) -> Counter[str]:
    """Returns what was counted. Raises AssertionError where a promise is broken."""
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
        print(dict(kill_again_and_again(Path(directory) / "kcm", rounds=arguments.rounds, seed=arguments.seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
