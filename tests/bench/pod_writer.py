"""A client that only creates pods, to measure the rate that the server allows.

`python -m tests.bench.pod_writer KUBECONFIG NAMESPACE PODS` creates PODS pods whose owner, a ReplicaSet, does not
exist, over as many connections as the manager uses, and discards the responses. It watches nothing and writes no
events. It prints {"seconds": …, "cpu_seconds": …} as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pycurl

from tests.bench.curl import handle, server_and_token

CONNECTIONS = 64  # the limit of kcm.runtime.http.client.connections for one server


def pod(number: int) -> bytes:
    """Return a pod of the size that a ReplicaSet controller creates from the template of the benchmarks."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "only-writes",
        "uid": "00000000-0000-4000-8000-000000000000",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {"name": f"only-writes-{number:05}", "labels": {"app": "only-writes"}, "ownerReferences": [owner]}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).encode()


def write(kubeconfig: Path, namespace: str, pods: int) -> dict[str, float]:
    """Create the pods and return the figures. Raises RuntimeError if the server rejects one."""
    server, token = server_and_token(kubeconfig)
    url = f"{server}/api/v1/namespaces/{namespace}/pods"
    multi, begun, cpu = pycurl.CurlMulti(), time.monotonic(), time.process_time()
    waiting = [pod(number) for number in range(pods)]
    for _ in range(min(CONNECTIONS, pods)):
        connection = handle(token)
        connection.setopt(pycurl.URL, url)
        multi.add_handle(_post(connection, waiting.pop()))
    left = pods
    while left:
        multi.select(1.0)
        while multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
            pass
        _, ended, failed = multi.info_read()
        if failed:
            raise RuntimeError(f"POST {url}: {failed[0][2]}")
        for connection in ended:
            if (status := connection.getinfo(pycurl.RESPONSE_CODE)) != 201:
                raise RuntimeError(f"POST {url}: {status}")
            left -= 1
            multi.remove_handle(connection)
            if waiting:
                multi.add_handle(_post(connection, waiting.pop()))
    return {"seconds": time.monotonic() - begun, "cpu_seconds": time.process_time() - cpu}


def _post(connection: pycurl.Curl, body: bytes) -> pycurl.Curl:
    connection.setopt(pycurl.POSTFIELDS, body)
    return connection


if __name__ == "__main__":
    print(json.dumps(write(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
