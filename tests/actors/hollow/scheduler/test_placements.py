from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.actors.hollow.scheduler.demand import Demand, Port
from kcm.actors.hollow.scheduler.node_fit import NodeUsage
from kcm.actors.hollow.scheduler.placements import Placement, Placements

SMALL = Demand(requests=(("cpu", 100),), cpu=100, memory=1, owner="rs")
LARGE = Demand(requests=(("cpu", 900), ("memory", 5)), cpu=900, memory=5, ports=(Port("TCP", "", 80),))


def placed(node: str = "n1", demand: Demand = SMALL, uid: str = "uid") -> Placement:
    return Placement(uid, node, demand, assumed=False)


def test_repeated_placement_counts_once() -> None:
    placements = Placements()
    for _ in range(3):
        placements.put("default/a", placed())
    assert placements.usages["n1"].requests["cpu"] == 100
    assert placements.siblings("rs") == {"n1": 1}
    assert placements.releases == 0


def test_resized_pod_counts_with_its_new_size() -> None:
    placements = Placements()
    placements.put("default/a", placed())
    placements.put("default/a", placed(demand=LARGE))
    assert placements.usages["n1"].requests["cpu"] == 900
    assert placements.releases == 1


def test_an_assumed_pod_that_is_seen_is_assumed_no_more() -> None:
    placements = Placements()
    placements.put("default/a", placed()._replace(assumed=True))
    placements.put("default/a", placed())
    assert placements.get("default/a").assumed is False


def test_removed_placement_releases_its_resources_once() -> None:
    placements = Placements()
    placements.put("default/a", placed())
    placements.remove("default/a")
    placements.remove("default/a")
    assert placements.usages["n1"].pods == 0
    assert placements.siblings("rs") == {}
    assert placements.releases == 1


def test_pods_without_an_owner_have_no_siblings() -> None:
    placements = Placements()
    placements.put("default/a", placed(demand=LARGE))
    assert placements.siblings("") == {}


STEPS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["n1", "n2", None]), st.sampled_from([SMALL, LARGE])))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(STEPS)
def test_sums_equal_those_of_the_existing_pods(steps: Any) -> None:
    placements, there = Placements(), {}
    for number, node, demand in steps:
        pod = f"default/{number}"
        if node is None:
            placements.remove(pod)
            there.pop(pod, None)
        else:
            placements.put(pod, placed(node, demand))
            there[pod] = (node, demand)
    for node in ("n1", "n2"):
        expected = NodeUsage()
        for where, demand in there.values():
            if where == node:
                expected.add(demand)
        usage = placements.usages.get(node, NodeUsage())
        assert (usage.cpu, usage.memory, usage.pods) == (expected.cpu, expected.memory, expected.pods)
        assert +usage.requests == +expected.requests
        assert +usage.ports == +expected.ports
        owned = sum(where == node and demand.owner == "rs" for where, demand in there.values())
        assert placements.siblings("rs").get(node, 0) == owned


def test_demands_of_deleted_pods_are_not_kept() -> None:
    placements = Placements()
    for number in range(5000):  # each pod has an owner of its own, and so a Demand of its own
        placements.put(f"default/{number}", placed(demand=Demand(owner=f"rs-{number}")))
        placements.remove(f"default/{number - 100}")
        assert len(placements._demands) <= 1202
    known = placements.get("default/4999")
    assert known is not None
    assert placements.shared(Demand(owner="rs-4999")) == known.demand
