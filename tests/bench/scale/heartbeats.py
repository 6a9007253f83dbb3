"""Heartbeats of many nodes by Leases, for little CPU.

`python -m tests.bench.scale.heartbeats KUBECONFIG NODES FAR [--interval SECONDS]` renews the Lease of each of
bench-node-0 … every 10 s, evenly spread. The last FAR nodes are silent from the first SIGUSR1 on, until SIGUSR2. Their
first heartbeat after that writes the condition Ready as well, as a kubelet does. At SIGTERM the program prints
{"renewed": …, "late_seconds": …} as JSON, the latter being the longest delay of a heartbeat, and ends.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pycurl

from kcm.protocols.messages.commands import PatchType
from tests.bench.curl import handle, headers, server_and_token
from tests.bench.kubelets import node_name

INTERVAL = 10.0  # seconds between two heartbeats of a node, as kubelets have by default
CONNECTIONS = 16  # kube-apiserver needs several for the 500 renewals a second of 5,000 nodes
TICK = 0.02  # seconds between two looks at what is due
GONE = 404  # status of a heartbeat of a deleted node


class Beat(NamedTuple):
    """Request of a heartbeat. due: monotonic time."""

    due: float
    path: str
    content_type: str
    body: bytes


class Heartbeats:
    """Sends the heartbeats of nodes over a few connections, in the order in which they are due."""

    def __init__(self, kubeconfig: Path, *, nodes: int, far: int, interval: float = INTERVAL) -> None:
        self._server, self._token = server_and_token(kubeconfig)
        self._nodes, self._first_far, self._interval = nodes, nodes - far, interval
        self._silent = self._ended = False
        self._returned: set[int] = set()  # nodes whose next heartbeat writes the condition
        self._due: deque[Beat] = deque()
        self._multi = pycurl.CurlMulti()
        self._idle = [handle(self._token) for _ in range(CONNECTIONS)]
        self._renewed, self._late = 0, 0.0

    def run(self) -> None:
        """Run until SIGTERM. Raises RuntimeError if a request is rejected."""
        signal.signal(signal.SIGUSR1, self._fall_silent)
        signal.signal(signal.SIGUSR2, self._return)
        signal.signal(signal.SIGTERM, self._end)
        began, sent = time.monotonic(), 0
        each = self._interval / self._nodes
        while not self._ended:
            until = int((time.monotonic() - began) / each)
            for number in range(sent, until):
                self._enqueue(number % self._nodes, due=began + number * each)
            sent = max(sent, until)
            self._send()
            while self._multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
                pass
            _, ended, failed = self._multi.info_read()
            for connection in ended:
                self._on_response(connection)
            for connection, _, _ in failed:  # the server is away or busy: the next heartbeat follows
                self._multi.remove_handle(connection)
                self._idle.append(connection)
            if ended or failed:
                continue
            if len(self._idle) == CONNECTIONS:
                time.sleep(TICK)  # `select` without a transfer returns at once
            else:
                self._multi.select(TICK)
        print(json.dumps({"renewed": self._renewed, "late_seconds": round(self._late, 2)}), flush=True)

    def _enqueue(self, node: int, *, due: float) -> None:
        if self._silent and node >= self._first_far:
            return
        name, now = node_name(node), datetime.now(UTC)
        lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
        spec = {"spec": {"renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}
        self._due.append(Beat(due, lease, PatchType.MERGE, orjson.dumps(spec)))
        if node in self._returned:
            self._returned.discard(node)
            status = {"status": {"conditions": [ready_condition(now)]}}
            path = f"/api/v1/nodes/{name}/status"
            self._due.append(Beat(due, path, PatchType.STRATEGIC, orjson.dumps(status)))

    def _send(self) -> None:
        while self._due and self._idle:
            beat, connection = self._due.popleft(), self._idle.pop()
            self._late = max(self._late, time.monotonic() - beat.due)
            connection.setopt(pycurl.URL, self._server + beat.path)
            connection.setopt(pycurl.CUSTOMREQUEST, "PATCH")
            connection.setopt(pycurl.HTTPHEADER, headers(self._token, content_type=beat.content_type))
            connection.setopt(pycurl.POSTFIELDS, beat.body)
            self._multi.add_handle(connection)

    def _on_response(self, connection: pycurl.Curl) -> None:
        self._multi.remove_handle(connection)
        self._idle.append(connection)
        status = connection.getinfo(pycurl.RESPONSE_CODE)
        if 400 <= status < 500 and status not in (GONE, 429):
            raise RuntimeError(f"{connection.getinfo(pycurl.EFFECTIVE_URL)}: {status}")
        self._renewed += status < 300

    def _fall_silent(self, *_: Any) -> None:
        self._silent = True

    def _return(self, *_: Any) -> None:
        self._silent = False
        self._returned = set(range(self._first_far, self._nodes))

    def _end(self, *_: Any) -> None:
        self._ended = True


def ready_condition(now: datetime) -> dict[str, str]:
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": stamp,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("nodes", type=int)
    parser.add_argument("far", type=int)
    parser.add_argument("--interval", type=float, default=INTERVAL)
    arguments = parser.parse_args()
    nodes, far = arguments.nodes, arguments.far
    Heartbeats(arguments.kubeconfig, nodes=nodes, far=far, interval=arguments.interval).run()


if __name__ == "__main__":
    main()
