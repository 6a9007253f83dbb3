"""Addresses of large Services: the same subsets as if they were computed from all pods."""

from __future__ import annotations

import random

import pytest

from kcm.actors.controllers.network.endpoints import large_services
from kcm.actors.controllers.network.endpoints.capacity import NOT_READY, READY, truncated
from kcm.actors.controllers.network.endpoints.large_services import Contribution, LargeService
from kcm.actors.controllers.network.shared.subsets import repacked
from kcm.actors.simulation.driver import Bench
from kcm.protocols.resources import PODS
from kcm.runtime.tables.table import Entry
from tests.actors.controllers.network.behind import pod

PORTS = [{"port": 80, "protocol": "TCP"}]


def contribution_of(entry: Entry) -> Contribution | None:
    if not entry.facts.ips:
        return None
    return {"ip": entry.facts.ips, "targetRef": {"uid": entry.uid}}, bool(entry.facts.ready)


@pytest.mark.parametrize("seed", range(5))
def test_subsets_are_those_of_all_pods(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_services, "CAPACITY", 6)
    chance, bench, large = random.Random(seed), Bench({PODS: []}), LargeService(1)
    for _ in range(60):
        name = f"p{chance.randrange(16)}"
        if chance.random() < 0.3 and bench.tables[PODS].entry(f"default/{name}") is not None:
            bench.hide(PODS, f"default/{name}")
        else:
            ips = (f"10.0.0.{chance.randrange(5)}",) if chance.random() < 0.9 else ()
            bench.show(PODS, pod(name, ips=ips, ready=chance.random() < 0.6))
        pods = bench.tables[PODS].entries()
        large.update(pods, contribution_of)
        found = [contribution for entry in pods if (contribution := contribution_of(entry)) is not None]
        given = [{READY if ready else NOT_READY: [address], "ports": PORTS} for address, ready in found]
        expected = truncated(repacked(given), 6)
        assert large.is_over_capacity == (expected is not None)
        if expected is not None:
            assert large.subsets(PORTS) == expected
