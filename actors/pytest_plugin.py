"""Fixtures for tests of controllers, for other projects: see docs/testing.md. Registered as the pytest plugin `kcm`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from actors.local_cluster import LocalCluster, start_local_cluster

if TYPE_CHECKING:
    from actors.simulation import SimulatedCluster

Scope = Literal["session", "package", "module", "class", "function"]
SCOPES: tuple[Scope, ...] = ("session", "package", "module", "class", "function")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("kcm_cluster_scope", f"how long a `cluster` lives: {', '.join(SCOPES)}", default="session")
    parser.addini("kcm_hollow_nodes", "how many nodes it has that run pods in appearance", default="0")
    parser.addini("kcm_hollow_zones", "over how many zones they are spread", default="1")


def _scope(fixture_name: str, config: pytest.Config) -> Scope:  # noqa: ARG001 (pytest names them)
    wanted = config.getini("kcm_cluster_scope")
    for scope in SCOPES:
        if scope == wanted:
            return scope
    raise pytest.UsageError(f"kcm_cluster_scope is one of {', '.join(SCOPES)}, not {wanted!r}")


def _number(config: pytest.Config, name: str) -> int:
    text: str = config.getini(name)
    if not text.isdecimal():
        raise pytest.UsageError(f"{name} is a number, not {text!r}")
    return int(text)


@pytest.fixture
def world() -> SimulatedCluster:
    """A cluster in one thread on virtual time: world.create(...), world.manager(...), world.run_for(60)."""
    # Imported here: it is the whole API server, and most runs of pytest where we are installed do not ask for it.
    simulation = import_module("actors.simulation")
    log = import_module("runtime.standard_log").standard_log("kcm")
    made: SimulatedCluster = simulation.SimulatedCluster(log=log)
    return made


@pytest.fixture(scope=_scope)
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """An API server in a process of its own, on loopback: cluster.url, cluster.kubeconfig."""
    running = start_local_cluster(
        tmp_path_factory.mktemp("kcm-cluster"),
        port=0,
        nodes=_number(request.config, "kcm_hollow_nodes"),
        zones=_number(request.config, "kcm_hollow_zones"),
    )
    with running:
        yield running


@pytest.fixture(scope=_scope)
def kubeconfig(cluster: LocalCluster) -> Path:
    """The file with which any client reaches the `cluster`, as its administrator."""
    return cluster.kubeconfig
