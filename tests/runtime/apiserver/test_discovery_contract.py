"""Discovery shows what kube-apiserver's does, and one version more; see discovery_contract.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcm.runtime.apiserver.http.discovery import aggregated_discovery, discovery
from kcm.runtime.apiserver.kinds.runtime_config import served_kinds
from kcm.runtime.apiserver.registry.definitions import Registry
from tests.runtime.apiserver import discovery_contract
from tests.runtime.apiserver.discovery_contract import AGGREGATED

REAL = json.loads(discovery_contract.ANSWERS.read_text())


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    registry = Registry(served_kinds())

    def get(path: str, accept: str) -> dict[str, Any]:
        found = (
            aggregated_discovery(registry, path)
            if accept == AGGREGATED
            else discovery(registry, path, address="127.0.0.1:6443")
        )
        document: dict[str, Any] = json.loads(json.dumps(found))
        return document

    return discovery_contract.documents(get)


@pytest.mark.parametrize("path", REAL)
def test_discovery_is_that_of_kube_apiserver(ours: dict[str, Any], path: str) -> None:
    assert ours[path] == REAL[path]
