"""Records the responses of kube-apiserver: python -m tests.runtime.apiserver.contracts [NAME ...]"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.e2e.real_server import binaries
from tests.runtime.apiserver.contracts import discovery, openapi_v2, protobuf, wire
from tests.runtime.apiserver.contracts.catalog import CONTRACTS
from tests.runtime.apiserver.contracts.kinds import play as kinds

RECORDERS: dict[str, Callable[[Path, Path], None]] = {
    **{contract.name: contract.record for contract in CONTRACTS},
    "kinds": kinds.record,
    "discovery": discovery.record,
    "openapi_v2": openapi_v2.record,
    "protobuf": protobuf.record,
    "wire": wire.record,
}


def main(names: list[str]) -> None:
    if unknown := set(names) - RECORDERS.keys():
        raise SystemExit(f"unknown contracts: {', '.join(sorted(unknown))}; there are {', '.join(RECORDERS)}")
    assets = binaries()
    if assets is None:
        raise SystemExit("there is no kube-apiserver: KUBEBUILDER_ASSETS names the directory with it and etcd")
    for name in names or RECORDERS:
        with tempfile.TemporaryDirectory() as directory:
            RECORDERS[name](Path(directory), assets)


if __name__ == "__main__":
    main(sys.argv[1:])
