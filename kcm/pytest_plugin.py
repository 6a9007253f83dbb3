"""Fixtures for tests of controllers, for other projects: see docs/testing.md. Registered as the pytest plugin `kcm`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from kcm import clusters, testing

Scope = Literal["session", "package", "module", "class", "function"]
SCOPES: tuple[Scope, ...] = ("session", "package", "module", "class", "function")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("kcm_cluster_scope", f"how long a `cluster` lives: {', '.join(SCOPES)}", default="session")
    parser.addini("kcm_hollow_nodes", "how many nodes it has that run pods in appearance", default="0")
    parser.addini("kcm_hollow_zones", "over how many zones they are spread", default="1")


def pytest_configure(config: pytest.Config) -> None:
    """Raise UsageError for invalid settings before any test runs."""
    scope = config.getini("kcm_cluster_scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"kcm_cluster_scope is one of {', '.join(SCOPES)}, not {scope!r}")
    for name in ("kcm_hollow_nodes", "kcm_hollow_zones"):
        if not config.getini(name).isdecimal():
            raise pytest.UsageError(f"{name} is a number, not {config.getini(name)!r}")


def _scope(fixture_name: str, config: pytest.Config) -> Scope:  # noqa: ARG001 (pytest names them)
    scope: Scope = config.getini("kcm_cluster_scope")
    return scope


@pytest.fixture
def world() -> testing.SimulatedCluster:
    """Return a cluster in one thread on virtual time: world.create(...), world.manager(...), world.run_for(60)."""
    return testing.SimulatedCluster()  # imported here, at its first use, because it imports the whole API server


@pytest.fixture(scope=_scope)
def cluster(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[clusters.LocalCluster]:
    """Start an API server in a separate process, on loopback: cluster.url, cluster.kubeconfig."""
    running = clusters.LocalCluster.start(
        tmp_path_factory.mktemp("kcm-cluster"),
        quiet=False,
        in_memory=True,
        nodes=int(request.config.getini("kcm_hollow_nodes")),
        zones=int(request.config.getini("kcm_hollow_zones")),
    )
    with running:
        yield running


@pytest.fixture(scope=_scope)
def kubeconfig(cluster: clusters.LocalCluster) -> Path:
    """Return the path of a kubeconfig with administrator rights for the `cluster`."""
    return cluster.kubeconfig
