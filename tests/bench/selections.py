"""Memory of tables of 10,000 ConfigMaps of 4 kB: of whole objects, of metadata only, of one in a hundred by its label.

Each is measured in a separate process that embeds a system with one controller, which watches and does nothing:
`python -m tests.bench.selections KUBECONFIG SELECTION`. The selection "nothing" watches an empty namespace: its memory
is the baseline.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson

from kcm.actors.app.connection import api_transport
from kcm.actors.app.system import ControllerSystem
from kcm.actors.reconciliation import Reconciliation, Watch
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.objects import Key
from kcm.protocols.resources import Resource
from tests.bench.processes import ApiConnection, Cluster, Process
from tests.bench.watchers import no_keys

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
OBJECTS, PAYLOAD = 10_000, 4000
NAMESPACE, EMPTY, CHOSEN = "bench-selections", "bench-nothing", "bench/chosen"
SELECTIONS: Mapping[str, Mapping[str, Any]] = {
    "nothing": {"namespaces": (EMPTY,)},
    "one in a hundred": {"labels": CHOSEN},
    "metadata": {"metadata_only": True},
    "whole": {},
    "whole and metadata": {},
}
SYNC_TIMEOUT = 120.0
STEADY = 2.0  # seconds until no mailbox contains messages of the list any more


class Idle:
    def reconcile(self, key: Key) -> Reconciliation:
        yield from ()
        raise AssertionError(f"unexpected key {key}: this controller enqueues none")


def watching(name: str, **selected: Any) -> ControllerSpec:
    watch = Watch(CONFIGMAPS, to=no_keys, **selected)
    return ControllerSpec(name=name, build=lambda _context: Idle(), queues=(Queue(watches=(watch,)),))


def fill(api: ApiConnection) -> None:
    """Create the ConfigMaps if they do not exist."""
    if api.request("GET", f"/api/v1/namespaces/{NAMESPACE}").status == 200:
        return
    for namespace in (NAMESPACE, EMPTY):
        api.request("POST", "/api/v1/namespaces", orjson.dumps({"metadata": {"name": namespace}}))

    def create(number: int) -> None:
        labels = {CHOSEN: "yes"} if number % 100 == 0 else {}
        body = {"metadata": {"name": f"c{number}", "labels": labels}, "data": {"x": "x" * PAYLOAD}}
        response = api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", orjson.dumps(body))
        if response.status != 201:
            raise RuntimeError(f"cannot create a ConfigMap: {response.status} {response.error}")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(create, range(OBJECTS)))


def measure_selection(cluster: Cluster, directory: Path, selection: str) -> dict[str, float]:
    log = directory / "selections.log"
    argv = [sys.executable, "-P", "-m", "tests.bench.selections", str(cluster.kubeconfig), selection]
    process = Process(argv, log=log)
    try:
        deadline = time.monotonic() + SYNC_TIMEOUT
        while b"SYNCED" not in log.read_bytes():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not synced: {log.read_text()[-500:]}")
            time.sleep(0.1)
        return {"cpu_seconds_to_sync": process.cpu(), "resident_mb": process.resident()}
    finally:
        process.kill()


def main() -> None:
    kubeconfig, selection = sys.argv[1:]
    specs = [watching("first-controller", **SELECTIONS[selection])]
    if selection == "whole and metadata":
        specs.append(watching("second-controller", metadata_only=True))
    with (
        api_transport(kubeconfig) as transport,
        ControllerSystem(transport=transport, controllers=specs) as system,
    ):
        while not all(table.synced for table in system.tables.values()):
            time.sleep(0.05)
        time.sleep(STEADY)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(
            0
        )  # return the memory of the list to the system, so that only the table is measured
        print("SYNCED", sum(map(len, system.tables.values())), flush=True)
        system.wait()


if __name__ == "__main__":
    main()
