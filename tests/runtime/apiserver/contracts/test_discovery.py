"""Discovery documents of the embedded API server are those of kube-apiserver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.runtime_config import served_kinds
from kcm.runtime.apiserver.presentation.discovery import aggregated_discovery
from kcm.runtime.apiserver.presentation.discovery import discovery as legacy_discovery
from kcm.runtime.apiserver.registry.definitions import Registry
from tests.runtime.apiserver.contracts import discovery
from tests.runtime.apiserver.contracts.discovery import AGGREGATED

REAL = json.loads(discovery.RESPONSES.read_text())


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    registry = Registry(served_kinds())

    def get(path: str, accept: str) -> dict[str, Any]:
        found = (
            aggregated_discovery(registry, path)
            if accept == AGGREGATED
            else legacy_discovery(registry, path, address="127.0.0.1:6443")
        )
        document: dict[str, Any] = json.loads(json.dumps(found))
        return document

    return discovery.documents(get)


@pytest.mark.parametrize("path", REAL)
def test_discovery_is_that_of_kube_apiserver(ours: dict[str, Any], path: str) -> None:
    assert ours[path] == REAL[path]


@pytest.mark.cluster
def test_recorded_documents_are_those_of_kube_apiserver(tmp_path: Path) -> None:
    from tests.e2e.real_server import assets_or_skip

    assert discovery.real_documents(tmp_path, assets_or_skip()) == REAL
