"""`bin/run-bench server-sizes`: memory of a server with 10,000 and 100,000 pods, and duration of paged lists."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import quote

import orjson

from tests.bench.http_client import Access, Client, HttpRequest, Watchers
from tests.bench.pod_writer import pod
from tests.bench.processes import Cluster
from tests.bench.report import Report
from tests.bench.server_requests import access_by_roles, new_namespace, servers

SIZES = (10_000, 100_000)
PAGE = 500
CONNECTIONS = 32
BATCH = 5_000  # pods created at once; their bodies are in memory


def sizes(report: Report, _rounds: int, measure_noise: Callable[[], None]) -> None:
    """Measure each server once, one after the other."""
    with servers() as clusters:
        for cluster in clusters.values():
            _grow(cluster, access_by_roles(cluster), report)
            measure_noise()


def _grow(cluster: Cluster, access: Access, report: Report) -> None:
    new_namespace(cluster, "crowd")
    pods, empty, existing = "/api/v1/namespaces/crowd/pods", cluster.resident(), 0
    report.add("empty", cluster.name, resident_mb=empty)
    client = Client(access, connections=CONNECTIONS)
    for size in SIZES:
        while existing < size:
            client.send([HttpRequest("POST", pods, pod(number)) for number in range(existing, existing + BATCH)])
            existing += BATCH
        time.sleep(2.0)  # for memory to be returned to the system
        name = f"{size} pods"
        report.add(name, cluster.name, resident_mb=cluster.resident(), more_mb=cluster.resident() - empty)
        began = time.monotonic()
        seen = _listed_in_pages(client, pods)
        if seen != size:
            raise RuntimeError(f"{cluster.name}: {seen} pods of {size} in pages of {PAGE}")
        listed, began = time.monotonic() - began, time.monotonic()
        with Watchers(access, f"{pods}?watch=true", count=1) as watcher:
            watcher.wait_for(size, within=300.0)
            watched, began = time.monotonic() - began, time.monotonic()
            client.send([HttpRequest("DELETE", f"{pods}/only-writes-{number:05}") for number in range(BATCH)])
            watcher.wait_for(size + BATCH, within=300.0)
        existing -= BATCH
        report.add(
            name,
            cluster.name,
            listed_in_pages_seconds=listed,
            watch_begins_seconds=watched,
            deletions_per_second=BATCH / (time.monotonic() - began),
            most_mb=cluster.resident(),
        )
        client.send([HttpRequest("POST", pods, pod(number)) for number in range(BATCH)])
        existing += BATCH


def _listed_in_pages(client: Client, path: str) -> int:
    seen, token = 0, ""
    while True:
        page = orjson.loads(client.read(f"{path}?limit={PAGE}&continue={quote(token)}"))
        seen += len(page["items"])
        token = page["metadata"].get("continue", "")
        if not token:
            return seen
