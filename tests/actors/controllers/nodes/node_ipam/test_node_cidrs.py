"""Tests of NodeCidrs: allocation of blocks to nodes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcm.actors.controllers.nodes.node_ipam.cidr_set import CidrSet, parse_network
from kcm.actors.controllers.nodes.node_ipam.node_cidrs import (
    ALLOCATIONS,
    MAX_CIDRS,
    RELEASES,
    TRIES,
    USAGE,
    ClusterCidrExhaustedError,
    NodeCidrs,
)
from kcm.runtime.metrics.registry import Metrics


class TextCidrs:
    """NodeCidrs that takes and returns CIDRs as text, for short tests."""

    def __init__(self, *clusters: tuple[str, int], services: Sequence[str] = ()) -> None:
        self.metrics = Metrics()
        self.cidrs = NodeCidrs(
            [CidrSet(parse_network(cluster), mask=mask) for cluster, mask in clusters],
            services=[parse_network(service) for service in services],
            metrics=self.metrics,
        )

    def allot(self, node: str) -> list[str]:
        return [str(network) for network in self.cidrs.allocate(node)]

    def hold(self, node: str, *networks: str) -> list[str]:
        taken = self.cidrs.occupy(node, tuple(map(parse_network, networks)))
        return [str(network) for network in taken]


SMALL = ("127.123.234.0/28", 30)
IPV6 = ("ace:cab:deca::/84", 98)


@pytest.mark.parametrize(
    ("clusters", "services", "held", "expected"),
    [
        ([("127.123.234.0/24", 30)], [], [], ["127.123.234.0/30"]),
        ([("127.123.234.0/24", 30)], ["127.123.234.0/26"], [], ["127.123.234.64/30"]),
        (
            [("127.123.234.0/24", 30)],
            ["127.123.234.0/26"],
            ["127.123.234.64/30", "127.123.234.68/30", "127.123.234.72/30", "127.123.234.80/30"],
            ["127.123.234.76/30"],
        ),
        ([("127.123.234.0/8", 24), IPV6], [], [], ["127.0.0.0/24", "ace:cab:deca::/98"]),
        ([IPV6, ("127.123.234.0/8", 24)], [], [], ["ace:cab:deca::/98", "127.0.0.0/24"]),
        (
            [("127.123.234.0/8", 24), IPV6, ("10.0.0.0/8", 24)],
            [],
            [],
            ["127.0.0.0/24", "ace:cab:deca::/98", "10.0.0.0/24"],
        ),
        ([("10.10.0.0/22", 24)], [], ["10.10.0.0/24", "10.10.2.0/24"], ["10.10.1.0/24"]),
        ([IPV6], ["10.0.0.0/8"], [], ["ace:cab:deca::/98"]),
    ],
)
def test_first_free_block_of_each_range_is_allocated(
    clusters: Sequence[tuple[str, int]], services: Sequence[str], held: Sequence[str], expected: list[str]
) -> None:
    blocks = TextCidrs(*clusters, services=services)
    for number, network in enumerate(held):
        blocks.hold(f"old-{number}", network)
        blocks.hold(f"old-{number}", network)  # observed twice, counted once
    assert blocks.allot("new") == expected
    assert blocks.cidrs.cidrs_of("new") == tuple(map(parse_network, expected))


@pytest.mark.parametrize(
    "networks",
    [["10.10.0.0/24"], ["127.123.234.0/30", "ace:cab:deca::/98"], ["ace:cab:deca::/98"]],
)
def test_cidr_outside_the_cluster_cidrs_is_rejected(networks: Sequence[str]) -> None:
    blocks = TextCidrs(SMALL)
    blocks.hold("n", "127.123.234.4/30")
    with pytest.raises(ValueError):
        blocks.hold("n", *networks)
    assert blocks.hold("other", "127.123.234.4/30") == ["127.123.234.4/30"], "the first one is still occupied"


@pytest.mark.parametrize("networks", [["10.9.0.0/24", "ace:cab:deca::/98"], ["127.123.234.0/30", "beef::/98"]])
def test_each_cidr_of_a_dual_stack_node_must_match(networks: Sequence[str]) -> None:
    blocks = TextCidrs(SMALL, IPV6)
    with pytest.raises(ValueError, match="is out the range of cluster cidr"):
        blocks.hold("n", *networks)
    assert blocks.allot("m") == ["127.123.234.0/30", "ace:cab:deca::/98"]


def test_released_blocks_are_allocated_in_order() -> None:
    blocks = TextCidrs(SMALL)
    for number in range(4):
        assert blocks.allot(f"n{number}") == [f"127.123.234.{4 * number}/30"]
    for name in ("n2", "n1"):
        blocks.cidrs.release(name)
    assert [blocks.allot(name) for name in ("a", "b")] == [["127.123.234.4/30"], ["127.123.234.8/30"]]
    with pytest.raises(
        ClusterCidrExhaustedError, match="failed to allocate cidr from cluster cidr at idx:0: CIDR allocation"
    ):
        blocks.allot("c")


def test_exhausted_range_leaves_the_other_ranges_unchanged() -> None:
    blocks = TextCidrs(IPV6, ("10.0.0.0/30", 30))
    blocks.allot("n1")
    for _ in range(5):
        with pytest.raises(ClusterCidrExhaustedError, match="at idx:1"):
            blocks.allot("n2")
    assert blocks.cidrs.cidrs_of("n2") is None
    assert blocks.metrics.gauge(USAGE, IPV6[0]).value == 1 / 2**14


def test_shared_block_is_free_after_both_nodes_are_deleted() -> None:
    blocks = TextCidrs(("127.123.234.0/30", 30))
    assert blocks.hold("a", "127.123.234.0/30") == []
    assert blocks.hold("b", "127.123.234.0/30") == ["127.123.234.0/30"]
    blocks.cidrs.release("a")
    with pytest.raises(ClusterCidrExhaustedError):
        blocks.allot("c")
    blocks.cidrs.release("b")
    assert blocks.allot("c") == ["127.123.234.0/30"]


def test_changed_cidr_releases_the_previous_block() -> None:
    blocks = TextCidrs(("127.123.234.0/29", 30))
    blocks.allot("a")
    assert blocks.hold("a", "127.123.234.4/30") == []
    assert blocks.allot("b") == ["127.123.234.0/30"]


def test_node_in_the_service_range_keeps_it_reserved() -> None:
    blocks = TextCidrs(("127.123.234.0/29", 30), services=["127.123.234.0/30"])
    assert blocks.hold("a", "127.123.234.0/30") == ["127.123.234.0/30"]
    assert blocks.cidrs.release("a") == (parse_network("127.123.234.0/30"),)
    assert blocks.allot("b") == ["127.123.234.4/30"]


def test_node_without_blocks_releases_nothing() -> None:
    assert TextCidrs(SMALL).cidrs.release("n") == ()


def test_metrics_count_allocations_and_releases() -> None:
    blocks = TextCidrs(("10.0.0.0/24", 28), services=["10.0.0.0/27"])
    blocks.hold("a", "10.0.0.32/27")
    blocks.allot("b")
    blocks.cidrs.release("a")
    metrics, label = blocks.metrics, "10.0.0.0/24"
    assert metrics.counter(ALLOCATIONS, label).value == 2 + 2 + 1
    assert metrics.counter(RELEASES, label).value == 2
    assert metrics.gauge(MAX_CIDRS, label).value == 16
    assert metrics.gauge(USAGE, label).value == 3 / 16
    assert metrics.histogram(TRIES, label).sum == 4
