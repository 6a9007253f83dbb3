"""Invariants receive exactly the observations that they declare."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

import kcm.actors.simulation
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import OBSERVATIONS, Committed, Fail, InvariantChecker, Observation
from kcm.protocols.resources import PODS
from kcm.runtime.logs.standard_log import quiet_log
from tests.support.objects import pod


def with_a_choice() -> Iterator[type]:
    """Yield the classes of the simulation that declare their observations."""
    for module in pkgutil.walk_packages(kcm.actors.simulation.__path__, "kcm.actors.simulation."):
        for found in vars(import_module(module.name)).values():
            if isinstance(found, type) and found.__module__ == module.name and "observes" in vars(found):
                yield found


@pytest.mark.parametrize("invariant", [*with_a_choice()], ids=lambda invariant: invariant.__name__)
def test_invariant_declares_all_observations_that_it_uses(invariant: type) -> None:
    # An invariant would pass trivially if it did not receive an observation that it checks.
    body = inspect.getsource(invariant.observe).partition("\n")[2]  # type: ignore[attr-defined]
    named = {observation for observation in OBSERVATIONS if re.search(rf"\b{observation.__name__}\b", body)}
    assert set(invariant.observes) == named  # type: ignore[attr-defined]
    assert not re.search(r"(?<!isinstance)\(observation\s*[,)]", body), "what it hands on may be looked at elsewhere"


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
