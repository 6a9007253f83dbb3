"""One controller over many custom resources: ours, kopf's and controller-runtime's, one after the other on a server.

All three do the same: an Echo's status is to say what its spec says. kopf's is left out where it is not installed, that
of controller-runtime unless KCM_BENCH_ECHOES names a program that runs it, given a kubeconfig.
KCM_BENCH_OBJECTS: how many there are.
"""

from __future__ import annotations

import importlib.util
import math
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import orjson

from kcm.protocols.messages.commands import PatchType
from tests.bench.processes import Cluster, Hand, Process, scratch
from tests.bench.report import Report

OBJECTS = int(os.environ.get("KCM_BENCH_OBJECTS", "10000"))
CHANGES = 50  # made one after the other: how soon each is followed
PATIENCE = 240.0  # seconds for all of them
NAMESPACE = "echoes"
PATH = f"/apis/bench.kcm.dev/v1/namespaces/{NAMESPACE}/echoes"
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
STATUS = {**TEXT, "x-kubernetes-preserve-unknown-fields": True}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "echoes.bench.kcm.dev"},
    "spec": {
        "group": "bench.kcm.dev",
        "scope": "Namespaced",
        "names": {"plural": "echoes", "singular": "echo", "kind": "Echo"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": TEXT, "status": STATUS}}},
            }
        ],
    },
}
Command = Callable[[Cluster], Sequence[str]]


def contestants() -> dict[str, Command]:
    """Those that can be run here; of the others stderr says why not."""
    found: dict[str, Command] = {
        "kcm": lambda cluster: (sys.executable, "-m", "tests.bench.echoes", str(cluster.kubeconfig))
    }
    if program := os.environ.get("KCM_BENCH_ECHOES"):
        found["controller-runtime"] = lambda cluster: (program, str(cluster.kubeconfig))
    else:
        print("KCM_BENCH_ECHOES is not set: no comparison with controller-runtime.", file=sys.stderr)
    if importlib.util.find_spec("kopf") is not None:
        module = str(Path(__file__).with_name("echoes_kopf.py"))
        found["kopf"] = lambda cluster: (
            *("env", f"KUBECONFIG={cluster.kubeconfig}", sys.executable, "-m"),
            *("kopf", "run", "--standalone", "--namespace", NAMESPACE, module),
        )
    else:
        print("kopf is not installed: no comparison with it.", file=sys.stderr)
    return found


def custom_resources(cluster: Cluster, hand: Hand, report: Report) -> None:
    """One round."""
    echoes = Echoes(hand)
    for who, command in contestants().items():
        echoes.say_anew()
        with echoes.watched(), scratch() as directory:
            process = Process(command(cluster), log=directory / "log")
            try:
                followed = echoes.wait_for_all(within=PATIENCE)
                if followed < 2:
                    print(f"{who} does nothing:\n{(directory / 'log').read_text()[-2000:]}", file=sys.stderr)
                    continue
                figures = {
                    "reconciliations_per_second": followed / (echoes.last - echoes.first),
                    "all_after_seconds": echoes.last - process.began if followed == OBJECTS else math.inf,
                    "cpu_ms_per_reconciliation": process.cpu() * 1000 / followed,
                    "resident_mb": process.resident(),
                }
                if followed == OBJECTS:
                    figures["change_followed_ms"] = echoes.latency() * 1000
                report.add(f"{OBJECTS} custom resources", f"{who} on {cluster.name}", **figures)
            finally:
                process.kill()


class Echoes:
    """The objects, and which of them have a status that says what the spec says."""

    def __init__(self, hand: Hand) -> None:
        self._hand, self._names = hand, [f"echo-{number}" for number in range(OBJECTS)]
        self._number = 0
        self._said: dict[str, str] = {}  # by name: what its spec is to say
        self._left: set[str] = set()  # names of those whose status says something else
        self._changed = threading.Condition()
        self.first = self.last = 0.0

    def say_anew(self) -> None:
        """Each one is to say something that none has said yet; where there is none, it is made."""
        if self._hand.ask("GET", f"{PATH}/{self._names[0]}").status == 404:
            self._prepare()
        self._number += 1
        with ThreadPoolExecutor(16) as pool:
            for response in pool.map(self._say, self._names):
                if not 200 <= response < 300:
                    raise RuntimeError(f"an Echo could not be changed: {response}")
        self._left = set(self._names)

    @contextmanager
    def watched(self) -> Iterator[None]:
        with self._hand.watching(PATH, self._on_lines):
            yield

    def wait_for_all(self, *, within: float) -> int:
        """Returns how many are followed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._left, within)
            return len(self._names) - len(self._left)

    def latency(self) -> float:
        """Seconds in the median from a change until it is followed."""
        found = []
        for name in self._names[:CHANGES]:
            with self._changed:
                self._left.add(name)
            self._number += 1
            began = time.monotonic()
            self._say(name)
            with self._changed:
                assert self._changed.wait_for(lambda: not self._left, 30.0), f"{name} is not followed after 30 s"
            found.append(time.monotonic() - began)
        return statistics.median(found)

    def _prepare(self) -> None:
        """The definition, the namespace, and all objects."""
        for path, body in (
            ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION),
            ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
        ):
            response = self._hand.ask("POST", path, orjson.dumps(body))
            if not 200 <= response.status < 300:
                raise RuntimeError(f"POST {path}: {response.status} {response.body[:200]!r}")
        deadline = time.monotonic() + 30.0
        while self._hand.ask("GET", PATH).status != 200:  # a real server takes a moment to serve it
            if time.monotonic() > deadline:
                raise TimeoutError(f"{PATH} is not served after 30 s")
            time.sleep(0.1)
        with ThreadPoolExecutor(16) as pool:
            for status in pool.map(self._make, self._names):
                if status != 201:
                    raise RuntimeError(f"an Echo could not be made: {status}")

    def _make(self, name: str) -> int:
        body = {"apiVersion": "bench.kcm.dev/v1", "kind": "Echo", "metadata": {"name": name}, "spec": {"text": "0"}}
        return self._hand.ask("POST", PATH, orjson.dumps(body)).status

    def _say(self, name: str) -> int:
        text = self._said[name] = str(self._number)
        body = orjson.dumps({"spec": {"text": text}})
        return self._hand.ask("PATCH", f"{PATH}/{name}", body, content_type=PatchType.MERGE).status

    def _on_lines(self, lines: bytes) -> None:
        now = time.monotonic()
        with self._changed:
            for line in lines.splitlines():
                item = orjson.loads(line)["object"]
                name = item["metadata"]["name"]
                if name in self._left and item.get("status", {}).get("text") == self._said[name]:
                    if len(self._left) == len(self._names):
                        self.first = now
                    self.last = now
                    self._left.discard(name)
            if not self._left:
                self._changed.notify_all()
