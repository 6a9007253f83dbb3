"""One controller for many custom resources, written with kcm, kopf and controller-runtime, one after the other.

Each copies an Echo's text from its spec to its status. kopf is left out if it is not installed, and controller-runtime
unless KCM_BENCH_ECHOES names a program that runs the controller, with a kubeconfig as its argument.
KCM_BENCH_OBJECTS is the number of Echoes.
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
from tests.bench.processes import ApiConnection, Cluster, Process, scratch
from tests.bench.report import Report

OBJECTS = int(os.environ.get("KCM_BENCH_OBJECTS", "10000"))
CHANGES = 50  # made one after the other to measure the latency
TIMEOUT = 240.0  # seconds until all statuses are updated
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
    """Return the commands of the controllers that can run here. Print why the others cannot."""
    commands: dict[str, Command] = {
        "kcm": lambda cluster: (sys.executable, "-m", "tests.bench.echoes", str(cluster.kubeconfig))
    }
    if program := os.environ.get("KCM_BENCH_ECHOES"):
        commands["controller-runtime"] = lambda cluster: (program, str(cluster.kubeconfig))
    else:
        print("KCM_BENCH_ECHOES is not set: no comparison with controller-runtime.", file=sys.stderr)
    if importlib.util.find_spec("kopf") is not None:
        module = str(Path(__file__).with_name("echoes_kopf.py"))
        commands["kopf"] = lambda cluster: (
            *("env", f"KUBECONFIG={cluster.kubeconfig}", sys.executable, "-m"),
            *("kopf", "run", "--standalone", "--namespace", NAMESPACE, module),
        )
    else:
        print("kopf is not installed: no comparison with it.", file=sys.stderr)
    return commands


def custom_resources(cluster: Cluster, api: ApiConnection, report: Report) -> None:
    """Run one round."""
    echoes = Echoes(api)
    for who, command in contestants().items():
        echoes.change_all()
        with echoes.watched(), scratch() as directory:
            process = Process(command(cluster), log=directory / "log")
            try:
                updated = echoes.wait_for_all(within=TIMEOUT)
                if updated < 2:
                    print(f"{who} updates no status:\n{(directory / 'log').read_text()[-2000:]}", file=sys.stderr)
                    continue
                figures = {
                    "reconciliations_per_second": updated / (echoes.last - echoes.first),
                    "all_after_seconds": echoes.last - process.began if updated == OBJECTS else math.inf,
                    "cpu_ms_per_reconciliation": process.cpu() * 1000 / updated,
                    "resident_mb": process.resident(),
                }
                if updated == OBJECTS:
                    figures["change_followed_ms"] = echoes.latency() * 1000
                report.add(f"{OBJECTS} custom resources", f"{who} on {cluster.name}", **figures)
            finally:
                process.kill()


class Echoes:
    """The objects, and the names of those whose status does not have the text of the spec yet."""

    def __init__(self, api: ApiConnection) -> None:
        self._api, self._names = api, [f"echo-{number}" for number in range(OBJECTS)]
        self._number = 0
        self._texts: dict[str, str] = {}  # by name: text of the spec
        self._outdated: set[str] = set()  # names of Echoes whose status has another text
        self._changed = threading.Condition()
        self.first = self.last = 0.0

    def change_all(self) -> None:
        """Set a new text in all specs. Create the objects first if they do not exist."""
        if self._api.request("GET", f"{PATH}/{self._names[0]}").status == 404:
            self._prepare()
        self._number += 1
        with ThreadPoolExecutor(16) as pool:
            for status in pool.map(self._change, self._names):
                if not 200 <= status < 300:
                    raise RuntimeError(f"cannot change an Echo: {status}")
        self._outdated = set(self._names)

    @contextmanager
    def watched(self) -> Iterator[None]:
        with self._api.watching(PATH, self._on_lines):
            yield

    def wait_for_all(self, *, within: float) -> int:
        """Return the number of objects whose status is up to date, at most `within` seconds later."""
        with self._changed:
            self._changed.wait_for(lambda: not self._outdated, within)
            return len(self._names) - len(self._outdated)

    def latency(self) -> float:
        """Return the median of the seconds from a change of a spec to that of the status."""
        latencies = []
        for name in self._names[:CHANGES]:
            with self._changed:
                self._outdated.add(name)
            self._number += 1
            began = time.monotonic()
            self._change(name)
            with self._changed:
                assert self._changed.wait_for(lambda: not self._outdated, 30.0), (
                    f"the status of {name} is not updated after 30 s"
                )
            latencies.append(time.monotonic() - began)
        return statistics.median(latencies)

    def _prepare(self) -> None:
        """Create the definition, the namespace and all objects."""
        for path, body in (
            ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION),
            ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
        ):
            response = self._api.request("POST", path, orjson.dumps(body))
            if not 200 <= response.status < 300:
                raise RuntimeError(f"POST {path}: {response.status} {response.body[:200]!r}")
        deadline = time.monotonic() + 30.0
        while self._api.request("GET", PATH).status != 200:  # a real server serves it some time later
            if time.monotonic() > deadline:
                raise TimeoutError(f"{PATH} is not served after 30 s")
            time.sleep(0.1)
        with ThreadPoolExecutor(16) as pool:
            for status in pool.map(self._create, self._names):
                if status != 201:
                    raise RuntimeError(f"cannot create an Echo: {status}")

    def _create(self, name: str) -> int:
        body = {"apiVersion": "bench.kcm.dev/v1", "kind": "Echo", "metadata": {"name": name}, "spec": {"text": "0"}}
        return self._api.request("POST", PATH, orjson.dumps(body)).status

    def _change(self, name: str) -> int:
        text = self._texts[name] = str(self._number)
        body = orjson.dumps({"spec": {"text": text}})
        return self._api.request("PATCH", f"{PATH}/{name}", body, content_type=PatchType.MERGE).status

    def _on_lines(self, lines: bytes) -> None:
        now = time.monotonic()
        with self._changed:
            for line in lines.splitlines():
                item = orjson.loads(line)["object"]
                name = item["metadata"]["name"]
                if name in self._outdated and item.get("status", {}).get("text") == self._texts[name]:
                    if len(self._outdated) == len(self._names):
                        self.first = now
                    self.last = now
                    self._outdated.discard(name)
            if not self._outdated:
                self._changed.notify_all()
