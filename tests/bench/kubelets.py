"""Simulated scheduler and kubelets, the same for every manager, which use little CPU.

`python -m tests.bench.kubelets KUBECONFIG NAMESPACE NODES [--end]` binds each pod of the namespace ("" for all) to the
node that it requires, or otherwise to the next of bench-node-0 …, and writes a status in which it runs, has an address
and is ready. With --end it then writes the phase Succeeded. Deleted pods have no grace period, so the server removes
them. The program runs until it is killed.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pycurl

from kcm.protocols.messages.commands import PatchType
from tests.bench.curl import handle, headers, server_and_token

CONNECTIONS = 16
DELETED = (404, 409)  # status of a write to a pod that was deleted meanwhile


class Write(NamedTuple):
    """Write to a pod."""

    method: str  # POST, or PATCH with a merge patch
    path: str  # below that of the pod
    body: bytes


def node_name(number: int) -> str:
    return f"bench-node-{number}"


def node_of(pod: Mapping[str, Any], *, otherwise: str) -> str:
    """Return the node that the pod's affinity names, in the form of the DaemonSet controller, or `otherwise`."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name":
                return str(field["values"][0])
    return otherwise


def address_of(number: int) -> str:
    """Return an address of 11.0.0.0/8, which other benchmarks do not use."""
    return f"11.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def life_of(pod: Mapping[str, Any], *, otherwise: str, ends: bool, number: int = 1) -> Iterator[Write]:
    """Yield the writes for a new pod, each after the response to the previous one.

    otherwise: its default node
    number: of the pod, from which its address is made
    """
    name = pod["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node_of(pod, otherwise=otherwise)}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    yield Write("POST", "binding", orjson.dumps(binding))
    yield Write("PATCH", "status", orjson.dumps({"status": running(pod, address_of(number))}))
    if ends:
        yield Write("PATCH", "status", orjson.dumps({"status": succeeded(pod)}))


def running(pod: Mapping[str, Any], address: str) -> dict[str, Any]:
    now = _now()
    state = {"running": {"startedAt": now}}
    return {
        "phase": "Running",
        "startTime": now,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions("True", now),
        "containerStatuses": _containers(pod, state, ready=True),
    }


def succeeded(pod: Mapping[str, Any]) -> dict[str, Any]:
    now = _now()
    state = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now}}
    return {
        "phase": "Succeeded",
        "conditions": _conditions("False", now),
        "containerStatuses": _containers(pod, state, ready=False),
    }


def _conditions(ready: str, now: str) -> list[dict[str, str]]:
    statuses = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
    return [{"type": type, "status": status, "lastTransitionTime": now} for type, status in statuses.items()]


def _containers(pod: Mapping[str, Any], state: Mapping[str, Any], *, ready: bool) -> list[dict[str, Any]]:
    return [
        {"name": c["name"], "image": c["image"], "imageID": "", "restartCount": 0, "ready": ready, "state": state}
        for c in pod["spec"]["containers"]
    ]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class KubeletSimulator:
    """Sends the next write of each pod, over a few connections, in the order in which they became due."""

    def __init__(self, kubeconfig: Path, namespace: str, *, nodes: int, ends: bool) -> None:
        server, self._token = server_and_token(kubeconfig)
        self._namespaces = f"{server}/api/v1/namespaces"
        self._pods = f"{self._namespaces}/{namespace}/pods" if namespace else f"{server}/api/v1/pods"
        self._node_count, self._ends, self._count = nodes, ends, 0
        self._rest = b""  # incomplete line of the watch
        self._seen: set[str] = set()  # uids
        self._due: deque[tuple[str, Iterator[Write]]] = deque()  # URL of a pod, and its further writes
        self._multi = pycurl.CurlMulti()
        self._idle = [handle(self._token) for _ in range(CONNECTIONS)]
        self._writing: dict[pycurl.Curl, tuple[str, Iterator[Write]]] = {}

    def run(self) -> None:
        """Run until a request fails or a write is rejected. Raises RuntimeError then."""
        watch = handle(self._token)
        watch.setopt(pycurl.URL, f"{self._pods}?watch=true&fieldSelector=spec.nodeName%3D")
        watch.setopt(pycurl.WRITEFUNCTION, self._read)
        self._multi.add_handle(watch)
        while True:
            while self._multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
                pass
            _, ended, failed = self._multi.info_read()
            if failed:
                raise RuntimeError(f"{self._pods}: {failed}")
            for connection in ended:
                if connection is watch:  # ended, as servers do with slow watchers: the next watch starts with all pods
                    self._rest = b""
                    self._multi.remove_handle(watch)
                    self._multi.add_handle(watch)
                else:
                    self._on_response(connection)
            self._write()
            self._multi.select(1.0)

    def _read(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            event = orjson.loads(line)
            pod = event["object"]
            if event["type"] == "ADDED" and pod["metadata"]["uid"] not in self._seen:
                self._seen.add(pod["metadata"]["uid"])
                otherwise = node_name(self._count % self._node_count)
                self._count += 1
                life = life_of(pod, otherwise=otherwise, ends=self._ends, number=self._count)
                meta = pod["metadata"]
                self._due.append((f"{self._namespaces}/{meta['namespace']}/pods/{meta['name']}", life))

    def _write(self) -> None:
        while self._due and self._idle:
            url, life = self._due.popleft()
            write = next(life, None)
            if write is None:
                continue
            connection = self._idle.pop()
            content_type = PatchType.MERGE if write.method == "PATCH" else "application/json"
            connection.setopt(pycurl.URL, f"{url}/{write.path}")
            connection.setopt(pycurl.CUSTOMREQUEST, write.method)
            connection.setopt(pycurl.HTTPHEADER, headers(self._token, content_type=content_type))
            connection.setopt(pycurl.POSTFIELDS, write.body)
            self._writing[connection] = url, life
            self._multi.add_handle(connection)

    def _on_response(self, connection: pycurl.Curl) -> None:
        url, life = self._writing.pop(connection)
        self._multi.remove_handle(connection)
        self._idle.append(connection)
        status = connection.getinfo(pycurl.RESPONSE_CODE)
        if status < 300:
            self._due.append((url, life))
        elif status not in DELETED:
            raise RuntimeError(f"{connection.getinfo(pycurl.EFFECTIVE_URL)}: {status}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("namespace")
    parser.add_argument("nodes", type=int)
    parser.add_argument("--end", action="store_true")
    arguments = parser.parse_args()
    KubeletSimulator(arguments.kubeconfig, arguments.namespace, nodes=arguments.nodes, ends=arguments.end).run()


if __name__ == "__main__":
    main()
