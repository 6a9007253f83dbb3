from __future__ import annotations

from ipaddress import ip_network
from itertools import combinations

import pytest

from kcm.actors.hollow.nodes.fleet import make_fleet, zone_name
from kcm.protocols.objects import Object


def test_zone_names_continue_after_z_with_two_letters() -> None:
    assert [zone_name(i) for i in (0, 1, 25, 26, 27, 51, 52, 701, 702)] == [
        "zone-a",
        "zone-b",
        "zone-z",
        "zone-aa",
        "zone-ab",
        "zone-az",
        "zone-ba",
        "zone-zz",
        "zone-aaa",
    ]


def test_nodes_are_assigned_to_zones_round_robin() -> None:
    fleet = make_fleet(nodes=5, zones=2)
    assert [(node.name, node.zone) for node in fleet.values()] == [
        ("hollow-node-0", "zone-a"),
        ("hollow-node-1", "zone-b"),
        ("hollow-node-2", "zone-a"),
        ("hollow-node-3", "zone-b"),
        ("hollow-node-4", "zone-a"),
    ]


def test_each_node_has_a_unique_address_and_cidr() -> None:
    fleet = list(make_fleet(nodes=20, zones=3, pods=300).values())
    assert len({name.address for name in fleet}) == 20
    ranges = [ip_network(name.pod_range) for name in fleet]
    assert not any(network.overlaps(other) for network, other in combinations(ranges, 2))
    assert all(network.num_addresses >= 2 * 300 for network in ranges)


def test_five_thousand_nodes_find_room() -> None:
    assert len(make_fleet(nodes=5000, zones=3)) == 5000


@pytest.mark.parametrize(
    "counts",
    [
        {"nodes": -1, "zones": 1},
        {"nodes": 1, "zones": 0},
        {"nodes": 1, "zones": 1, "pods": 0},
        {"nodes": 5000, "zones": 1, "pods": 5000},
        {"nodes": 200_000, "zones": 1},
    ],
)
def test_invalid_or_excessive_counts_are_refused(counts: Object) -> None:
    with pytest.raises(ValueError, match=r"hollow"):
        make_fleet(**counts)


def test_fleet_may_be_empty() -> None:
    assert make_fleet(nodes=0, zones=1) == {}


def test_a_node_for_few_pods_has_as_many_addresses_as_any() -> None:
    assert make_fleet(nodes=1, zones=1, pods=1)["hollow-node-0"].pod_range == "240.0.0.0/24"
