"""Databases of kube-apiserver, in etcd, with the objects of a Population.

The objects are written as JSON, which kube-apiserver reads beside its own protobuf, through the JSON gateway of etcd.
The values are those of a kube-apiserver that stores JSON. Objects in the same transaction have the same
resourceVersion. An object is stored as protobuf from its first update on, as in a cluster that was migrated.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from tests.bench.processes import Cluster, Etcd, etcd, real_cluster, real_manager, scratch
from tests.bench.scale.population import (
    ACCOUNTS,
    CONFIG_MAPS,
    CSI_NODES,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NODES,
    ORIGINALS,
    PODS,
    READY_WITHIN,
    REPLICA_SETS,
    Copy,
    Population,
    copies,
    create_prototype,
)

PREFIXES = {
    NODES: "/registry/minions/",
    CSI_NODES: "/registry/csinodes/",
    LEASES: "/registry/leases/",
    NAMESPACES: "/registry/namespaces/",
    ACCOUNTS: "/registry/serviceaccounts/",
    CONFIG_MAPS: "/registry/configmaps/",
    DEPLOYMENTS: "/registry/deployments/",
    REPLICA_SETS: "/registry/replicasets/",
    PODS: "/registry/pods/",
}
PUTS, VALUES = 128, 1_000_000  # limits of etcd for a transaction: operations, and about the bytes of their values
QUOTA = "--quota-backend-bytes=8589934592"  # the default, 2 GiB, is too little for 150,000 pods that are rolled
LISTENING_WITHIN = 30.0  # seconds
# A Service in each namespace; apart from the addresses of the pods.
SERVICE_ADDRESSES = "--service-cluster-ip-range=10.96.0.0/16"
STORED_AS_JSON = "--storage-media-type=application/json"


@contextmanager
def populated_real_cluster(directory: Path, population: Population) -> Iterator[Cluster]:
    """Run kube-apiserver with the objects of a population, and with all default admission plugins.

    directory: of the data of etcd
    """
    originals = read_originals()
    with etcd(directory, QUOTA) as store:
        fill(store, copies(originals, population))
        with real_cluster(disabled=(), store=store, flags=(SERVICE_ADDRESSES,), ready_within=READY_WITHIN) as cluster:
            yield cluster


def read_originals() -> dict[str, bytes]:
    """Let kube-controller-manager and a hollow node create one of each object, and return their bodies by storage."""
    flags = (SERVICE_ADDRESSES, STORED_AS_JSON)
    with scratch() as directory, etcd(directory) as store:
        with real_cluster(disabled=(), store=store, flags=flags) as cluster:
            create_prototype(cluster, real_manager)
        return {storage: body for storage, key in ORIGINALS for body in _read(store, f"{PREFIXES[storage]}{key}")[:1]}


def fill(store: Etcd, objects: Iterable[Copy]) -> None:
    """Write objects. Waits until etcd listens. Raises TimeoutError, or RuntimeError if a transaction fails."""
    with closing(_connected(store)) as connection:
        for puts in batches(objects):
            _post(connection, "txn", {"success": [{"requestPut": put} for put in puts]})


def batches(objects: Iterable[Copy]) -> Iterator[list[dict[str, str]]]:
    """Yield the keys and values, encoded for etcd, of one transaction after the other."""
    puts: list[dict[str, str]] = []
    size = 0
    for storage, key, body in objects:
        if puts and (len(puts) == PUTS or size + len(body) > VALUES):
            yield puts
            puts, size = [], 0
        puts.append({"key": _encoded(f"{PREFIXES[storage]}{key}".encode()), "value": _encoded(body)})
        size += len(body)
    if puts:
        yield puts


def _read(store: Etcd, prefix: str) -> list[bytes]:
    """Return the values of all keys that begin with `prefix`."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    with closing(_connected(store)) as connection:
        keys = {"key": _encoded(prefix.encode()), "rangeEnd": _encoded(end.encode())}
        return [b64decode(found["value"]) for found in _post(connection, "range", keys).get("kvs", ())]


def _connected(store: Etcd) -> HTTPConnection:
    address = urlsplit(store.url)
    deadline = time.monotonic() + LISTENING_WITHIN
    while True:
        connection = HTTPConnection(str(address.hostname), address.port, timeout=LISTENING_WITHIN)
        try:
            connection.connect()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"etcd does not listen after {LISTENING_WITHIN:.0f} s") from None
            time.sleep(0.1)
        else:
            return connection


def _post(connection: HTTPConnection, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
    connection.request("POST", f"/v3/kv/{operation}", orjson.dumps(body))
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        raise RuntimeError(f"{operation} in etcd: {response.status} {answer[:200]!r}")
    found: dict[str, Any] = orjson.loads(answer)
    return found


def _encoded(value: bytes) -> str:
    return b64encode(value).decode()
