"""Invariants receive exactly the observations that they declare."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kcm.actors.simulation
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import (
    OBSERVATIONS,
    Committed,
    Fail,
    Handled,
    InvariantChecker,
    Observation,
    only,
)
from kcm.protocols.resources import PODS
from kcm.runtime.logs.standard_log import quiet_log
from tests.support.objects import pod

FILES = sorted(Path(kcm.actors.simulation.__file__).parent.rglob("*.py"))


def with_a_choice() -> Iterator[ast.ClassDef]:
    """Yield the classes of the simulation that declare their observations."""
    for file in FILES:
        source = file.read_text(encoding="utf-8")
        if "observes = " in source:
            for node in ast.parse(source).body:
                if isinstance(node, ast.ClassDef) and _observe(node) and _declaration(node):
                    yield node


def _observe(invariant: ast.ClassDef) -> ast.FunctionDef | None:
    """Return the method `observe`."""
    methods = (node for node in invariant.body if isinstance(node, ast.FunctionDef))
    return next((method for method in methods if method.name == "observe"), None)


def _declaration(invariant: ast.ClassDef) -> str:
    """Return the source of the attribute `observes`, which some classes set in their constructor; "" without it."""
    for node in ast.walk(invariant):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("observes", "self.observes"):
            return ast.unparse(node.value)
    return ""


@pytest.mark.parametrize("invariant", [*with_a_choice()], ids=lambda invariant: invariant.name)
def test_invariant_declares_all_observations_that_it_uses(invariant: ast.ClassDef) -> None:
    # An invariant would pass trivially if it did not receive an observation that it checks.
    method = _observe(invariant)
    assert method is not None
    body = "\n".join(map(ast.unparse, method.body))
    assert _named(_declaration(invariant)) == _named(body)
    assert not re.search(r"(?<!isinstance)\(observation\s*[,)]", body), "what it hands on may be looked at elsewhere"


def _named(source: str) -> set[type]:
    return {observation for observation in OBSERVATIONS if re.search(rf"\b{observation.__name__}\b", source)}


class Seen:
    name = "seen"

    def __init__(self) -> None:
        self.kinds: set[type] = set()

    def observe(self, observation: Observation, _fail: Fail) -> None:
        self.kinds.add(type(observation))


class SeenOfCommits(Seen):
    observes = (Committed,)


def test_invariant_without_declaration_observes_everything() -> None:
    cluster = SimulatedCluster(log=quiet_log())
    everything, commits = Seen(), SeenOfCommits()
    InvariantChecker(cluster, [everything, commits])
    cluster.manager()
    cluster.create(PODS, pod("p1"))
    cluster.run_for(5.0)
    assert commits.kinds == {Committed}
    assert everything.kinds > commits.kinds


class SeenOfPods(Seen):
    observes = (only(Committed, "pods"), only(Handled, "hollow-kubelet"))

    def __init__(self) -> None:
        super().__init__()
        self.storages: set[str] = set()
        self.clients: set[str] = set()

    def observe(self, observation: Observation, _fail: Fail) -> None:
        if isinstance(observation, Committed):
            self.storages |= {change.storage for change in observation.changes}
        elif isinstance(observation, Handled):
            self.clients.add(observation.client)


@pytest.mark.parametrize("clusters", [(), ("edge",)])
def test_invariant_receives_only_the_subjects_that_it_selects(clusters: tuple[str, ...]) -> None:
    cluster = SimulatedCluster(log=quiet_log(), clusters=clusters)
    (name,) = clusters or ("",)
    pods = SeenOfPods()
    checker = InvariantChecker(cluster, [pods])
    cluster.hollow_nodes(cluster=name)
    cluster.create(PODS.on(name) if name else PODS, pod("p1"))
    cluster.run_for(5.0)
    assert pods.storages == {f"{name}:pods" if name else "pods"}
    assert pods.clients == {"hollow-kubelet"}
    assert checker.checked["seen"] > 20, "other observations of these types count as well"
